use everloom_core::{KeptFrames, RowId, Stream};
use tokio_postgres::Row;

use super::{Columns, from_json, integer, json};
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
    let gone = |kept: fn(&Stream) -> KeptFrames| -> Vec<i64> {
        streams.iter().map(|stream| integer(kept(stream).gone)).collect()
    };
    let (durable, live) = (gone(|stream| stream.state.durable), gone(|stream| stream.state.live));
    Ok(Step::Prepared(sql::PUT, params![rows, durable, live, states]))
}
