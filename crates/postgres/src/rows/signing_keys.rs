use everloom_core::{NamespaceId, SigningKey, SigningSecret};
use tokio_postgres::Row;

use super::records::Records;
use super::{Columns, from_json, json};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::signing_keys as sql;

pub(crate) fn from_row(row: &Row) -> Result<SigningKey> {
    let mut columns = Columns::of(row);
    Ok(SigningKey {
        namespace: NamespaceId(columns.take()?),
        kid: columns.take()?,
        secret: columns.bytes()?.map(SigningSecret::new),
        created_at: columns.time()?,
        state: from_json(columns.take()?)?,
    })
}

/// The columns of the table.
const COLUMNS: i32 = 5;

pub(crate) fn put(keys: &[SigningKey]) -> Result<Step> {
    let mut records = Records::new(COLUMNS);
    for key in keys {
        let state = json(&key.state)?;
        records
            .row()
            .put(key.namespace.0)
            .put(&*key.kid)
            .put(key.secret.as_ref().map(|secret| &secret.as_bytes()[..]))
            .put(key.created_at.as_millis())
            .put(&*state);
    }
    Ok(Step::Prepared(sql::PUT, params![records]))
}
