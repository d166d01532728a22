//! What was loaded.

use std::collections::BTreeMap;
use std::mem::take;

use everloom_core::{ChunkSpan, Execution, RowId, Stream, Summary};

use super::super::caches::Caches;
use super::super::known::merge;
use crate::exchange::{Loaded, Sort, StreamWants};

/// What was loaded. A key without a value is one that was looked for and does not exist.
#[derive(Default)]
pub(in crate::batch) struct Streams {
    pub(super) streams: BTreeMap<RowId, Option<Stream>>,
    pub(super) oldest: BTreeMap<Sort, Oldest>,
    pub(super) summaries: BTreeMap<RowId, Option<Summary>>,
    /// How many chunks of executions that are gone a load has removed.
    pub(super) trimmed: BTreeMap<Vec<RowId>, usize>,
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
        caches: &mut Caches,
    ) {
        caches.keep_streams(wants);
        let loaded = &mut loaded.streams;
        self.trimmed.append(&mut loaded.trimmed);
        // What comes along with an execution that was not there to be locked may still change.
        loaded.streams.retain(|stream| executions.contains_key(&stream.execution));
        loaded.summaries.retain(|summary| executions.contains_key(&summary.execution));
        for row in loaded.streams.iter().map(|stream| stream.execution) {
            for (live, frames) in &wants.oldest_along {
                let asked = wants.oldest.entry((row, *live)).or_default();
                *asked = (*asked).max(*frames);
            }
            if wants.summaries_along {
                wants.summaries.insert(row);
            }
        }
        let streams = take(&mut loaded.streams).into_iter().map(|one| (one.execution, one));
        merge(&mut self.streams, take(&mut wants.streams), streams);
        let summaries = take(&mut loaded.summaries).into_iter().map(|one| (one.execution, one));
        merge(&mut self.summaries, take(&mut wants.summaries), summaries);
        for (sort, asked) in take(&mut wants.oldest) {
            let mut spans = loaded.oldest.remove(&sort).unwrap_or_default();
            // Two questions may have brought the same ones.
            spans.sort_by_key(|span| span.first);
            spans.dedup();
            self.oldest.insert(sort, Oldest { spans, asked });
        }
    }
}
