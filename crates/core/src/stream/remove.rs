//! What executions have put out goes after them, in slices: a long stream is very many rows.

use crate::chore::{ChoreKind, Slice};
use crate::command::Context;
use crate::model::{Execution, Result, RowId};
use crate::store::Tx;

/// Leaves the frames of executions that were removed to the clock.
pub(crate) fn removed(tx: &mut dyn Tx, cx: &Context, executions: &[Execution]) -> Result<()> {
    let streaming = executions.iter().filter(|execution| execution.beside.stream);
    let gone: Vec<RowId> = streaming.map(|execution| execution.row).collect();
    match gone.is_empty() {
        true => Ok(()),
        false => tx.add_chore(&ChoreKind::RemoveFrames { gone }, cx.now).map(drop),
    }
}

/// Removes up to `rows` chunks of executions that are gone.
pub(crate) fn remove_frames(
    tx: &mut dyn Tx,
    cx: &Context,
    gone: &[RowId],
    rows: usize,
) -> Result<Slice> {
    match tx.trim_chunks(gone, rows)? < rows {
        true => Ok(Slice::Done),
        false => Ok(Slice::More { due_at: cx.now }),
    }
}
