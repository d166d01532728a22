//! A transaction as the rules see it: an identity map over what was loaded, and an overlay of what
//! was written.
//!
//! Commands that share a transaction run in rounds. What a round asks for and was not loaded yet
//! is noted; then all of it is loaded and locked at once, everything the round wrote is forgotten,
//! and the commands run again, until a round asks for nothing new. Only what the last round wrote
//! reaches the database.
//!
//! A round that noted something runs again in any case. So its questions need not be left
//! unanswered: most get the likely answer (a key that is not in use, a lane as it was in the last
//! transaction), and the rule goes on to its next question. That is why a command that asks for a
//! thousand rows one by one needs one load and not a thousand. What can not be taken back (rows
//! made or trimmed by a load) waits for a round whose answers were all true.
//!
//! Every load is followed by another round with the time it brought along, so the round that is
//! committed always runs with a `now` from after the last lock.

mod apart;
mod caches;
mod edges;
mod flows;
mod known;
mod limits;
mod lists;
mod mail;
mod read;
mod round;
mod streams;
#[cfg(test)]
mod tests;
mod ties;
mod write;

use everloom_core::{
    Clock, Error, ListScan, ListSlice, Read, Result, RowId, Timestamp, Transaction,
};

use crate::exchange::{Changes, Loaded, Wants};
use crate::options::TimeSource;
pub(crate) use apart::{Apart, Next};
pub(crate) use caches::Caches;
use known::Known;
use round::Round;

/// The database as a transaction needs it.
pub(crate) trait Rows {
    /// Loads and locks what is wanted, and tells the time after that.
    fn load(&mut self, wants: &Wants) -> Result<Loaded>;

    /// Writes everything and commits. Finds out about an outcome that is unknown;
    /// [`everloom_core::Error::conflict`] when another transaction got in the way.
    fn commit(&mut self, changes: &Changes, now: Timestamp) -> Result<()>;

    /// Ends without a trace. Also called after a commit that failed.
    fn rollback(&mut self);

    /// Executions that match, newest first: not locked, and without what was not written yet.
    fn list(
        &mut self,
        filter: &ListScan,
        below: Option<RowId>,
        limit: usize,
        scan: usize,
    ) -> Result<ListSlice>;

    /// Answers questions that no command asks, and that are not worth batching.
    fn direct(&mut self) -> Box<dyn Read + '_>;
}

/// A transaction on the rows of a database.
pub(crate) struct Batch<'a> {
    rows: Box<dyn Rows + 'a>,
    caches: &'a mut Caches,
    time: TimeSource,
    /// The time of this round.
    now: Timestamp,
    known: Known,
    round: Round,
    wants: Wants,
    /// Whether a load has made rows that the caches know and others do not.
    made_rows: bool,
    committed: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn begin(
        rows: Box<dyn Rows + 'a>,
        caches: &'a mut Caches,
        time: TimeSource,
    ) -> Self {
        caches.limit();
        Self {
            rows,
            caches,
            time,
            now: Timestamp::default(),
            known: Known::default(),
            round: Round::default(),
            wants: Wants::default(),
            made_rows: false,
            committed: false,
        }
    }

    /// The time of this round. Before the first load it is a guess: what depends on it waits.
    fn time(&self, clock: &dyn Clock) -> Timestamp {
        let now = match (self.time, self.known.now) {
            (TimeSource::Database, Some(now)) => now,
            (TimeSource::Given, Some(last_now)) => clock.now().max(last_now),
            (_, None) => clock.now(),
        };
        now.max(self.caches.last_now)
    }

    /// Where a question notes what it misses.
    fn ask(&mut self) -> &mut Wants {
        self.round.guessed = true;
        &mut self.wants
    }

    /// Where a write leaves what it wrote.
    fn overlay(&mut self) -> &mut Round {
        self.round.wrote = true;
        &mut self.round
    }

    /// Takes what this round wants, unless that is nothing.
    fn take_wants(&mut self) -> Option<Wants> {
        let mut wants = std::mem::take(&mut self.wants);
        if self.round.guessed {
            wants.postpone_makes();
        }
        if wants.limits.trim_gates.is_some() {
            wants.limits.spared = self.known.limits.gate_rows();
        }
        for claim in &mut wants.claims {
            // Others took from what was found for this one. Now there is enough for all of them.
            if self.known.pool(claim.lane, &claim.routes).is_some() {
                claim.limit = claim.limit.max(self.round.demand[&claim.lane]);
            }
        }
        let needs_clock = self.known.now.is_none() && (self.round.guessed || self.round.wrote);
        (needs_clock || wants != Wants::default()).then_some(wants)
    }
}

impl Transaction for Batch<'_> {
    fn load_missing(&mut self) -> Result<bool> {
        let Some(wants) = self.take_wants() else { return Ok(false) };
        self.made_rows |= wants.makes_rows();
        let loaded = self.rows.load(&wants)?;
        self.known.merge(wants, loaded, self.caches);
        self.round = Round::default();
        Ok(true)
    }

    fn commit(mut self: Box<Self>, now: Timestamp) -> Result<()> {
        if self.wants != Wants::default() {
            return Err(Error::bug("a round that still wants rows was committed"));
        }
        let changes = std::mem::take(&mut self.round).into_changes(&self.known);
        self.rows.commit(&changes, now)?;
        self.committed = true;
        self.caches.committed(&changes, now);
        Ok(())
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        if self.made_rows {
            self.caches.forget();
        }
        self.rows.rollback();
    }
}

impl Wants {
    /// Leaves out what a load would make or trim.
    fn postpone_makes(&mut self) {
        self.new_namespaces.clear();
        self.new_lanes.clear();
        self.new_routes.clear();
        self.trim_events = None;
        self.trim_keys = None;
        self.streams.trim.clear();
        self.limits.trim_gates = None;
    }

    fn makes_rows(&self) -> bool {
        !(self.new_namespaces.is_empty() && self.new_lanes.is_empty() && self.new_routes.is_empty())
    }
}

/// Whether an id stands for a row that the next load will make. The ids of rows are positive.
fn is_placeholder(id: i64) -> bool {
    id < 0
}
