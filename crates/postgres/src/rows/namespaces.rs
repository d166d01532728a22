use std::sync::Arc;

use everloom_core::{Namespace, NamespaceId, NamespaceLimits};
use tokio_postgres::Row;

use super::{Columns, json_unless_default};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::namespaces as sql;

pub(crate) fn from_row(row: &Row) -> Result<Arc<Namespace>> {
    let mut columns = Columns::of(row);
    Ok(Arc::new(Namespace {
        id: NamespaceId(columns.take()?),
        name: columns.take()?,
        defaults: columns.json_or_default()?,
        limits: columns.json_or_default()?,
    }))
}

pub(crate) fn save(namespaces: &[Namespace]) -> Result<Step> {
    let ids: Vec<i64> = namespaces.iter().map(|namespace| namespace.id.0).collect();
    let defaults: Vec<Option<String>> = namespaces
        .iter()
        .map(|namespace| json_unless_default(&namespace.defaults))
        .collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::SAVE, params![ids, defaults]))
}

pub(crate) fn save_limits(namespaces: &[(NamespaceId, NamespaceLimits)]) -> Result<Step> {
    let ids: Vec<i64> = namespaces.iter().map(|(id, _)| id.0).collect();
    let limits: Vec<Option<String>> =
        namespaces.iter().map(|(_, limits)| json_unless_default(limits)).collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::SAVE_LIMITS, params![ids, limits]))
}
