//! What was loaded.

use std::collections::BTreeMap;
use std::mem::take;

use everloom_core::{ChunkSpan, Execution, RowId, Stream, Summary};

use super::super::known::merge;
use crate::exchange::{Loaded, Sort, StreamWants};

/// What was loaded. A key without a value is one that was looked for and does not exist.
#[derive(Default)]
pub(in crate::batch) struct Streams {
    pub(super) streams: BTreeMap<RowId, Option<Stream>>,
    pub(super) oldest: BTreeMap<Sort, Oldest>,
    pub(super) summaries: BTreeMap<RowId, Option<Summary>>,
}

/// The oldest chunks of a sort, and how many frames were asked for.
#[derive(Default)]
pub(super) struct Oldest {
    pub(super) spans: Vec<ChunkSpan>,
    pub(super) asked: u64,
}

impl Oldest {
    /// Whether there are no others.
    pub(super) fn is_all(&self) -> bool {
        frames(&self.spans) < self.asked
    }
}

/// How many frames chunks have together.
pub(super) fn frames<'a>(spans: impl IntoIterator<Item = &'a ChunkSpan>) -> u64 {
    spans.into_iter().map(|span| span.frames()).sum()
}

impl Streams {
    /// Adds what was loaded; `executions` are those that are locked.
    pub(in crate::batch) fn merge(
        &mut self,
        wants: &mut StreamWants,
        loaded: &mut Loaded,
        executions: &BTreeMap<RowId, Execution>,
    ) {
        let loaded = &mut loaded.streams;
        // What comes along with an execution that was not there to be locked may still change.
        loaded.streams.retain(|stream| executions.contains_key(&stream.execution));
        let streams = take(&mut loaded.streams).into_iter().map(|one| (one.execution, one));
        merge(&mut self.streams, take(&mut wants.streams), streams);
        let summaries = take(&mut loaded.summaries).into_iter().map(|one| (one.execution, one));
        merge(&mut self.summaries, take(&mut wants.summaries), summaries);
        for (sort, asked) in take(&mut wants.oldest) {
            let spans = loaded.oldest.remove(&sort).unwrap_or_default();
            self.oldest.insert(sort, Oldest { spans, asked });
        }
    }
}
