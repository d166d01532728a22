use everloom_core::{RowId, Summary};
use tokio_postgres::Row;

use super::Columns;
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::summaries as sql;

pub(crate) fn from_row(row: &Row) -> Result<Summary> {
    let mut columns = Columns::of(row);
    Ok(Summary {
        execution: RowId(columns.take()?),
        first_at: columns.time()?,
        updated_at: columns.time()?,
        document: columns.take()?,
    })
}

pub(crate) fn put(summaries: &[Summary]) -> Step {
    let rows: Vec<i64> = summaries.iter().map(|summary| summary.execution.0).collect();
    let first: Vec<i64> = summaries.iter().map(|summary| summary.first_at.as_millis()).collect();
    let updated: Vec<i64> =
        summaries.iter().map(|summary| summary.updated_at.as_millis()).collect();
    let documents: Vec<Vec<u8>> =
        summaries.iter().map(|summary| summary.document.clone()).collect();
    Step::Prepared(sql::PUT, params![rows, first, updated, documents])
}
