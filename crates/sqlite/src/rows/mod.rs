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
pub(crate) mod limited;
pub(crate) mod limits;
pub(crate) mod list;
pub(crate) mod members;
pub(crate) mod meta;
pub(crate) mod namespaces;
pub(crate) mod passages;
pub(crate) mod past_leases;
pub(crate) mod payloads;
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
use rusqlite::{CachedStatement, Connection, Params, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Fault, Result};

/// The first row, if there is one.
fn first<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

/// All rows.
fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// Runs a statement that returns nothing, and says how many rows it changed.
fn run(conn: &Connection, sql: &str, params: impl Params) -> Result<usize> {
    let mut statement: CachedStatement<'_> = conn.prepare_cached(sql)?;
    Ok(statement.execute(params)?)
}

/// As [`run`], for a row that must exist.
fn run_on_one(conn: &Connection, sql: &str, params: impl Params) -> Result<()> {
    match run(conn, sql, params)? {
        1 => Ok(()),
        rows => Err(Fault::bug(format!("a statement changed {rows} rows and not one:{sql}"))),
    }
}

fn json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Fault::bug(format!("a value has no JSON form: {error}")))
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Fault::bug(format!("a stored JSON text can not be read: {error}")))
}

/// The value whose JSON text the column holds.
fn json_column<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    from_json(row.get_ref(column)?.as_str()?)
}

/// The JSON text of the column, or the default when it is null.
fn json_or_default<T: DeserializeOwned + Default>(row: &Row<'_>, column: usize) -> Result<T> {
    match row.get_ref(column)?.as_str_or_null()? {
        Some(text) => from_json(text),
        None => Ok(T::default()),
    }
}

/// The JSON text of a value that is not the default.
fn json_unless_default<T: Serialize + Default + PartialEq>(value: &T) -> Result<Option<String>> {
    if *value == T::default() { Ok(None) } else { json(value).map(Some) }
}

fn time(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    Ok(Timestamp::from_millis(row.get(column)?))
}

fn optional_time(row: &Row<'_>, column: usize) -> Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
}

fn millis(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_millis)
}

/// SQLite's limit for a number of rows.
pub(crate) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// SQLite's integer for a count that never gets near its end.
fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(row: &Row<'_>, column: usize) -> Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| Fault::bug(format!("a stored count is negative: {number}")))
}
