use std::time::Duration;

use everloom_core::{NamespaceId, WorkerRow};
use tokio_postgres::Row;

use super::{Columns, from_json, json};
use crate::error::Result;
use crate::link::{Step, params};

pub(crate) fn from_row(row: &Row) -> Result<WorkerRow> {
    let mut columns = Columns::of(row);
    Ok(WorkerRow {
        namespace: NamespaceId(columns.take()?),
        instance: columns.take()?,
        name: columns.take()?,
        lanes: from_json(columns.take()?)?,
        kinds: from_json(columns.take()?)?,
        capabilities: from_json(columns.take()?)?,
        ttl: Duration::from_millis(columns.count()?),
        registered_at: columns.time()?,
        seen_at: columns.time()?,
    })
}

/// Binds workers to a statement that adds or puts them.
pub(crate) fn write(sql: &'static str, workers: &[&WorkerRow]) -> Result<Step> {
    let texts = |of: fn(&WorkerRow) -> &Vec<String>| -> Result<Vec<String>> {
        workers.iter().map(|worker| json(of(worker))).collect()
    };
    let namespaces: Vec<i64> = workers.iter().map(|worker| worker.namespace.0).collect();
    let instances: Vec<String> = workers.iter().map(|worker| worker.instance.clone()).collect();
    let names: Vec<String> = workers.iter().map(|worker| worker.name.clone()).collect();
    let lanes = texts(|worker| &worker.lanes)?;
    let kinds = texts(|worker| &worker.kinds)?;
    let capabilities = texts(|worker| &worker.capabilities)?;
    let ttls: Vec<i64> = workers
        .iter()
        .map(|worker| i64::try_from(worker.ttl.as_millis()).unwrap_or(i64::MAX))
        .collect();
    let registered: Vec<i64> =
        workers.iter().map(|worker| worker.registered_at.as_millis()).collect();
    let seen: Vec<i64> = workers.iter().map(|worker| worker.seen_at.as_millis()).collect();
    let due: Vec<i64> = workers.iter().map(|worker| worker.due_at().as_millis()).collect();
    Ok(Step::Prepared(
        sql,
        params![
            namespaces,
            instances,
            names,
            lanes,
            kinds,
            capabilities,
            ttls,
            registered,
            seen,
            due
        ],
    ))
}
