//! How rows become values and values rows, a module per table. The statements are in `sql`.

pub(crate) mod chores;
pub(crate) mod chunks;
pub(crate) mod edges;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod flows;
pub(crate) mod gates;
pub(crate) mod inbox;
pub(crate) mod joins;
pub(crate) mod keys;
pub(crate) mod lanes;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod mailboxes;
pub(crate) mod members;
pub(crate) mod namespaces;
pub(crate) mod passages;
pub(crate) mod past_leases;
pub(crate) mod payloads;
pub(crate) mod records;
pub(crate) mod routes;
pub(crate) mod signals;
pub(crate) mod signing_keys;
pub(crate) mod steps;
pub(crate) mod streams;
pub(crate) mod summaries;
pub(crate) mod suspensions;
pub(crate) mod tags;
pub(crate) mod turns;
pub(crate) mod uses;
pub(crate) mod waitpoints;
pub(crate) mod workers;

use everloom_core::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::{Fault, Result};

/// The columns of a row, taken from left to right.
pub(crate) struct Columns<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    /// The columns that follow the first ones.
    fn after(row: &'a Row, first: usize) -> Self {
        Self { row, next: first }
    }

    pub(crate) fn take<T: FromSql<'a>>(&mut self) -> Result<T> {
        let value = self.row.try_get(self.next)?;
        self.next += 1;
        Ok(value)
    }

    fn time(&mut self) -> Result<Timestamp> {
        self.take().map(Timestamp::from_millis)
    }

    fn optional_time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.take::<Option<i64>>()?.map(Timestamp::from_millis))
    }

    fn json_or_default<T: DeserializeOwned + Default>(&mut self) -> Result<T> {
        self.take::<Option<&str>>()?.map_or_else(|| Ok(T::default()), from_json)
    }

    /// A number that is never negative.
    pub(crate) fn count<T: TryFrom<i64>>(&mut self) -> Result<T> {
        let number: i64 = self.take()?;
        T::try_from(number).map_err(|_| Fault::bug(format!("a stored count can not be {number}")))
    }

    fn optional_count<T: TryFrom<i64>>(&mut self) -> Result<Option<T>> {
        let Some(number) = self.take::<Option<i64>>()? else { return Ok(None) };
        T::try_from(number)
            .map(Some)
            .map_err(|_| Fault::bug(format!("a stored count can not be {number}")))
    }

    fn bytes<const N: usize>(&mut self) -> Result<Option<[u8; N]>> {
        let Some(bytes) = self.take::<Option<&[u8]>>()? else { return Ok(None) };
        bytes
            .try_into()
            .map(Some)
            .map_err(|_| Fault::bug(format!("a stored value has {} bytes, not {N}", bytes.len())))
    }
}

/// The value in the first column of the only row.
pub(crate) fn only<'a, T: FromSql<'a>>(rows: &'a [Row]) -> Result<T> {
    match rows {
        [row] => Columns::of(row).take(),
        _ => Err(Fault::bug(format!("a statement returned {} rows and not one", rows.len()))),
    }
}

pub(crate) fn all<T>(rows: &[Row], read: impl FnMut(&Row) -> Result<T>) -> Result<Vec<T>> {
    rows.iter().map(read).collect()
}

pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Fault::bug(format!("a value has no JSON form: {error}")))
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Fault::bug(format!("a stored JSON text can not be read: {error}")))
}

/// The JSON text of a value that is not the default.
fn json_unless_default<T: Serialize + Default + PartialEq>(value: &T) -> Result<Option<String>> {
    if *value == T::default() { Ok(None) } else { json(value).map(Some) }
}

fn millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

/// PostgreSQL's limit for a number of rows.
pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// PostgreSQL's integer for a count that never gets near its end.
pub(crate) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Small codes fit every integer.
pub(crate) fn code(code: i64) -> i32 {
    i32::try_from(code).unwrap_or(i32::MAX)
}
