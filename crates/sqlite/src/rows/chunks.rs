use everloom_core::{Chunk, ChunkSpan, RowId};
use rusqlite::{Connection, Row, params};

use super::{count, first, integer, json, json_column, limit, run, run_on_one};
use crate::error::{Fault, Result};
use crate::sql::chunks as sql;

fn from_row(row: &Row<'_>) -> Result<Chunk> {
    Ok(Chunk {
        execution: RowId(row.get(0)?),
        live: row.get(1)?,
        first: count(row, 2)?,
        facts: json_column(row, 3)?,
        bytes: row.get(4)?,
    })
}

fn span(row: &Row<'_>, column: usize) -> Result<ChunkSpan> {
    Ok(ChunkSpan { first: count(row, column)?, last: count(row, column + 1)? })
}

/// What to read of a stream.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) after: u64,
    pub(crate) to: u64,
    pub(crate) live: bool,
    pub(crate) backward: bool,
    /// It is enough when this many frames or bytes have been found.
    pub(crate) limit: usize,
    pub(crate) bytes: usize,
}

impl Range {
    fn sql(&self) -> &'static str {
        match (self.live, self.backward) {
            (false, false) => sql::DURABLE,
            (false, true) => sql::LAST_DURABLE,
            (true, false) => sql::ANY,
            (true, true) => sql::LAST_ANY,
        }
    }

    /// How many frames of a chunk are in it.
    fn frames_in(&self, chunk: ChunkSpan) -> usize {
        let first = chunk.first.max(self.after.saturating_add(1));
        let within = ChunkSpan { first, last: chunk.last.min(self.to) };
        usize::try_from(within.frames()).unwrap_or(usize::MAX)
    }
}

pub(crate) fn within(conn: &Connection, execution: RowId, range: Range) -> Result<Vec<Chunk>> {
    let from = range.after.saturating_add(1);
    let mut spans = conn.prepare_cached(range.sql())?;
    let mut spans = spans.query(params![execution.0, integer(from), integer(range.to)])?;
    let mut chunks = Vec::new();
    let (mut frames, mut bytes) = (0_usize, 0_usize);
    // Only where the chunks stand is merged; what they hold is read of those alone that are wanted.
    while frames < range.limit
        && bytes < range.bytes
        && let Some(row) = spans.next()?
    {
        let id: i64 = row.get(0)?;
        let chunk = first(conn, sql::BY_ID, [id], from_row)?
            .ok_or_else(|| Fault::bug(format!("an index names the absent chunk {id}")))?;
        frames = frames.saturating_add(range.frames_in(span(row, 1)?));
        bytes += chunk.bytes.len();
        chunks.push(chunk);
    }
    Ok(chunks)
}

pub(crate) fn oldest(
    conn: &Connection,
    execution: RowId,
    live: bool,
    frames: u64,
) -> Result<Vec<ChunkSpan>> {
    let mut statement = conn.prepare_cached(sql::OLDEST)?;
    let mut rows = statement.query(params![execution.0, live])?;
    let mut spans = Vec::new();
    let mut found = 0;
    while found < frames
        && let Some(row) = rows.next()?
    {
        let span = span(row, 0)?;
        found += span.frames();
        spans.push(span);
    }
    Ok(spans)
}

pub(crate) fn add(conn: &Connection, chunk: &Chunk) -> Result<()> {
    let params = params![
        chunk.execution.0,
        chunk.live,
        integer(chunk.first),
        integer(chunk.last()),
        json(&chunk.facts)?,
        chunk.bytes
    ];
    run_on_one(conn, sql::ADD, params)
}

pub(crate) fn drop_oldest(
    conn: &Connection,
    execution: RowId,
    live: bool,
    through: u64,
) -> Result<()> {
    run(conn, sql::DROP_OLDEST, params![execution.0, live, integer(through)]).map(drop)
}

pub(crate) fn trim(conn: &Connection, gone: &[RowId], most: usize) -> Result<usize> {
    let mut trimmed = 0;
    for row in gone {
        if trimmed == most {
            break;
        }
        trimmed += run(conn, sql::TRIM, params![row.0, limit(most - trimmed)])?;
    }
    Ok(trimmed)
}
