//! The questions.

use std::collections::BTreeMap;

use everloom_core::{Chunk, ChunkSpan, ReadStreams, Result, RowId, Stream, Summary};

use super::super::Batch;
use super::known::{Oldest, frames};
use crate::exchange::Sort;

impl ReadStreams for Batch<'_> {
    fn stream(&mut self, execution: RowId) -> Result<Option<Stream>> {
        if let Some(written) = self.round.streams.streams.get(&execution) {
            return Ok(Some(written.clone()));
        }
        if !self.has_stream(execution)? {
            return Ok(None);
        }
        let known = self.known.streams.streams.get(&execution).cloned();
        Ok(known.unwrap_or_else(|| {
            self.ask().streams.streams.insert(execution);
            None
        }))
    }

    fn chunks(
        &mut self,
        execution: RowId,
        after: u64,
        to: u64,
        live: bool,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Chunk>> {
        let mut room = Room { after, to, limit, bytes };
        let stored = self.stored_chunks(execution, live, room, false)?;
        let written = self.written_chunks(execution, live, room);
        let all: BTreeMap<u64, Chunk> = stored.chain(written).collect();
        Ok(all.into_values().take_while(|chunk| room.takes(chunk)).collect())
    }

    fn last_chunks(
        &mut self,
        execution: RowId,
        after: u64,
        to: u64,
        live: bool,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Chunk>> {
        let mut room = Room { after, to, limit, bytes };
        let stored = self.stored_chunks(execution, live, room, true)?;
        let written = self.written_chunks(execution, live, room);
        let all: BTreeMap<u64, Chunk> = stored.chain(written).collect();
        Ok(all.into_values().rev().take_while(|chunk| room.takes(chunk)).collect())
    }

    fn oldest_chunks(
        &mut self,
        execution: RowId,
        live: bool,
        wanted: u64,
    ) -> Result<Vec<ChunkSpan>> {
        let sort = (execution, live);
        let (mut spans, is_known) = match self.has_stream(execution)? {
            true => self.oldest_stored(sort, wanted),
            false => (vec![], true),
        };
        // Without those that this round wrote, which come later: whoever trims goes on to want more,
        // and so all that a batch trims is asked for at once.
        if !is_known {
            return Ok(spans);
        }
        let written = self.round.streams.chunks.range((execution, 0)..=(execution, u64::MAX));
        let written = written.map(|(_, chunk)| chunk).filter(|chunk| chunk.live == live);
        spans.extend(written.map(|chunk| ChunkSpan { first: chunk.first, last: chunk.last() }));
        spans.sort_by_key(|span| span.first);
        let mut found = 0;
        let mut is_enough = |span: &ChunkSpan| {
            let before = found;
            found += span.frames();
            before >= wanted
        };
        Ok(spans.into_iter().take_while(|span| !is_enough(span)).collect())
    }

    fn summary(&mut self, execution: RowId) -> Result<Option<Summary>> {
        if let Some(written) = self.round.streams.summaries.get(&execution) {
            return Ok(Some(written.clone()));
        }
        if !self.has_stream(execution)? {
            return Ok(None);
        }
        let known = self.known.streams.summaries.get(&execution).cloned();
        Ok(known.unwrap_or_else(|| {
            self.ask_summary(execution);
            None
        }))
    }
}

/// What is still wanted of a range of chunks.
#[derive(Clone, Copy)]
struct Room {
    after: u64,
    to: u64,
    limit: usize,
    bytes: usize,
}

impl Room {
    fn has(&self, chunk: &Chunk) -> bool {
        chunk.last() > self.after && chunk.first <= self.to
    }

    /// Whether there is room for a chunk, which it then takes.
    fn takes(&mut self, chunk: &Chunk) -> bool {
        let is_room = self.limit > 0 && self.bytes > 0;
        let first = chunk.first.max(self.after + 1);
        let within = ChunkSpan { first, last: chunk.last().min(self.to) }.frames();
        self.limit = self.limit.saturating_sub(usize::try_from(within).unwrap_or(usize::MAX));
        self.bytes = self.bytes.saturating_sub(chunk.bytes.len());
        is_room
    }
}

impl Batch<'_> {
    pub(super) fn ask_summary(&mut self, execution: RowId) {
        if !self.known.streams.summaries.contains_key(&execution) {
            self.ask().streams.summaries.insert(execution);
        }
    }

    /// The oldest chunks that the database has, without those that this round has dropped; and
    /// whether enough of them are known.
    fn oldest_stored(&mut self, sort: Sort, wanted: u64) -> (Vec<ChunkSpan>, bool) {
        let dropped = self.round.streams.dropped.get(&sort).copied().unwrap_or(0);
        let known = self.known.streams.oldest.get(&sort);
        let spans = known.map_or(&[][..], |known| &known.spans);
        let kept: Vec<ChunkSpan> =
            spans.iter().copied().filter(|span| span.last > dropped).collect();
        let is_enough = known.is_some_and(Oldest::is_all) || frames(&kept) >= wanted;
        if !is_enough {
            let gone = frames(spans) - frames(&kept);
            // Whoever has dropped more than is known here gets there in a few rounds.
            let more = known.map_or(0, |known| known.asked.saturating_mul(2));
            let asked = self.ask().streams.oldest.entry(sort).or_default();
            *asked = wanted.saturating_add(gone).max(more).max(*asked);
        }
        (kept, is_enough)
    }

    /// The chunks of a range that the database has, at least as many as there is room for. No command
    /// asks for these, so they are not worth batching.
    fn stored_chunks(
        &mut self,
        execution: RowId,
        live: bool,
        mut room: Room,
        backward: bool,
    ) -> Result<impl Iterator<Item = (u64, Chunk)> + use<>> {
        let mut found = Vec::new();
        if self.has_stream(execution)? {
            let dropped = |sort: bool| {
                let through = self.round.streams.dropped.get(&(execution, sort));
                through.copied().unwrap_or(0)
            };
            let dropped = [dropped(false), dropped(true)];
            let mut wanted = room;
            while room.limit > 0 && room.bytes > 0 && wanted.after < wanted.to {
                let Room { after, to, limit, bytes } = wanted;
                let mut rows = self.rows.direct();
                let page = match backward {
                    false => rows.chunks(execution, after, to, live, limit, bytes)?,
                    true => rows.last_chunks(execution, after, to, live, limit, bytes)?,
                };
                let Some(last) = page.last() else { break };
                match backward {
                    false => wanted.after = last.last(),
                    true => wanted.to = last.first - 1,
                }
                let kept = page
                    .into_iter()
                    .filter(|chunk| chunk.last() > dropped[usize::from(chunk.live)])
                    .filter(|chunk| room.takes(chunk));
                found.extend(kept);
            }
        }
        Ok(found.into_iter().map(|chunk: Chunk| (chunk.first, chunk)))
    }

    fn written_chunks(
        &self,
        execution: RowId,
        live: bool,
        room: Room,
    ) -> impl Iterator<Item = (u64, Chunk)> {
        let written = self.round.streams.chunks.range((execution, 0)..=(execution, u64::MAX));
        let chunks = written.map(|(_, chunk)| chunk);
        let meant = chunks.filter(move |chunk| (live || !chunk.live) && room.has(chunk));
        meant.map(|chunk| (chunk.first, chunk.clone()))
    }
}
