//! A transaction whose rows someone else loads and writes: whoever has the connection.

use std::mem::take;

use everloom_core::{
    Clock, Error, Job, ListScan, ListSlice, Read, Result, RowId, Settings, Timestamp, run_within,
};

use super::known::Known;
use super::{Batch, Caches, Rows};
use crate::exchange::{Changes, Loaded, Wants};
use crate::options::TimeSource;

/// What is known between two rounds of one command.
#[derive(Default)]
pub(crate) struct Apart {
    caches: Caches,
    known: Known,
}

/// What a round came to.
pub(crate) enum Next {
    /// It wants these rows, and runs again once they are merged.
    Load(Box<Wants>),
    /// It has its answer, and wrote this.
    Write(Box<Changes>),
    /// It has its answer, and wrote nothing.
    Nothing,
}

impl Apart {
    /// Runs the command with what is known.
    pub(crate) fn run(&mut self, job: &mut dyn Job, settings: &Settings) -> Result<Next> {
        let mut batch = Batch::begin(Box::new(NoRows), &mut self.caches, TimeSource::Database);
        batch.known = take(&mut self.known);
        let now = batch.time(&Unknown);
        let wrote = run_within(&mut batch, job, settings, now);
        let (wants, round) = (batch.take_wants(), take(&mut batch.round));
        self.known = take(&mut batch.known);
        drop(batch);
        Ok(match wants {
            Some(wants) => Next::Load(Box::new(wants)),
            None if wrote? => Next::Write(Box::new(round.into_changes(&self.known))),
            None => Next::Nothing,
        })
    }

    /// Adds what was loaded.
    pub(crate) fn merge(&mut self, wants: Wants, loaded: Loaded) {
        self.known.merge(wants, loaded, &mut self.caches);
    }
}

/// Before the first load nothing is known of the time, and what depends on it waits.
struct Unknown;

impl Clock for Unknown {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }
}

struct NoRows;

impl Rows for NoRows {
    fn load(&mut self, _: &Wants) -> Result<Loaded> {
        Err(Error::bug("rows are loaded by whoever has the connection"))
    }

    fn commit(&mut self, _: &Changes, _: Timestamp) -> Result<()> {
        Err(Error::bug("rows are written by whoever has the connection"))
    }

    fn rollback(&mut self) {}

    fn list(&mut self, _: &ListScan, _: Option<RowId>, _: usize, _: usize) -> Result<ListSlice> {
        Err(Error::bug("a submission lists nothing"))
    }

    fn direct(&mut self) -> Box<dyn Read + '_> {
        unreachable!("a submission asks only what is batched")
    }
}
