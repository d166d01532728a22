//! What executions have put out: questions and writes about it.
//!
//! The execution is locked before any of it is looked at, and whoever changes it has that lock: so
//! none of it is locked itself. An execution that says it has no stream is not asked for it.

mod known;
mod read;
mod round;
mod write;

use everloom_core::{Result, RowId};

use super::Batch;
pub(super) use known::Streams;
pub(super) use round::NewStreams;

impl Batch<'_> {
    /// Whether the database has a stream of an execution.
    fn has_stream(&mut self, row: RowId) -> Result<bool> {
        self.has_beside(row, |execution| execution.beside.stream)
    }
}
