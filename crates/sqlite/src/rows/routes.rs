use std::sync::Arc;

use everloom_core::{NamespaceId, Route, RouteId, RouteTable};
use rusqlite::{Connection, Row, params};

use super::{all, from_json, json, run_on_one};
use crate::caches::Caches;
use crate::error::Result;
use crate::sql::routes as sql;

fn from_row(row: &Row<'_>) -> Result<Arc<Route>> {
    Ok(Arc::new(Route {
        id: RouteId(row.get(0)?),
        kind: row.get(1)?,
        capabilities: from_json(row.get_ref(2)?.as_str()?)?,
    }))
}

pub(crate) fn of(
    conn: &Connection,
    caches: &mut Caches,
    namespace: NamespaceId,
) -> Result<Arc<RouteTable>> {
    let known = caches.routes.of(namespace);
    if known.fresh {
        return Ok(known.table);
    }
    let last = known.table.routes().last().map_or(0, |route| route.id.0);
    let newer = all(conn, sql::AFTER, params![namespace.0, last], from_row)?;
    let table = match newer.is_empty() {
        true => known.table,
        false => extended(&known.table, newer),
    };
    caches.routes.keep(namespace, &table);
    Ok(table)
}

pub(crate) fn add(
    conn: &Connection,
    caches: &mut Caches,
    namespace: NamespaceId,
    kind: &str,
    capabilities: &[String],
) -> Result<RouteId> {
    let table = of(conn, caches, namespace)?;
    run_on_one(conn, sql::ADD, params![namespace.0, kind, json(capabilities)?])?;
    let id = RouteId(conn.last_insert_rowid());
    let route = Route { id, kind: kind.into(), capabilities: capabilities.into() };
    caches.routes.keep(namespace, &extended(&table, vec![Arc::new(route)]));
    Ok(id)
}

fn extended(table: &RouteTable, newer: Vec<Arc<Route>>) -> Arc<RouteTable> {
    Arc::new(RouteTable::new(table.routes().iter().cloned().chain(newer).collect()))
}
