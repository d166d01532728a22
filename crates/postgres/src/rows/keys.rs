use everloom_core::{ExecutionId, FlowId, Key, KeyOf, NamespaceId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{Columns, millis};
use crate::error::{Fault, Result};
use crate::link::{Param, Step, params};
use crate::sql::keys as sql;

pub(crate) fn from_row(row: &Row) -> Result<Key> {
    let mut columns = Columns::of(row);
    let (namespace, key) = (NamespaceId(columns.take()?), columns.take()?);
    let of = match (columns.take::<Option<Uuid>>()?, columns.take::<Option<Uuid>>()?) {
        (Some(execution), None) => KeyOf::Execution(ExecutionId(execution)),
        (None, Some(flow)) => KeyOf::Flow(FlowId(flow)),
        (None, None) => KeyOf::Spend,
        (Some(_), Some(_)) => return Err(Fault::bug("a key stands for two things")),
    };
    Ok(Key {
        namespace,
        key,
        of,
        fingerprint: columns
            .bytes()?
            .ok_or_else(|| Fault::bug("an idempotency key has no fingerprint"))?,
        expires_at: columns.optional_time()?,
    })
}

/// The execution or the flow that keys stand for; those of what was spent stand for neither.
fn subjects<'a>(keys: impl Iterator<Item = &'a Key>) -> (Vec<Option<Uuid>>, Vec<Option<Uuid>>) {
    let subject = |key: &Key| match key.of {
        KeyOf::Execution(id) => (Some(id.0), None),
        KeyOf::Flow(id) => (None, Some(id.0)),
        KeyOf::Spend => (None, None),
    };
    keys.map(subject).unzip()
}

fn columns(keys: &[&Key]) -> Vec<Param> {
    let namespaces: Vec<i64> = keys.iter().map(|key| key.namespace.0).collect();
    let names: Vec<String> = keys.iter().map(|key| key.key.clone()).collect();
    let (executions, flows) = subjects(keys.iter().copied());
    let fingerprints: Vec<Vec<u8>> = keys.iter().map(|key| key.fingerprint.to_vec()).collect();
    let expiries: Vec<Option<i64>> = keys.iter().map(|key| millis(key.expires_at)).collect();
    params![namespaces, names, executions, flows, fingerprints, expiries]
}

pub(crate) fn add(keys: &[&Key]) -> Step {
    Step::Prepared(sql::ADD, columns(keys))
}

/// Replaces keys that are still as they were read.
pub(crate) fn save(changed: &[(&Key, &Key)]) -> Step {
    let new: Vec<&Key> = changed.iter().map(|(new, _)| *new).collect();
    let (executions, flows) = subjects(changed.iter().map(|(_, old)| *old));
    let expiries: Vec<Option<i64>> =
        changed.iter().map(|(_, old)| millis(old.expires_at)).collect();
    let mut params = columns(&new);
    params.extend(params![executions, flows, expiries]);
    Step::Prepared(sql::SAVE, params)
}

/// Removes keys that are still as they were read.
pub(crate) fn remove(old: &[&Key]) -> Step {
    let namespaces: Vec<i64> = old.iter().map(|key| key.namespace.0).collect();
    let names: Vec<String> = old.iter().map(|key| key.key.clone()).collect();
    let (executions, flows) = subjects(old.iter().copied());
    let expiries: Vec<Option<i64>> = old.iter().map(|key| millis(key.expires_at)).collect();
    Step::Prepared(sql::DROP, params![namespaces, names, executions, flows, expiries])
}
