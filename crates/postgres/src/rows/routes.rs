use std::collections::BTreeSet;
use std::sync::Arc;

use everloom_core::{NamespaceId, Route, RouteId};
use tokio_postgres::Row;

use super::{Columns, from_json, json};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::routes as sql;

pub(crate) fn from_row(row: &Row) -> Result<(NamespaceId, Arc<Route>)> {
    let mut columns = Columns::of(row);
    let id = RouteId(columns.take()?);
    let namespace = NamespaceId(columns.take()?);
    let kind = columns.take()?;
    let capabilities = from_json(columns.take()?)?;
    Ok((namespace, Arc::new(Route { id, kind, capabilities })))
}

pub(crate) fn add(new: &BTreeSet<(NamespaceId, String, Vec<String>)>) -> Result<Step> {
    let namespaces: Vec<i64> = new.iter().map(|(namespace, ..)| namespace.0).collect();
    let kinds: Vec<String> = new.iter().map(|(_, kind, _)| kind.clone()).collect();
    let capabilities: Vec<String> = new.iter().map(|(.., has)| json(has)).collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::ADD, params![namespaces, kinds, capabilities]))
}
