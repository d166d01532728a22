//! The writes: into the overlay only.

use everloom_core::{Chunk, Error, Execution, Result, RowId, Stream, Summary, WriteStreams};

use super::super::Batch;

impl WriteStreams for Batch<'_> {
    fn put_stream(&mut self, execution: &Execution, stream: &Stream) -> Result<()> {
        self.expect_execution(execution.row)?;
        let streams = &mut self.overlay().streams;
        streams.streams.insert(execution.row, stream.clone());
        streams.ids.insert(execution.row, execution.id);
        Ok(())
    }

    fn add_chunk(&mut self, chunk: &Chunk) -> Result<()> {
        self.expect_execution(chunk.execution)?;
        let place = (chunk.execution, chunk.first);
        if self.overlay().streams.chunks.insert(place, chunk.clone()).is_some() {
            return Err(Error::bug(format!("the chunk {place:?} exists")));
        }
        Ok(())
    }

    fn drop_chunks(&mut self, execution: RowId, live: bool, through: u64) -> Result<()> {
        let stored = self.has_stream(execution)?;
        let streams = &mut self.overlay().streams;
        streams.chunks.retain(|(row, _), chunk| {
            (*row, chunk.live) != (execution, live) || chunk.last() > through
        });
        if stored {
            let dropped = streams.dropped.entry((execution, live)).or_default();
            *dropped = through.max(*dropped);
        }
        Ok(())
    }

    fn trim_chunks(&mut self, gone: &[RowId], limit: usize) -> Result<usize> {
        let is_new = self.overlay().streams.told_trimmed.insert(gone.to_vec());
        match self.known.streams.trimmed.get(gone) {
            Some(trimmed) if is_new => Ok(*trimmed),
            Some(_) => Ok(0),
            None => {
                self.wants.streams.trim.insert(gone.to_vec(), limit);
                Ok(0)
            }
        }
    }

    fn put_summary(&mut self, summary: &Summary) -> Result<()> {
        let row = summary.execution;
        self.expect_execution(row)?;
        // Who changes it without knowing the stream will ask for what it was before.
        if self.has_stream(row)? && !self.known.streams.streams.contains_key(&row) {
            self.ask_summary(row);
        }
        self.overlay().streams.summaries.insert(row, summary.clone());
        Ok(())
    }
}
