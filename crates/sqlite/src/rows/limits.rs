use std::sync::Arc;

use everloom_core::{Limit, LimitRow, LimitSort, NamespaceId};
use rusqlite::{Connection, Row, params};

use super::{
    all, first, json, json_column, json_or_default, json_unless_default, limit as limit_to,
    run_on_one, time,
};
use crate::caches::Caches;
use crate::error::{Fault, Result};
use crate::sql::limits as sql;

fn from_row(row: &Row<'_>) -> Result<Arc<Limit>> {
    Ok(Arc::new(Limit {
        row: LimitRow(row.get(0)?),
        namespace: NamespaceId(row.get(1)?),
        name: row.get(2)?,
        terms: json_column(row, 3)?,
        places: json_or_default(row, 4)?,
        created_at: time(row, 5)?,
    }))
}

pub(crate) fn by_name(
    conn: &Connection,
    caches: &mut Caches,
    namespace: NamespaceId,
    sort: LimitSort,
    name: &str,
) -> Result<Option<Arc<Limit>>> {
    if let Some(known) = caches.limits.by_name(namespace, sort, name) {
        return Ok(Some(known));
    }
    let found = first(conn, sql::BY_NAME, params![namespace.0, sort.code(), name], from_row)?;
    Ok(found.inspect(|limit| caches.limits.keep(limit)))
}

pub(crate) fn by_row(conn: &Connection, caches: &mut Caches, row: LimitRow) -> Result<Arc<Limit>> {
    if let Some(known) = caches.limits.by_row(row) {
        return Ok(known);
    }
    let found = first(conn, sql::BY_ID, [row.0], from_row)?
        .ok_or_else(|| Fault::bug(format!("there is no limit in row {}", row.0)))?;
    caches.limits.keep(&found);
    Ok(found)
}

pub(crate) fn after(
    conn: &Connection,
    namespace: NamespaceId,
    sort: LimitSort,
    after: Option<&str>,
    rows: usize,
) -> Result<Vec<Arc<Limit>>> {
    let params = params![namespace.0, sort.code(), after.unwrap_or_default(), limit_to(rows)];
    all(conn, sql::AFTER, params, from_row)
}

pub(crate) fn new_row(conn: &Connection) -> Result<LimitRow> {
    let row = first(conn, sql::NEXT_ID, [], |row| Ok(row.get(0)?))?;
    row.map(LimitRow).ok_or_else(|| Fault::bug("limits are not numbered any more"))
}

pub(crate) fn put(conn: &Connection, caches: &mut Caches, limit: &Limit) -> Result<()> {
    let params = params![
        limit.row.0,
        limit.namespace.0,
        limit.sort().code(),
        limit.name,
        json(&limit.terms)?,
        json_unless_default(&limit.places)?,
        limit.created_at.as_millis()
    ];
    run_on_one(conn, sql::PUT, params)?;
    caches.limits.forget(limit.row);
    caches.limits.keep(&Arc::new(limit.clone()));
    Ok(())
}

pub(crate) fn remove(conn: &Connection, caches: &mut Caches, row: LimitRow) -> Result<()> {
    run_on_one(conn, sql::REMOVE, [row.0])?;
    caches.limits.forget(row);
    Ok(())
}
