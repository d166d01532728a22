use everloom_core::{Chunk, ChunkSpan, RowId};
use tokio_postgres::Row;

use super::records::Records;
use super::{Columns, from_json, integer, json};
use crate::error::Result;
use crate::exchange::Sort;
use crate::link::{Step, params};
use crate::sql::chunks as sql;

pub(crate) fn from_row(row: &Row) -> Result<Chunk> {
    let mut columns = Columns::of(row);
    Ok(Chunk {
        execution: RowId(columns.take()?),
        live: columns.take()?,
        first: columns.count()?,
        facts: from_json(columns.take()?)?,
        bytes: columns.take()?,
    })
}

pub(crate) fn span_from_row(row: &Row) -> Result<(Sort, ChunkSpan)> {
    let mut columns = Columns::of(row);
    let sort = (RowId(columns.take()?), columns.take()?);
    Ok((sort, ChunkSpan { first: columns.count()?, last: columns.count()? }))
}

/// The columns of the table.
const COLUMNS: i32 = 6;

pub(crate) fn add(chunks: &[Chunk]) -> Result<Step> {
    let mut records = Records::new(COLUMNS);
    for chunk in chunks {
        let facts = json(&chunk.facts)?;
        records
            .row()
            .put(chunk.execution.0)
            .put(chunk.live)
            .put(integer(chunk.first))
            .put(integer(chunk.last()))
            .put(&*facts)
            .put(&*chunk.bytes);
    }
    Ok(Step::Prepared(sql::ADD, params![records]))
}

/// Removes those of each sort up to some frame.
pub(crate) fn remove(through: &[(Sort, u64)]) -> Step {
    let rows: Vec<i64> = through.iter().map(|((row, _), _)| row.0).collect();
    let live: Vec<bool> = through.iter().map(|((_, live), _)| *live).collect();
    let frames: Vec<i64> = through.iter().map(|(_, frame)| integer(*frame)).collect();
    Step::Prepared(sql::DROP, params![rows, live, frames])
}
