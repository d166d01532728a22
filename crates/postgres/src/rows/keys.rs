use everloom_core::{ExecutionId, Key, NamespaceId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Columns, millis};
use crate::error::{Fault, Result};
use crate::link::{Param, Step, params};
use crate::sql::keys as sql;

pub(crate) fn from_row(row: &Row) -> Result<Key> {
    let mut columns = Columns::of(row);
    Ok(Key {
        namespace: NamespaceId(columns.take()?),
        key: columns.take()?,
        execution: ExecutionId(columns.take()?),
        fingerprint: columns
            .bytes()?
            .ok_or_else(|| Fault::bug("an idempotency key has no fingerprint"))?,
        expires_at: columns.optional_time()?,
    })
}

fn columns(keys: &[&Key]) -> Vec<Param> {
    let namespaces: Vec<i64> = keys.iter().map(|key| key.namespace.0).collect();
    let names: Vec<String> = keys.iter().map(|key| key.key.clone()).collect();
    let executions: Vec<Uuid> = keys.iter().map(|key| key.execution.0).collect();
    let fingerprints: Vec<Vec<u8>> = keys.iter().map(|key| key.fingerprint.to_vec()).collect();
    let expiries: Vec<Option<i64>> = keys.iter().map(|key| millis(key.expires_at)).collect();
    params![namespaces, names, executions, fingerprints, expiries]
}

pub(crate) fn add(keys: &[&Key]) -> Step {
    Step::Prepared(sql::ADD, columns(keys))
}

/// Replaces keys that are still as they were read.
pub(crate) fn save(changed: &[(&Key, &Key)]) -> Step {
    let new: Vec<&Key> = changed.iter().map(|(new, _)| *new).collect();
    let executions: Vec<Uuid> = changed.iter().map(|(_, old)| old.execution.0).collect();
    let expiries: Vec<Option<i64>> =
        changed.iter().map(|(_, old)| millis(old.expires_at)).collect();
    let mut params = columns(&new);
    params.extend(params![executions, expiries]);
    Step::Prepared(sql::SAVE, params)
}

/// Removes keys that are still as they were read.
pub(crate) fn remove(old: &[&Key]) -> Step {
    let namespaces: Vec<i64> = old.iter().map(|key| key.namespace.0).collect();
    let names: Vec<String> = old.iter().map(|key| key.key.clone()).collect();
    let executions: Vec<Uuid> = old.iter().map(|key| key.execution.0).collect();
    let expiries: Vec<Option<i64>> = old.iter().map(|key| millis(key.expires_at)).collect();
    Step::Prepared(sql::DROP, params![namespaces, names, executions, expiries])
}
