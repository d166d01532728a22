//! What executions have put out.

use std::collections::{BTreeMap, BTreeSet};

use everloom_core::{Chunk, ChunkSpan, ExecutionId, RowId, Stream, Summary};

/// The frames of an execution that are live, or are not.
pub(crate) type Sort = (RowId, bool);

/// What is wanted. None of it is locked: the execution is, always before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamWants {
    /// Whether executions that are wanted by id bring their streams along, those who have one.
    pub(crate) along: bool,
    pub(crate) streams: BTreeSet<RowId>,
    /// What comes with each of these streams: the oldest chunks of a sort, as many as have so many
    /// frames together, and the summary.
    pub(crate) oldest_along: BTreeMap<bool, u64>,
    pub(crate) summaries_along: bool,
    /// The oldest chunks: as many as have so many frames together.
    pub(crate) oldest: BTreeMap<Sort, u64>,
    pub(crate) summaries: BTreeSet<RowId>,
    /// Executions that are gone, and how many of their chunks are to be removed now, because the
    /// rule wants to know how many there were.
    pub(crate) trim: BTreeMap<Vec<RowId>, usize>,
}

/// The answers to [`StreamWants`].
#[derive(Debug, Default)]
pub(crate) struct LoadedStreams {
    pub(crate) streams: Vec<Stream>,
    /// In their order.
    pub(crate) oldest: BTreeMap<Sort, Vec<ChunkSpan>>,
    pub(crate) summaries: Vec<Summary>,
    pub(crate) trimmed: BTreeMap<Vec<RowId>, usize>,
}

/// What a batch wrote.
#[derive(Debug, Default)]
pub(crate) struct StreamChanges {
    pub(crate) streams: Vec<Stream>,
    /// Whose streams went on: for those who watch elsewhere.
    pub(crate) of: Vec<ExecutionId>,
    /// Up to these frames, before new ones are added.
    pub(crate) dropped_chunks: Vec<(Sort, u64)>,
    pub(crate) new_chunks: Vec<Chunk>,
    pub(crate) summaries: Vec<Summary>,
}

impl StreamWants {
    /// Wants also what comes along with what `others` wants to lock.
    pub(super) fn add_locked(&mut self, others: &Self) {
        self.along |= others.along;
        self.summaries_along |= others.summaries_along;
        for (sort, frames) in &others.oldest_along {
            let wanted = self.oldest_along.entry(*sort).or_default();
            *wanted = (*wanted).max(*frames);
        }
    }
}
