//! What executions have put out.

use std::ops::Bound::{Excluded, Included};

use super::Session;
use super::tables::{Change, Tables};
use crate::model::{Chunk, ChunkSpan, Error, Execution, Result, RowId, Stream, Summary};
use crate::store::{ReadStreams, WriteStreams};

impl ReadStreams for Session<'_> {
    fn stream(&mut self, execution: RowId) -> Result<Option<Stream>> {
        Ok(self.tables.streams.get(&execution).map(|stream| Stream::clone(stream)))
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
        let from = self.tables.chunk_with(execution, after + 1).unwrap_or(after + 1);
        let chunks = self.tables.chunks.range((execution, from)..=(execution, to));
        Ok(enough(chunks.map(|(_, chunk)| &**chunk), (after, to), live, limit, bytes))
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
        let from = self.tables.chunk_with(execution, after + 1).unwrap_or(after + 1);
        let chunks = self.tables.chunks.range((execution, from)..=(execution, to)).rev();
        Ok(enough(chunks.map(|(_, chunk)| &**chunk), (after, to), live, limit, bytes))
    }

    fn oldest_chunks(
        &mut self,
        execution: RowId,
        live: bool,
        frames: u64,
    ) -> Result<Vec<ChunkSpan>> {
        let chunks = self.tables.index.chunks.range((execution, live, 0)..);
        let mut spans = Vec::new();
        let mut found = 0;
        for (row, sort, first) in chunks {
            if found >= frames || (*row, *sort) != (execution, live) {
                break;
            }
            let span =
                ChunkSpan { first: *first, last: self.tables.chunks[&(*row, *first)].last() };
            found += span.frames();
            spans.push(span);
        }
        Ok(spans)
    }

    fn summary(&mut self, execution: RowId) -> Result<Option<Summary>> {
        Ok(self.tables.summaries.get(&execution).map(|summary| Summary::clone(summary)))
    }
}

impl Tables {
    /// Where the chunk begins that has that frame.
    fn chunk_with(&self, execution: RowId, frame: u64) -> Option<u64> {
        let before = self.chunks.range((execution, 0)..=(execution, frame)).next_back();
        before.filter(|(_, chunk)| chunk.last() >= frame).map(|((_, first), _)| *first)
    }
}

/// As many as are asked for.
fn enough<'a>(
    chunks: impl Iterator<Item = &'a Chunk>,
    (after, to): (u64, u64),
    live: bool,
    limit: usize,
    bytes: usize,
) -> Vec<Chunk> {
    let (mut frames, mut size) = (0, 0);
    let mut found = Vec::new();
    for chunk in chunks.filter(|chunk| live || !chunk.live) {
        if frames >= limit || size >= bytes {
            break;
        }
        let within = chunk.last().min(to) - chunk.first.max(after + 1) + 1;
        frames += usize::try_from(within).unwrap_or(usize::MAX);
        size += chunk.bytes.len();
        found.push(chunk.clone());
    }
    found
}

impl WriteStreams for Session<'_> {
    fn put_stream(&mut self, execution: &Execution, stream: &Stream) -> Result<()> {
        self.expect_execution(execution.row)?;
        self.write(Change::Stream(execution.row, Some(Box::new(stream.clone()))));
        Ok(())
    }

    fn add_chunk(&mut self, chunk: &Chunk) -> Result<()> {
        self.expect_execution(chunk.execution)?;
        let place = (chunk.execution, chunk.first);
        if self.tables.chunks.contains_key(&place) {
            return Err(Error::bug(format!("the chunk {place:?} exists")));
        }
        self.write(Change::Chunk(place, Some(Box::new(chunk.clone()))));
        Ok(())
    }

    fn drop_chunks(&mut self, execution: RowId, live: bool, through: u64) -> Result<()> {
        let sort = Included((execution, live, 0));
        let chunks =
            self.tables.index.chunks.range((sort, Excluded((execution, live, through + 1))));
        let gone: Vec<_> = chunks
            .map(|(row, _, first)| (*row, *first))
            .filter(|place| self.tables.chunks[place].last() <= through)
            .collect();
        for place in gone {
            self.write(Change::Chunk(place, None));
        }
        Ok(())
    }

    fn trim_chunks(&mut self, gone: &[RowId], limit: usize) -> Result<usize> {
        let chunks = |row: &RowId| self.tables.chunks.range((*row, 0)..=(*row, u64::MAX));
        let places = gone.iter().flat_map(chunks).map(|(place, _)| *place);
        let places: Vec<_> = places.take(limit).collect();
        for place in &places {
            self.write(Change::Chunk(*place, None));
        }
        Ok(places.len())
    }

    fn put_summary(&mut self, summary: &Summary) -> Result<()> {
        self.expect_execution(summary.execution)?;
        self.write(Change::Summary(summary.execution, Some(Box::new(summary.clone()))));
        Ok(())
    }
}

impl Session<'_> {
    pub(super) fn remove_stream(&mut self, row: RowId) {
        self.write(Change::Summary(row, None));
        self.write(Change::Stream(row, None));
    }
}
