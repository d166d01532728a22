use everloom_core::{RowId, Suspension};
use rusqlite::{Connection, Row, params};

use super::{all, first, json, json_column, limit, run, run_on_one};
use crate::error::Result;
use crate::sql::suspensions as sql;

fn from_row(row: &Row<'_>) -> Result<Suspension> {
    Ok(Suspension {
        execution: RowId(row.get(0)?),
        number: row.get(1)?,
        run: row.get(2)?,
        key: row.get(3)?,
        terms: json_column(row, 4)?,
        course: json_column(row, 5)?,
    })
}

pub(crate) fn find(
    conn: &Connection,
    execution: RowId,
    number: Option<u32>,
) -> Result<Option<Suspension>> {
    match number {
        Some(number) => first(conn, sql::BY_NUMBER, params![execution.0, number], from_row),
        None => first(conn, sql::LAST, [execution.0], from_row),
    }
}

pub(crate) fn by_key(
    conn: &Connection,
    execution: RowId,
    run: u32,
    key: &str,
) -> Result<Option<Suspension>> {
    first(conn, sql::BY_KEY, params![execution.0, run, key], from_row)
}

pub(crate) fn after(
    conn: &Connection,
    execution: RowId,
    after: u32,
    rows: usize,
) -> Result<Vec<Suspension>> {
    all(conn, sql::AFTER, params![execution.0, after, limit(rows)], from_row)
}

pub(crate) fn add(conn: &Connection, suspension: &Suspension) -> Result<()> {
    let Suspension { execution, number, run, key, terms, course } = suspension;
    let params = params![execution.0, number, run, key, json(terms)?, json(course)?];
    run_on_one(conn, sql::ADD, params)
}

pub(crate) fn save(conn: &Connection, suspension: &Suspension) -> Result<()> {
    let course = json(&suspension.course)?;
    run_on_one(conn, sql::SAVE, params![suspension.execution.0, suspension.number, course])
}

pub(crate) fn drop_all(conn: &Connection, execution: RowId) -> Result<()> {
    run(conn, sql::DROP_ALL, [execution.0]).map(drop)
}
