//! Questions about what executions have put out, and changes of it.

use everloom_core::{
    Chunk, ChunkSpan, Execution, ReadStreams, Result, RowId, Stream, Summary, WriteStreams,
};

use crate::rows::{chunks, streams, summaries};
use crate::view::View;

impl ReadStreams for View<'_> {
    fn stream(&mut self, execution: RowId) -> Result<Option<Stream>> {
        Ok(streams::find(self.conn, execution)?)
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
        let range = chunks::Range { after, to, live, backward: false, limit, bytes };
        Ok(chunks::within(self.conn, execution, range)?)
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
        let range = chunks::Range { after, to, live, backward: true, limit, bytes };
        Ok(chunks::within(self.conn, execution, range)?)
    }

    fn oldest_chunks(
        &mut self,
        execution: RowId,
        live: bool,
        frames: u64,
    ) -> Result<Vec<ChunkSpan>> {
        Ok(chunks::oldest(self.conn, execution, live, frames)?)
    }

    fn summary(&mut self, execution: RowId) -> Result<Option<Summary>> {
        Ok(summaries::find(self.conn, execution)?)
    }
}

impl WriteStreams for View<'_> {
    fn put_stream(&mut self, _: &Execution, stream: &Stream) -> Result<()> {
        self.change(|conn, _| streams::put(conn, stream))
    }

    fn add_chunk(&mut self, chunk: &Chunk) -> Result<()> {
        self.change(|conn, _| chunks::add(conn, chunk))
    }

    fn drop_chunks(&mut self, execution: RowId, live: bool, through: u64) -> Result<()> {
        self.change(|conn, _| chunks::drop_oldest(conn, execution, live, through))
    }

    fn trim_chunks(&mut self, gone: &[RowId], limit: usize) -> Result<usize> {
        self.change(|conn, _| chunks::trim(conn, gone, limit))
    }

    fn put_summary(&mut self, summary: &Summary) -> Result<()> {
        self.change(|conn, _| summaries::put(conn, summary))
    }
}
