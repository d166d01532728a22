//! What a round wrote.

use std::collections::{BTreeMap, BTreeSet};

use everloom_core::{Chunk, ExecutionId, RowId, Stream, Summary};

use super::known::Streams;
use crate::exchange::{Changes, Sort};

/// What a round wrote, at its last state.
#[derive(Default)]
pub(in crate::batch) struct NewStreams {
    pub(super) streams: BTreeMap<RowId, Stream>,
    /// Whose streams these are.
    pub(super) ids: BTreeMap<RowId, ExecutionId>,
    /// By their first frames.
    pub(super) chunks: BTreeMap<(RowId, u64), Chunk>,
    /// Up to which frame those that were there before are gone.
    pub(super) dropped: BTreeMap<Sort, u64>,
    pub(super) summaries: BTreeMap<RowId, Summary>,
    /// Whose chunks a rule knows to be removed.
    pub(super) told_trimmed: BTreeSet<Vec<RowId>>,
}

impl NewStreams {
    /// Forgets what was written about an execution that is removed.
    pub(in crate::batch) fn forget(&mut self, row: RowId) {
        self.streams.remove(&row);
        self.ids.remove(&row);
        self.chunks.retain(|place, _| place.0 != row);
        self.dropped.retain(|sort, _| sort.0 != row);
        self.summaries.remove(&row);
    }

    /// What is left to be written.
    pub(in crate::batch) fn into_changes(self, changes: &mut Changes, known: &Streams) {
        let changes = &mut changes.streams;
        changes.of.extend(self.ids.into_values());
        let streams = self.streams.into_iter();
        let changed = streams.filter(|(row, stream)| !is_same(known.streams.get(row), stream));
        changes.streams.extend(changed.map(|(_, stream)| stream));
        changes.dropped_chunks.extend(self.dropped);
        changes.new_chunks.extend(self.chunks.into_values());
        let summaries = self.summaries.into_iter();
        let changed = summaries.filter(|(row, one)| !is_same(known.summaries.get(row), one));
        changes.summaries.extend(changed.map(|(_, summary)| summary));
    }
}

fn is_same<T: PartialEq>(known: Option<&Option<T>>, written: &T) -> bool {
    known.and_then(Option::as_ref) == Some(written)
}
