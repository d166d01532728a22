use everloom_core::{Fingerprint, NamespaceId, RowId, Waitpoint, WaitpointCourse, WaitpointId};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::{
    all, count, first, json, json_column, limit, millis, optional_time, run, run_on_one, time,
};
use crate::error::Result;
use crate::sql::waitpoints as sql;

fn from_row(row: &Row<'_>) -> Result<Waitpoint> {
    let WaitpointCourse { state, borne } = json_column(row, 9)?;
    Ok(Waitpoint {
        execution: RowId(row.get(0)?),
        seq: row.get(1)?,
        id: WaitpointId(Uuid::from_bytes(row.get(2)?)),
        namespace: NamespaceId(row.get(3)?),
        key: row.get(4)?,
        kid: row.get(5)?,
        fingerprint: Fingerprint(row.get(6)?),
        created_at: time(row, 7)?,
        expires_at: optional_time(row, 8)?,
        state,
        borne,
    })
}

pub(crate) fn find(
    conn: &Connection,
    execution: RowId,
    id: WaitpointId,
) -> Result<Option<Waitpoint>> {
    first(conn, sql::BY_UUID, params![execution.0, id.0.as_bytes()], from_row)
}

pub(crate) fn open(conn: &Connection, execution: RowId) -> Result<Vec<Waitpoint>> {
    all(conn, sql::OPEN, [execution.0], from_row)
}

pub(crate) fn last(conn: &Connection, execution: RowId) -> Result<u32> {
    let last = first(conn, sql::LAST_SEQ, [execution.0], |row| Ok(row.get(0)?))?;
    Ok(last.unwrap_or(0))
}

pub(crate) fn after(
    conn: &Connection,
    execution: RowId,
    after: u32,
    rows: usize,
) -> Result<Vec<Waitpoint>> {
    all(conn, sql::AFTER, params![execution.0, after, limit(rows)], from_row)
}

pub(crate) fn inbox(
    conn: &Connection,
    namespace: NamespaceId,
    key: Option<&str>,
    after: Option<WaitpointId>,
    rows: usize,
) -> Result<Vec<Waitpoint>> {
    // No bytes are less than any others.
    let after = after.as_ref().map_or(&[][..], |after| after.0.as_bytes());
    all(conn, sql::INBOX, params![namespace.0, after, key, limit(rows)], from_row)
}

pub(crate) fn count_signed(conn: &Connection, namespace: NamespaceId, kid: &str) -> Result<u64> {
    let signed = first(conn, sql::COUNT_SIGNED, params![namespace.0, kid], |row| count(row, 0))?;
    Ok(signed.unwrap_or(0))
}

pub(crate) fn add(conn: &Connection, waitpoint: &Waitpoint) -> Result<()> {
    let params = params![
        waitpoint.execution.0,
        waitpoint.seq,
        waitpoint.id.0.as_bytes(),
        waitpoint.namespace.0,
        waitpoint.key,
        waitpoint.kid,
        waitpoint.fingerprint.0,
        waitpoint.created_at.as_millis(),
        millis(waitpoint.expires_at),
        json(&waitpoint.course())?,
        waitpoint.is_open()
    ];
    run_on_one(conn, sql::ADD, params)
}

pub(crate) fn save(conn: &Connection, waitpoint: &Waitpoint) -> Result<()> {
    let Waitpoint { execution, seq, kid, fingerprint, .. } = waitpoint;
    let (state, is_open) = (json(&waitpoint.course())?, waitpoint.is_open());
    if is_open {
        let params = params![execution.0, seq, kid, fingerprint.0, state];
        if run(conn, sql::SAVE_OPEN, params)? == 1 {
            return Ok(());
        }
    }
    run_on_one(conn, sql::SAVE, params![execution.0, seq, kid, fingerprint.0, state, is_open])
}

pub(crate) fn drop_all(conn: &Connection, execution: RowId) -> Result<()> {
    run(conn, sql::DROP_ALL, [execution.0]).map(drop)
}
