use everloom_core::{RowId, Summary};
use rusqlite::{Connection, params};

use super::{first, run, run_on_one, time};
use crate::error::Result;
use crate::sql::summaries as sql;

pub(crate) fn find(conn: &Connection, execution: RowId) -> Result<Option<Summary>> {
    first(conn, sql::OF, [execution.0], |row| {
        Ok(Summary {
            execution,
            first_at: time(row, 0)?,
            updated_at: time(row, 1)?,
            document: row.get(2)?,
        })
    })
}

pub(crate) fn put(conn: &Connection, summary: &Summary) -> Result<()> {
    let Summary { execution, first_at, updated_at, document } = summary;
    let params = params![execution.0, first_at.as_millis(), updated_at.as_millis(), document];
    run_on_one(conn, sql::PUT, params)
}

pub(crate) fn remove(conn: &Connection, execution: RowId) -> Result<()> {
    run(conn, sql::REMOVE, [execution.0]).map(drop)
}
