use everloom_core::{Payload, RowId, Step};
use rusqlite::{Connection, Row, params};

use super::{all, first, json, json_column, limit, payloads, run, run_on_one};
use crate::error::Result;
use crate::sql::steps as sql;

fn from_row(row: &Row<'_>) -> Result<Step> {
    Ok(Step {
        execution: RowId(row.get(0)?),
        seq: row.get(1)?,
        name: row.get(2)?,
        occurrence: row.get(3)?,
        facts: json_column(row, 4)?,
    })
}

pub(crate) fn find(
    conn: &Connection,
    execution: RowId,
    name: &str,
    occurrence: u32,
) -> Result<Option<Step>> {
    first(conn, sql::BY_NAME, params![execution.0, name, occurrence], from_row)
}

pub(crate) fn last(conn: &Connection, execution: RowId) -> Result<u32> {
    let last = first(conn, sql::LAST_SEQ, [execution.0], |row| Ok(row.get(0)?))?;
    Ok(last.unwrap_or(0))
}

pub(crate) fn after(
    conn: &Connection,
    execution: RowId,
    after: u32,
    rows: usize,
) -> Result<Vec<Step>> {
    all(conn, sql::AFTER, params![execution.0, after, limit(rows)], from_row)
}

pub(crate) fn results(conn: &Connection, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
    payloads::numbered(conn, sql::RESULT, execution, seqs)
}

pub(crate) fn add(conn: &Connection, step: &Step, result: &Payload) -> Result<()> {
    let result = payloads::add(conn, result)?;
    let Step { execution, seq, name, occurrence, facts } = step;
    let params = params![execution.0, seq, name, occurrence, json(facts)?, result];
    run_on_one(conn, sql::ADD, params)
}

pub(crate) fn drop_from(conn: &Connection, execution: RowId, from: u32) -> Result<()> {
    run(conn, sql::DROP_RESULTS, params![execution.0, from])?;
    run(conn, sql::DROP_FROM, params![execution.0, from]).map(drop)
}
