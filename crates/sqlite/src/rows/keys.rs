use everloom_core::{ExecutionId, Key, NamespaceId, Timestamp};
use rusqlite::{Connection, params};
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
                execution: ExecutionId(Uuid::from_bytes(row.get(0)?)),
                fingerprint: row.get(1)?,
                expires_at: optional_time(row, 2)?,
            }),
        });
    }
    Ok(found)
}

pub(crate) fn put(conn: &Connection, key: &Key) -> Result<()> {
    let params = params![
        key.namespace.0,
        key.key,
        key.execution.0.as_bytes(),
        key.fingerprint,
        millis(key.expires_at)
    ];
    run(conn, sql::PUT, params).map(drop)
}

pub(crate) fn remove(conn: &Connection, namespace: NamespaceId, key: &str) -> Result<()> {
    run(conn, sql::DROP, params![namespace.0, key]).map(drop)
}

pub(crate) fn trim(conn: &Connection, by: Timestamp, rows: usize) -> Result<usize> {
    run(conn, sql::TRIM, params![by.as_millis(), limit(rows)])
}
