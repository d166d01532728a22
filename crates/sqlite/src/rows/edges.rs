use everloom_core::{Edge, EdgeId, FlowRow, RowId, When};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::{all, first, json, limit, run, run_on_one};
use crate::error::Result;
use crate::sql::edges as sql;

fn from_row(row: &Row<'_>) -> Result<Edge> {
    Ok(Edge {
        source: RowId(row.get(0)?),
        target: RowId(row.get(1)?),
        ordinal: row.get(2)?,
        flow: FlowRow(row.get(3)?),
        when: When::from_code(row.get(4)?)?,
        applied: row.get(5)?,
        bind: row.get(6)?,
        id: row.get::<_, Option<[u8; 16]>>(7)?.map(|bytes| EdgeId(Uuid::from_bytes(bytes))),
    })
}

pub(crate) fn from(
    conn: &Connection,
    source: RowId,
    after: Option<RowId>,
    rows: usize,
) -> Result<Vec<Edge>> {
    let after = after.map_or(i64::MIN, |after| after.0);
    all(conn, sql::FROM, params![source.0, after, limit(rows)], from_row)
}

pub(crate) fn into(conn: &Connection, target: RowId, bound: bool) -> Result<Vec<Edge>> {
    let sql = if bound { sql::BOUND } else { sql::INTO };
    all(conn, sql, [target.0], from_row)
}

pub(crate) fn find(conn: &Connection, flow: FlowRow, id: EdgeId) -> Result<Option<Edge>> {
    first(conn, sql::BY_UUID, params![flow.0, id.0.as_bytes()], from_row)
}

pub(crate) fn reach(conn: &Connection, from: &[RowId]) -> Result<Vec<(RowId, RowId)>> {
    all(conn, sql::REACH, [json(from)?], |row| Ok((RowId(row.get(0)?), RowId(row.get(1)?))))
}

pub(crate) fn add(conn: &Connection, edge: &Edge) -> Result<()> {
    let params = params![
        edge.source.0,
        edge.target.0,
        edge.ordinal,
        edge.flow.0,
        edge.when.code(),
        edge.applied,
        edge.bind,
        edge.id.as_ref().map(|id| id.0.as_bytes())
    ];
    run_on_one(conn, sql::ADD, params)
}

pub(crate) fn save(conn: &Connection, edge: &Edge) -> Result<()> {
    let params = params![edge.source.0, edge.target.0, edge.ordinal, edge.applied];
    run_on_one(conn, sql::SAVE, params)
}

pub(crate) fn remove(conn: &Connection, edge: &Edge) -> Result<()> {
    run(conn, sql::DROP, params![edge.source.0, edge.target.0, edge.ordinal]).map(drop)
}

/// Removes the edges out of an execution and into it.
pub(crate) fn drop_all(conn: &Connection, row: RowId) -> Result<()> {
    run(conn, sql::DROP_FROM, [row.0])?;
    run(conn, sql::DROP_INTO, [row.0]).map(drop)
}
