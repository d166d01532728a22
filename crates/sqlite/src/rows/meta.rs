use everloom_core::{FlowRow, RowId, Timestamp};
use rusqlite::{Connection, params};

use super::{first, integer, run_on_one, time};
use crate::caches::Caches;
use crate::error::{Fault, Result};
use crate::sql::meta as sql;

/// The one row every commit writes.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) last_now: Timestamp,
    pub(crate) last_row: RowId,
    pub(crate) last_flow: FlowRow,
    /// How many commits there were.
    pub(crate) commits: u64,
    /// Who made the last ones, each at the place of its number modulo their count.
    recent: [u8; RECENT * 8],
}

const RECENT: usize = 16;

impl Meta {
    /// Counts a commit.
    pub(crate) fn advance(&mut self, now: Timestamp, committer: [u8; 8]) {
        self.last_now = self.last_now.max(now);
        self.commits += 1;
        let at = Self::place(self.commits);
        self.recent[at..at + 8].copy_from_slice(&committer);
    }

    /// Whether a commit of that number was made, and by that committer; `None` when it is too long
    /// ago to be told.
    pub(crate) fn includes(&self, commit: u64, committer: [u8; 8]) -> Option<bool> {
        match self.commits.checked_sub(commit) {
            None => Some(false),
            Some(later) if later < RECENT as u64 => {
                let at = Self::place(commit);
                Some(self.recent[at..at + 8] == committer)
            }
            Some(_) => None,
        }
    }

    fn place(commit: u64) -> usize {
        (commit % RECENT as u64) as usize * 8
    }
}

pub(crate) fn read(conn: &Connection) -> Result<Meta> {
    let found = first(conn, sql::READ, [], |row| {
        Ok(Meta {
            last_now: time(row, 0)?,
            last_row: RowId(row.get(1)?),
            commits: super::count(row, 2)?,
            recent: row.get(3)?,
            last_flow: FlowRow(row.get(4)?),
        })
    })?;
    found.ok_or_else(|| Fault::bug("the meta row is gone"))
}

pub(crate) fn cached<'a>(conn: &Connection, caches: &'a mut Caches) -> Result<&'a mut Meta> {
    let meta = match caches.meta.take() {
        Some(meta) => meta,
        None => read(conn)?,
    };
    Ok(caches.meta.insert(meta))
}

pub(crate) fn write(conn: &Connection, meta: &Meta) -> Result<()> {
    run_on_one(
        conn,
        sql::WRITE,
        params![
            meta.last_now.as_millis(),
            meta.last_row.0,
            integer(meta.commits),
            meta.recent,
            meta.last_flow.0
        ],
    )
}

/// The row of the next execution.
pub(crate) fn new_row(conn: &Connection, caches: &mut Caches) -> Result<RowId> {
    let meta = cached(conn, caches)?;
    meta.last_row.0 += 1;
    Ok(meta.last_row)
}

/// The row of the next flow.
pub(crate) fn new_flow_row(conn: &Connection, caches: &mut Caches) -> Result<FlowRow> {
    let meta = cached(conn, caches)?;
    meta.last_flow.0 += 1;
    Ok(meta.last_flow)
}

pub(crate) fn next_due(conn: &Connection) -> Result<Option<Timestamp>> {
    let due = first(conn, sql::NEXT_DUE, [], |row| super::optional_time(row, 0))?;
    Ok(due.flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank() -> Meta {
        Meta {
            last_now: Timestamp::default(),
            last_row: RowId(0),
            last_flow: FlowRow(0),
            commits: 0,
            recent: [0; RECENT * 8],
        }
    }

    #[test]
    fn a_commit_is_known_by_its_committer_while_it_is_recent() {
        let (ours, theirs) = ([1; 8], [2; 8]);
        let mut meta = blank();
        meta.advance(Timestamp::from_millis(5), ours);
        assert_eq!(meta.includes(1, ours), Some(true));
        assert_eq!(meta.includes(1, theirs), Some(false));
        assert_eq!(meta.includes(2, ours), Some(false));
        for _ in 0..15 {
            meta.advance(Timestamp::from_millis(6), theirs);
        }
        assert_eq!(meta.includes(1, ours), Some(true));
        meta.advance(Timestamp::from_millis(7), theirs);
        assert_eq!(meta.includes(1, ours), None);
    }

    #[test]
    fn the_last_now_never_falls() {
        let mut meta = blank();
        meta.advance(Timestamp::from_millis(9), [0; 8]);
        meta.advance(Timestamp::from_millis(3), [0; 8]);
        assert_eq!(meta.last_now, Timestamp::from_millis(9));
    }
}
