use everloom_core::{RowId, Suspension};
use tokio_postgres::Row;

use super::{Columns, suspensions};
use crate::error::Result;
use crate::exchange::Lasts;

/// An execution with its last numbers and its last suspension.
pub(crate) fn from_row(row: &Row) -> Result<(RowId, Lasts, Option<Suspension>)> {
    let mut columns = Columns::of(row);
    let suspension = match columns.take::<Option<i64>>()? {
        Some(_) => Some(suspensions::from_row(row)?),
        None => None,
    };
    let mut columns = Columns::after(row, suspensions::COLUMNS.into());
    let id = RowId(columns.take()?);
    let lasts = Lasts {
        suspension: suspension.as_ref().map_or(0, |suspension| suspension.number),
        waitpoint: columns.optional_count()?.unwrap_or(0),
        signal: columns.optional_count()?.unwrap_or(0),
    };
    Ok((id, lasts, suspension))
}
