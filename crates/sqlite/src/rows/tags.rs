use everloom_core::{NamespaceId, RowId, Tags};
use rusqlite::{Connection, params};

use super::{run, run_on_one};
use crate::error::Result;
use crate::sql::tags as sql;

pub(crate) fn add(
    conn: &Connection,
    namespace: NamespaceId,
    row: RowId,
    tags: &Tags,
) -> Result<()> {
    for (key, value) in tags {
        run_on_one(conn, sql::ADD, params![namespace.0, key, value, row.0])?;
    }
    Ok(())
}

pub(crate) fn remove(
    conn: &Connection,
    namespace: NamespaceId,
    row: RowId,
    tags: &Tags,
) -> Result<()> {
    for (key, value) in tags {
        run(conn, sql::DROP, params![namespace.0, key, value, row.0])?;
    }
    Ok(())
}
