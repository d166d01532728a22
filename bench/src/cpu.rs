//! Processor time, as Linux tells it: less noisy than a clock while others use the machine.

use std::path::Path;

/// Microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) own: u64,
    pub(crate) server: u64,
}

impl Spent {
    /// Since an earlier moment, for each of so many.
    pub(crate) fn per(self, earlier: Self, count: u64) -> Self {
        let per = |now: u64, then: u64| now.saturating_sub(then) / count.max(1);
        Self { own: per(self.own, earlier.own), server: per(self.server, earlier.server) }
    }

    /// Since an earlier moment, by everyone.
    pub(crate) fn since(self, earlier: Self) -> u64 {
        self.total().saturating_sub(earlier.total())
    }

    pub(crate) fn total(self) -> u64 {
        self.own + self.server
    }
}

/// Linux counts in hundredths of a second.
const TICK_US: u64 = 10_000;

pub(crate) fn of_this_process() -> u64 {
    Process::read("self").map_or(0, |process| process.own_us)
}

/// Of a PostgreSQL server with all its processes, also those that have ended.
pub(crate) fn of_server(data: &Path) -> u64 {
    let file = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let Some(pid) = file.lines().next() else { return 0 };
    let Some(server) = Process::read(pid) else { return 0 };
    let running: u64 = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| Process::read(entry.ok()?.file_name().to_str()?))
        .filter(|process| process.parent == pid)
        .map(|process| process.own_us)
        .sum();
    server.own_us + server.ended_children_us + running
}

struct Process {
    parent: String,
    own_us: u64,
    ended_children_us: u64,
}

impl Process {
    fn read(pid: &str) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may contain anything, and ends with the last parenthesis.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |from: usize| -> Option<u64> {
            let (user, system): (u64, u64) =
                (fields.get(from)?.parse().ok()?, fields.get(from + 1)?.parse().ok()?);
            Some((user + system) * TICK_US)
        };
        Some(Self {
            parent: (*fields.get(1)?).to_owned(),
            own_us: ticks(11)?,
            ended_children_us: ticks(13)?,
        })
    }
}
