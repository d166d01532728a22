//! Streams: what executions have put out.

use crate::model::{Chunk, ChunkSpan, Execution, Result, RowId, Stream, Summary};

/// Questions about streams.
pub trait ReadStreams {
    /// The stream of an execution.
    fn stream(&mut self, execution: RowId) -> Result<Option<Stream>>;

    /// Chunks that have frames after one and up to another, in their order, without live ones if
    /// so asked: as many as have `limit` frames after that one, or `bytes` bytes, together.
    fn chunks(
        &mut self,
        execution: RowId,
        after: u64,
        to: u64,
        live: bool,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Chunk>>;

    /// The same, the last one first.
    fn last_chunks(
        &mut self,
        execution: RowId,
        after: u64,
        to: u64,
        live: bool,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<Chunk>>;

    /// The oldest chunks that are live, or are not: as many as have `frames` frames together.
    fn oldest_chunks(
        &mut self,
        execution: RowId,
        live: bool,
        frames: u64,
    ) -> Result<Vec<ChunkSpan>>;

    /// What a stream comes to.
    fn summary(&mut self, execution: RowId) -> Result<Option<Summary>>;
}

/// Writes of streams.
pub trait WriteStreams {
    /// Creates or replaces the stream of an execution.
    fn put_stream(&mut self, execution: &Execution, stream: &Stream) -> Result<()>;

    /// Inserts a chunk.
    fn add_chunk(&mut self, chunk: &Chunk) -> Result<()>;

    /// Removes the chunks that are live, or are not, whose last frame is not after that one.
    fn drop_chunks(&mut self, execution: RowId, live: bool, through: u64) -> Result<()>;

    /// Removes up to `limit` chunks of executions that are gone, and says how many.
    fn trim_chunks(&mut self, gone: &[RowId], limit: usize) -> Result<usize>;

    /// Creates or replaces what a stream comes to.
    fn put_summary(&mut self, summary: &Summary) -> Result<()>;
}
