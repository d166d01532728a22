use std::borrow::Cow;

use everloom_core::{
    Code, ExecutionId, NewRequest, Payload, Refusal, Request, RequestCounts, RequestId, Timestamp,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::{all, count, first, limit, optional_time, run, run_on_one};
use crate::error::{Fault, Result};
use crate::sql::inbox as sql;

/// Anyone may have written the row, so whatever it holds is read: the rule refuses what it must.
fn from_row(row: &Row<'_>) -> Result<Request> {
    let execution: Option<[u8; 16]> = row.get(5)?;
    let new = NewRequest {
        kind: text(row, 1)?.unwrap_or_default(),
        input: input(row.get_ref(2)?, text(row, 3)?),
        options: text(row, 4)?.unwrap_or_default(),
        execution: execution.map(|bytes| ExecutionId(Uuid::from_bytes(bytes))),
    };
    Ok(Request { id: RequestId(row.get(0)?), new, refusal: refusal(row)? })
}

/// SQLite lets any bytes be a text.
fn text(row: &Row<'_>, column: usize) -> Result<Option<String>> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// What is not a blob is taken for JSON: a text as it is, a number as it is written.
fn input(value: ValueRef<'_>, content_type: Option<String>) -> Payload {
    let (usual, bytes) = match value {
        ValueRef::Null => (Payload::BYTES, Vec::new()),
        ValueRef::Blob(bytes) => (Payload::BYTES, bytes.to_vec()),
        ValueRef::Text(text) => (Payload::JSON, text.to_vec()),
        ValueRef::Integer(number) => (Payload::JSON, number.to_string().into_bytes()),
        ValueRef::Real(number) => (Payload::JSON, number.to_string().into_bytes()),
    };
    let content_type = content_type.map_or(Cow::Borrowed(usual), Cow::Owned);
    Payload { content_type, bytes }
}

fn refusal(row: &Row<'_>) -> Result<Option<Refusal>> {
    let Some(at) = optional_time(row, 6)? else { return Ok(None) };
    let code = text(row, 7)?.and_then(|code| Code::parse(&code));
    let message = text(row, 8)?.unwrap_or_default();
    Ok(Some(Refusal { at, code: code.unwrap_or(Code::Internal), message }))
}

pub(crate) fn waiting(conn: &Connection, rows: usize) -> Result<Vec<Request>> {
    all(conn, sql::WAITING, [limit(rows)], from_row)
}

pub(crate) fn refused(
    conn: &Connection,
    after: Option<RequestId>,
    rows: usize,
) -> Result<Vec<Request>> {
    let after = after.map_or(i64::MIN, |id| id.0);
    all(conn, sql::REFUSED, params![after, limit(rows)], from_row)
}

pub(crate) fn find(conn: &Connection, id: RequestId) -> Result<Option<Request>> {
    first(conn, sql::FIND, [id.0], from_row)
}

pub(crate) fn counts(conn: &Connection) -> Result<RequestCounts> {
    let found = first(conn, sql::COUNT, [], |row| {
        Ok(RequestCounts { waiting: count(row, 0)?, refused: count(row, 1)? })
    })?;
    found.ok_or_else(|| Fault::bug("a count has no row"))
}

pub(crate) fn add(conn: &Connection, new: &NewRequest) -> Result<RequestId> {
    let NewRequest { kind, input, options, execution } = new;
    let execution = execution.map(|id| id.0.into_bytes());
    let params = params![kind, input.bytes, input.content_type, options, execution];
    run_on_one(conn, sql::ADD, params)?;
    Ok(RequestId(conn.last_insert_rowid()))
}

pub(crate) fn save(conn: &Connection, request: &Request) -> Result<()> {
    let refusal = request.refusal.as_ref();
    let at = refusal.map(|refusal| refusal.at).map(Timestamp::as_millis);
    let code = refusal.map(|refusal| refusal.code.as_str());
    let message = refusal.map(|refusal| refusal.message.as_str());
    run_on_one(conn, sql::SAVE, params![request.id.0, at, code, message])
}

pub(crate) fn remove(conn: &Connection, id: RequestId) -> Result<()> {
    run(conn, sql::DROP, [id.0]).map(drop)
}
