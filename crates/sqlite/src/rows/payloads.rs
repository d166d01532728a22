use std::borrow::Cow;

use everloom_core::{Payload, RowId};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Row, ToSql, params};

use super::{first, run, run_on_one};
use crate::error::{Fault, Result};
use crate::sql::payloads as sql;

/// A content type as it is stored: the two common ones cost next to nothing.
struct ContentType<'a>(&'a str);

const JSON: i64 = 1;

impl ToSql for ContentType<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Payload::BYTES => ToSqlOutput::Owned(Value::Null),
            Payload::JSON => ToSqlOutput::Owned(Value::Integer(JSON)),
            other => ToSqlOutput::Borrowed(ValueRef::Text(other.as_bytes())),
        })
    }
}

fn from_row(row: &Row<'_>) -> Result<Payload> {
    let content_type = match row.get_ref(0)? {
        ValueRef::Null => Cow::Borrowed(Payload::BYTES),
        ValueRef::Integer(JSON) => Cow::Borrowed(Payload::JSON),
        ValueRef::Text(text) => Cow::Owned(String::from_utf8_lossy(text).into_owned()),
        other => {
            return Err(Fault::bug(format!("a payload has the content type {other:?}")));
        }
    };
    Ok(Payload { content_type, bytes: row.get_ref(1)?.as_blob()?.to_vec() })
}

pub(crate) fn inputs(conn: &Connection, rows: &[RowId]) -> Result<Vec<Payload>> {
    let mut statement = conn.prepare_cached(sql::INPUT)?;
    let mut inputs = Vec::with_capacity(rows.len());
    for row in rows {
        let mut found = statement.query([row.0])?;
        // An empty input has no row.
        inputs.push(found.next()?.map(from_row).transpose()?.unwrap_or_default());
    }
    Ok(inputs)
}

pub(crate) fn fingerprint(conn: &Connection, row: RowId) -> Result<Option<[u8; 16]>> {
    let found = first(conn, sql::FINGERPRINT, [row.0], |row| Ok(row.get(0)?))?;
    Ok(found.flatten())
}

pub(crate) fn add_input(
    conn: &Connection,
    row: RowId,
    input: &Payload,
    fingerprint: Option<&[u8; 16]>,
) -> Result<()> {
    if input.is_empty() && fingerprint.is_none() {
        return Ok(());
    }
    let content_type = ContentType(&input.content_type);
    run_on_one(conn, sql::ADD_INPUT, params![row.0, content_type, input.bytes, fingerprint])
}

pub(crate) fn drop_input(conn: &Connection, row: RowId) -> Result<()> {
    run(conn, sql::DROP_INPUT, [row.0]).map(drop)
}

pub(crate) fn result(conn: &Connection, row: RowId) -> Result<Option<Payload>> {
    first(conn, sql::RESULT, [row.0], from_row)
}

pub(crate) fn put_result(conn: &Connection, row: RowId, result: &Payload) -> Result<()> {
    let content_type = ContentType(&result.content_type);
    run_on_one(conn, sql::PUT_RESULT, params![row.0, content_type, result.bytes])
}

pub(crate) fn drop_result(conn: &Connection, row: RowId) -> Result<()> {
    run(conn, sql::DROP_RESULT, [row.0]).map(drop)
}

/// Adds what a signal or a step brings along and says where it lies; nothing needs no place.
pub(crate) fn add(conn: &Connection, payload: &Payload) -> Result<Option<i64>> {
    if payload.is_empty() {
        return Ok(None);
    }
    run_on_one(conn, sql::ADD, params![ContentType(&payload.content_type), payload.bytes])?;
    Ok(Some(conn.last_insert_rowid()))
}

/// The payloads of what is numbered within an execution, by a statement that finds one of them.
pub(crate) fn numbered(
    conn: &Connection,
    sql: &str,
    row: RowId,
    seqs: &[u32],
) -> Result<Vec<Payload>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut payloads = Vec::with_capacity(seqs.len());
    for seq in seqs {
        let mut found = statement.query(params![row.0, seq])?;
        let Some(found) = found.next()? else {
            return Err(Fault::bug(format!("there is no number {seq} of row {}:{sql}", row.0)));
        };
        payloads.push(match found.get_ref(1)? {
            ValueRef::Null => Payload::default(),
            _ => from_row(found)?,
        });
    }
    Ok(payloads)
}
