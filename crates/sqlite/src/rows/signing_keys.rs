use everloom_core::{NamespaceId, SigningKey, SigningSecret};
use rusqlite::{Connection, params};

use super::{all, json, json_column, run_on_one, time};
use crate::error::Result;
use crate::sql::signing_keys as sql;

pub(crate) fn of(conn: &Connection, namespace: NamespaceId) -> Result<Vec<SigningKey>> {
    all(conn, sql::OF, [namespace.0], |row| {
        Ok(SigningKey {
            namespace: NamespaceId(row.get(0)?),
            kid: row.get(1)?,
            secret: row.get::<_, Option<[u8; 32]>>(2)?.map(SigningSecret::new),
            created_at: time(row, 3)?,
            state: json_column(row, 4)?,
        })
    })
}

pub(crate) fn put(conn: &Connection, key: &SigningKey) -> Result<()> {
    let params = params![
        key.namespace.0,
        key.kid,
        key.secret.as_ref().map(SigningSecret::as_bytes),
        key.created_at.as_millis(),
        json(&key.state)?
    ];
    run_on_one(conn, sql::PUT, params)
}
