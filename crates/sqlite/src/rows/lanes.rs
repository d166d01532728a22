use std::sync::Arc;

use everloom_core::{Lane, LaneId, LaneMode, NamespaceId};
use rusqlite::{Connection, Row, params};

use super::{all, first, json_or_default, json_unless_default, limit, run_on_one};
use crate::caches::Caches;
use crate::error::{Fault, Result};
use crate::sql::lanes as sql;

fn from_row(row: &Row<'_>) -> Result<Arc<Lane>> {
    Ok(Arc::new(Lane {
        id: LaneId(row.get(0)?),
        namespace: NamespaceId(row.get(1)?),
        name: row.get(2)?,
        mode: mode_of(row.get(3)?)?,
        max_active: row.get(4)?,
        active: row.get(5)?,
        defaults: json_or_default(row, 6)?,
        limits: json_or_default(row, 7)?,
        fairness: json_or_default(row, 8)?,
        course: row.get(9)?,
    }))
}

fn code_of(mode: LaneMode) -> i64 {
    match mode {
        LaneMode::Open => 0,
        LaneMode::Paused => 1,
        LaneMode::Draining => 2,
    }
}

fn mode_of(code: i64) -> Result<LaneMode> {
    match code {
        0 => Ok(LaneMode::Open),
        1 => Ok(LaneMode::Paused),
        2 => Ok(LaneMode::Draining),
        _ => Err(Fault::bug(format!("a lane has the unknown mode {code}"))),
    }
}

pub(crate) fn by_name(
    conn: &Connection,
    caches: &mut Caches,
    namespace: NamespaceId,
    name: &str,
) -> Result<Option<Arc<Lane>>> {
    if let Some(known) = caches.lanes.by_name(namespace, name) {
        return Ok(Some(known));
    }
    let found = first(conn, sql::BY_NAME, params![namespace.0, name], from_row)?;
    Ok(found.inspect(|lane| caches.lanes.keep(lane)))
}

pub(crate) fn by_id(conn: &Connection, caches: &mut Caches, id: LaneId) -> Result<Arc<Lane>> {
    if let Some(known) = caches.lanes.by_id(id) {
        return Ok(known);
    }
    let found = first(conn, sql::BY_ID, [id.0], from_row)?
        .ok_or_else(|| Fault::bug(format!("there is no lane in row {}", id.0)))?;
    caches.lanes.keep(&found);
    Ok(found)
}

pub(crate) fn after(
    conn: &Connection,
    namespace: NamespaceId,
    after: Option<&str>,
    rows: usize,
) -> Result<Vec<Arc<Lane>>> {
    let params = params![namespace.0, after.unwrap_or_default(), limit(rows)];
    all(conn, sql::AFTER, params, from_row)
}

pub(crate) fn add(
    conn: &Connection,
    caches: &mut Caches,
    namespace: NamespaceId,
    name: &str,
) -> Result<Arc<Lane>> {
    run_on_one(conn, sql::ADD, params![namespace.0, name])?;
    by_id(conn, caches, LaneId(conn.last_insert_rowid()))
}

pub(crate) fn save(conn: &Connection, caches: &mut Caches, lane: &Lane) -> Result<()> {
    run_on_one(
        conn,
        sql::SAVE,
        params![
            lane.id.0,
            code_of(lane.mode),
            lane.max_active,
            lane.active,
            json_unless_default(&lane.defaults)?,
            json_unless_default(&lane.limits)?,
            json_unless_default(&lane.fairness)?,
            lane.course
        ],
    )?;
    caches.lanes.keep(&Arc::new(lane.clone()));
    Ok(())
}
