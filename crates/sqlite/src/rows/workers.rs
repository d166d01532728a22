use std::time::Duration;

use everloom_core::{NamespaceId, Timestamp, WorkerRow};
use rusqlite::{Connection, Row, params};

use super::{all, count, first, from_json, json, limit, run, time};
use crate::error::Result;
use crate::sql::workers as sql;

fn from_row(row: &Row<'_>) -> Result<WorkerRow> {
    let names = |column| from_json(row.get_ref(column)?.as_str()?);
    Ok(WorkerRow {
        namespace: NamespaceId(row.get(0)?),
        instance: row.get(1)?,
        name: row.get(2)?,
        lanes: names(3)?,
        kinds: names(4)?,
        capabilities: names(5)?,
        ttl: Duration::from_millis(count(row, 6)?),
        registered_at: time(row, 7)?,
        seen_at: time(row, 8)?,
    })
}

pub(crate) fn find(
    conn: &Connection,
    namespace: NamespaceId,
    instance: &str,
) -> Result<Option<WorkerRow>> {
    first(conn, sql::FIND, params![namespace.0, instance], from_row)
}

pub(crate) fn after(
    conn: &Connection,
    namespace: NamespaceId,
    after: Option<&str>,
    rows: usize,
) -> Result<Vec<WorkerRow>> {
    let params = params![namespace.0, after.unwrap_or_default(), limit(rows)];
    all(conn, sql::AFTER, params, from_row)
}

pub(crate) fn lapsed(conn: &Connection, by: Timestamp, rows: usize) -> Result<Vec<WorkerRow>> {
    all(conn, sql::LAPSED, params![by.as_millis(), limit(rows)], from_row)
}

pub(crate) fn put(conn: &Connection, worker: &WorkerRow) -> Result<()> {
    let params = params![
        worker.namespace.0,
        worker.instance,
        worker.name,
        json(&worker.lanes)?,
        json(&worker.kinds)?,
        json(&worker.capabilities)?,
        i64::try_from(worker.ttl.as_millis()).unwrap_or(i64::MAX),
        worker.registered_at.as_millis(),
        worker.seen_at.as_millis(),
        worker.due_at().as_millis()
    ];
    run(conn, sql::PUT, params).map(drop)
}

pub(crate) fn remove(conn: &Connection, namespace: NamespaceId, instance: &str) -> Result<()> {
    run(conn, sql::DROP, params![namespace.0, instance]).map(drop)
}
