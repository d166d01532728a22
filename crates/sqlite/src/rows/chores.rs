use everloom_core::{Chore, ChoreId, ChoreKind, Timestamp};
use rusqlite::{Connection, Row, params};

use super::{all, first, from_json, json, limit, run, run_on_one, time};
use crate::error::Result;
use crate::sql::chores as sql;

fn from_row(row: &Row<'_>) -> Result<Chore> {
    Ok(Chore {
        id: ChoreId(row.get(0)?),
        kind: from_json(row.get_ref(1)?.as_str()?)?,
        due_at: time(row, 2)?,
    })
}

pub(crate) fn due(conn: &Connection, by: Timestamp, rows: usize) -> Result<Vec<Chore>> {
    all(conn, sql::DUE, params![by.as_millis(), limit(rows)], from_row)
}

pub(crate) fn find(conn: &Connection, kind: &ChoreKind) -> Result<Option<Chore>> {
    first(conn, sql::FIND, [json(kind)?], from_row)
}

pub(crate) fn add(conn: &Connection, kind: &ChoreKind, due_at: Timestamp) -> Result<ChoreId> {
    run_on_one(conn, sql::ADD, params![json(kind)?, due_at.as_millis()])?;
    Ok(ChoreId(conn.last_insert_rowid()))
}

pub(crate) fn save(conn: &Connection, chore: &Chore) -> Result<()> {
    let params = params![chore.id.0, json(&chore.kind)?, chore.due_at.as_millis()];
    run_on_one(conn, sql::SAVE, params)
}

pub(crate) fn remove(conn: &Connection, id: ChoreId) -> Result<()> {
    run(conn, sql::DROP, [id.0]).map(drop)
}
