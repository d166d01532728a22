use std::time::Duration;

/// How a database is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What an acknowledged commit survives.
    pub durability: Durability,
    /// How long to wait for another writer before answering `unavailable` (5 seconds).
    pub busy_timeout: Duration,
    /// Whether to keep a write-ahead log (yes). Without one, for file systems that can not share
    /// memory, commits are slower and reads wait for the writer.
    pub wal: bool,
    /// Whether an older or empty file is brought to the current schema (yes).
    pub migrate: bool,
    /// The most pages the file may have; for tests of a full disk.
    pub max_pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(5),
            wal: true,
            migrate: true,
            max_pages: None,
        }
    }
}

/// What an acknowledged commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The loss of power.
    #[default]
    Full,
    /// The death of every process; a loss of power may undo the last commits.
    Normal,
}
