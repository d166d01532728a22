use everloom_core::{RowId, Stream};
use rusqlite::{Connection, params};

use super::{first, json, json_column, run, run_on_one};
use crate::error::Result;
use crate::sql::streams as sql;

pub(crate) fn find(conn: &Connection, execution: RowId) -> Result<Option<Stream>> {
    first(conn, sql::STATE, [execution.0], |row| {
        Ok(Stream { execution, state: json_column(row, 0)? })
    })
}

pub(crate) fn put(conn: &Connection, stream: &Stream) -> Result<()> {
    run_on_one(conn, sql::PUT, params![stream.execution.0, json(&stream.state)?])
}

pub(crate) fn remove(conn: &Connection, execution: RowId) -> Result<()> {
    run(conn, sql::REMOVE, [execution.0]).map(drop)
}
