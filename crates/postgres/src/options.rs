use std::time::Duration;

/// How a database is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long to wait for a connection (5 seconds).
    pub connect_timeout: Duration,
    /// How long to wait for a lock of someone else before answering `unavailable` (5 seconds).
    /// Commands that share a transaction wait half a second at most: whoever runs them may run
    /// the one that needs the lock again, apart from the others.
    pub busy_timeout: Duration,
    /// How long a statement may take before the server gives it up (1 minute).
    pub statement_timeout: Duration,
    /// Whether an older or empty schema is brought to the current one (yes).
    pub migrate: bool,
    /// Whose clock counts.
    pub clock: TimeSource,
    /// Whether a commit also numbers its events (no), so that whoever wrote them can read them at
    /// once. Costs a second commit; without it they can be read a moment later.
    pub number_at_commit: bool,
    /// How often to look for what nobody told of (1 second).
    pub poll: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            busy_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(60),
            migrate: true,
            clock: TimeSource::Database,
            number_at_commit: false,
            poll: Duration::from_secs(1),
        }
    }
}

/// Whose clock counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSource {
    /// The database's: all who share it agree.
    #[default]
    Database,
    /// The one the commands are run with. Only for tests that move time by hand.
    Given,
}
