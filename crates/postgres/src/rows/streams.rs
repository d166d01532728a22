use everloom_core::{RowId, Stream};
use tokio_postgres::Row;

use super::{Columns, from_json, json};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::streams as sql;

pub(crate) fn from_row(row: &Row) -> Result<Stream> {
    let mut columns = Columns::of(row);
    Ok(Stream { execution: RowId(columns.take()?), state: from_json(columns.take()?)? })
}

pub(crate) fn put(streams: &[Stream]) -> Result<Step> {
    let rows: Vec<i64> = streams.iter().map(|stream| stream.execution.0).collect();
    let states: Vec<String> =
        streams.iter().map(|stream| json(&stream.state)).collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::PUT, params![rows, states]))
}
