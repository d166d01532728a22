//! Questions about what executions have put out.

use everloom_core::{Chunk, ChunkSpan, ReadStreams, Result, RowId, Stream, Summary};

use super::View;
use crate::link::params;
use crate::rows::{chunks, integer, limit, streams, summaries};
use crate::sql;

impl ReadStreams for View<'_> {
    fn stream(&mut self, execution: RowId) -> Result<Option<Stream>> {
        self.first(sql::streams::FIND, params![execution.0], streams::from_row)
    }

    fn chunks(
        &mut self,
        execution: RowId,
        after: u64,
        to: u64,
        live: bool,
        most: usize,
        bytes: usize,
    ) -> Result<Vec<Chunk>> {
        let sql = if live { sql::chunks::ANY } else { sql::chunks::DURABLE };
        self.range_of(sql, execution, (after, to), most, bytes)
    }

    fn last_chunks(
        &mut self,
        execution: RowId,
        after: u64,
        to: u64,
        live: bool,
        most: usize,
        bytes: usize,
    ) -> Result<Vec<Chunk>> {
        let sql = if live { sql::chunks::LAST_ANY } else { sql::chunks::LAST_DURABLE };
        self.range_of(sql, execution, (after, to), most, bytes)
    }

    fn oldest_chunks(
        &mut self,
        execution: RowId,
        live: bool,
        frames: u64,
    ) -> Result<Vec<ChunkSpan>> {
        let params = params![vec![execution.0], vec![live], vec![integer(frames)]];
        let spans = self.all(sql::chunks::OLDEST, params, chunks::span_from_row)?;
        Ok(spans.into_iter().map(|(_, span)| span).collect())
    }

    fn summary(&mut self, execution: RowId) -> Result<Option<Summary>> {
        self.first(sql::summaries::OF, params![vec![execution.0]], summaries::from_row)
    }
}

impl View<'_> {
    fn range_of(
        &mut self,
        sql: &'static str,
        execution: RowId,
        (after, to): (u64, u64),
        most: usize,
        bytes: usize,
    ) -> Result<Vec<Chunk>> {
        let from = integer(after.saturating_add(1));
        let params = params![execution.0, from, integer(to), limit(most), limit(bytes)];
        self.all(sql, params, chunks::from_row)
    }
}
