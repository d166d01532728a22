use everloom_core::{ExecutionId, FlowId, Key, KeyOf, NamespaceId, Timestamp};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::{limit, millis, optional_time, run};
use crate::error::Result;
use crate::sql::keys as sql;

pub(crate) fn find(
    conn: &Connection,
    namespace: NamespaceId,
    keys: &[&str],
) -> Result<Vec<Option<Key>>> {
    let mut statement = conn.prepare_cached(sql::FIND)?;
    let mut found = Vec::with_capacity(keys.len());
    for &key in keys {
        let mut rows = statement.query(params![namespace.0, key])?;
        found.push(match rows.next()? {
            None => None,
            Some(row) => Some(Key {
                namespace,
                key: key.into(),
                of: of_from_row(row)?,
                fingerprint: row.get(2)?,
                expires_at: optional_time(row, 3)?,
            }),
        });
    }
    Ok(found)
}

fn of_from_row(row: &Row<'_>) -> Result<KeyOf> {
    let uuid = |column| -> Result<Option<Uuid>> {
        Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(Uuid::from_bytes))
    };
    Ok(match uuid(0)? {
        Some(execution) => KeyOf::Execution(ExecutionId(execution)),
        None => uuid(1)?.map_or(KeyOf::Spend, |flow| KeyOf::Flow(FlowId(flow))),
    })
}

pub(crate) fn put(conn: &Connection, key: &Key) -> Result<()> {
    let (execution, flow) = match &key.of {
        KeyOf::Execution(execution) => (Some(execution.0.as_bytes()), None),
        KeyOf::Flow(flow) => (None, Some(flow.0.as_bytes())),
        KeyOf::Spend => (None, None),
    };
    let params =
        params![key.namespace.0, key.key, execution, flow, key.fingerprint, millis(key.expires_at)];
    run(conn, sql::PUT, params).map(drop)
}

pub(crate) fn remove(conn: &Connection, namespace: NamespaceId, key: &str) -> Result<()> {
    run(conn, sql::DROP, params![namespace.0, key]).map(drop)
}

pub(crate) fn trim(conn: &Connection, by: Timestamp, rows: usize) -> Result<usize> {
    run(conn, sql::TRIM, params![by.as_millis(), limit(rows)])
}
