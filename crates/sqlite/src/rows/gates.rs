use everloom_core::{Gate, GateCourse, GateRow, LimitRow, NamespaceId, Timestamp};
use rusqlite::{Connection, Row, params};

use super::{all, first, json, json_column, limit, millis, optional_time, run, run_on_one};
use crate::error::Result;
use crate::sql::gates as sql;

fn from_row(row: &Row<'_>) -> Result<Gate> {
    Ok(Gate {
        row: GateRow(row.get(0)?),
        namespace: NamespaceId(row.get(1)?),
        limit: LimitRow(row.get(2)?),
        key: row.get(3)?,
        course: json_column(row, 4)?,
        idle_at: optional_time(row, 5)?,
    })
}

pub(crate) fn find(
    conn: &Connection,
    namespace: NamespaceId,
    limit: LimitRow,
    key: &str,
) -> Result<Option<Gate>> {
    first(conn, sql::FIND, params![limit.0, key, namespace.0], from_row)
}

pub(crate) fn by_row(conn: &Connection, row: GateRow) -> Result<Option<Gate>> {
    first(conn, sql::BY_ID, [row.0], from_row)
}

pub(crate) fn after(
    conn: &Connection,
    of: LimitRow,
    after: Option<&str>,
    rows: usize,
) -> Result<Vec<Gate>> {
    match after {
        // The empty key is one as well.
        None => all(conn, sql::FIRST, params![of.0, limit(rows)], from_row),
        Some(after) => all(conn, sql::AFTER, params![of.0, limit(rows), after], from_row),
    }
}

pub(crate) fn add(
    conn: &Connection,
    namespace: NamespaceId,
    limit: LimitRow,
    key: &str,
) -> Result<Gate> {
    let course = GateCourse::default();
    run_on_one(conn, sql::ADD, params![namespace.0, limit.0, key, json(&course)?])?;
    let row = GateRow(conn.last_insert_rowid());
    Ok(Gate { row, namespace, limit, key: key.to_owned(), course, idle_at: None })
}

pub(crate) fn save(conn: &Connection, gate: &Gate) -> Result<()> {
    let params = params![gate.row.0, json(&gate.course)?, millis(gate.idle_at)];
    run_on_one(conn, sql::SAVE, params)
}

pub(crate) fn drop_of_limit(conn: &Connection, limit: LimitRow) -> Result<()> {
    run(conn, sql::DROP_PASSAGES_OF_LIMIT, [limit.0])?;
    run(conn, sql::DROP_OF_LIMIT, [limit.0]).map(drop)
}

pub(crate) fn trim(conn: &Connection, by: Timestamp, rows: usize) -> Result<usize> {
    run(conn, sql::TRIM_PASSAGES, params![by.as_millis(), limit(rows)])?;
    run(conn, sql::TRIM, params![by.as_millis(), limit(rows)])
}
