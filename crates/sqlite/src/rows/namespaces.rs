use std::sync::Arc;

use everloom_core::{Defaults, Namespace, NamespaceId, NamespaceLimits};
use rusqlite::{Connection, Row, params};

use super::{all, first, json_or_default, json_unless_default, limit, run, run_on_one};
use crate::caches::Caches;
use crate::error::{Fault, Result};
use crate::sql::namespaces as sql;

fn from_row(row: &Row<'_>) -> Result<Arc<Namespace>> {
    Ok(Arc::new(Namespace {
        id: NamespaceId(row.get(0)?),
        name: row.get(1)?,
        defaults: json_or_default(row, 2)?,
        limits: json_or_default(row, 3)?,
    }))
}

pub(crate) fn by_name(
    conn: &Connection,
    caches: &mut Caches,
    name: &str,
) -> Result<Option<Arc<Namespace>>> {
    if let Some(known) = caches.namespaces.by_name(name) {
        return Ok(Some(known));
    }
    let found = first(conn, sql::BY_NAME, [name], from_row)?;
    Ok(found.inspect(|namespace| caches.namespaces.keep(namespace)))
}

pub(crate) fn by_id(
    conn: &Connection,
    caches: &mut Caches,
    id: NamespaceId,
) -> Result<Arc<Namespace>> {
    if let Some(known) = caches.namespaces.by_id(id) {
        return Ok(known);
    }
    let found = first(conn, sql::BY_ID, [id.0], from_row)?
        .ok_or_else(|| Fault::bug(format!("there is no namespace in row {}", id.0)))?;
    caches.namespaces.keep(&found);
    Ok(found)
}

pub(crate) fn after(
    conn: &Connection,
    after: Option<&str>,
    rows: usize,
) -> Result<Vec<Arc<Namespace>>> {
    all(conn, sql::AFTER, params![after.unwrap_or_default(), limit(rows)], from_row)
}

pub(crate) fn put(
    conn: &Connection,
    caches: &mut Caches,
    name: &str,
    defaults: &Defaults,
) -> Result<Arc<Namespace>> {
    run(conn, sql::PUT, params![name, json_unless_default(defaults)?])?;
    let saved = first(conn, sql::BY_NAME, [name], from_row)?
        .ok_or_else(|| Fault::bug(format!("namespace {name} was written and is not there")))?;
    caches.namespaces.keep(&saved);
    Ok(saved)
}

pub(crate) fn save_limits(
    conn: &Connection,
    caches: &mut Caches,
    id: NamespaceId,
    limits: &NamespaceLimits,
) -> Result<()> {
    let saved = by_id(conn, caches, id)?;
    run_on_one(conn, sql::SAVE_LIMITS, params![id.0, json_unless_default(limits)?])?;
    let changed = Namespace { limits: limits.clone(), ..Namespace::clone(&saved) };
    caches.namespaces.keep(&Arc::new(changed));
    Ok(())
}
