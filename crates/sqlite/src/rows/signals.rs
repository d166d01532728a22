use everloom_core::{Payload, RowId, Signal, SignalId, TakenSignal, WaitpointId};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::{all, first, json, json_column, limit, payloads, run, run_on_one};
use crate::error::Result;
use crate::sql::signals as sql;

fn from_row(row: &Row<'_>) -> Result<Signal> {
    let waitpoint: Option<[u8; 16]> = row.get(3)?;
    Ok(Signal {
        execution: RowId(row.get(0)?),
        seq: row.get(1)?,
        id: SignalId(Uuid::from_bytes(row.get(2)?)),
        waitpoint: waitpoint.map(|bytes| WaitpointId(Uuid::from_bytes(bytes))),
        key: row.get(4)?,
        run: row.get(5)?,
        taken: match row.get(6)? {
            None => None,
            Some(suspension) => Some(TakenSignal { suspension, counted: row.get(7)? }),
        },
        facts: json_column(row, 8)?,
    })
}

pub(crate) fn last(conn: &Connection, execution: RowId) -> Result<u32> {
    let last = first(conn, sql::LAST_SEQ, [execution.0], |row| Ok(row.get(0)?))?;
    Ok(last.unwrap_or(0))
}

pub(crate) fn by_key(conn: &Connection, execution: RowId, key: &str) -> Result<Option<Signal>> {
    first(conn, sql::BY_KEY, params![execution.0, key], from_row)
}

pub(crate) fn kept(conn: &Connection, execution: RowId, run: u32) -> Result<Vec<Signal>> {
    all(conn, sql::KEPT, params![execution.0, run], from_row)
}

pub(crate) fn taken(
    conn: &Connection,
    execution: RowId,
    suspension: u32,
    after: u32,
    rows: usize,
) -> Result<Vec<Signal>> {
    all(conn, sql::TAKEN, params![execution.0, suspension, after, limit(rows)], from_row)
}

pub(crate) fn after(
    conn: &Connection,
    execution: RowId,
    after: u32,
    rows: usize,
) -> Result<Vec<Signal>> {
    all(conn, sql::AFTER, params![execution.0, after, limit(rows)], from_row)
}

pub(crate) fn payloads(conn: &Connection, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>> {
    payloads::numbered(conn, sql::PAYLOAD, execution, seqs)
}

pub(crate) fn add(conn: &Connection, signal: &Signal, payload: &Payload) -> Result<()> {
    let payload = payloads::add(conn, payload)?;
    let params = params![
        signal.execution.0,
        signal.seq,
        signal.id.0.as_bytes(),
        signal.waitpoint.as_ref().map(|id| id.0.as_bytes()),
        signal.key,
        signal.run,
        signal.taken.map(|taken| taken.suspension),
        signal.taken.map(|taken| taken.counted),
        json(&signal.facts)?,
        payload
    ];
    run_on_one(conn, sql::ADD, params)
}

pub(crate) fn save(conn: &Connection, signal: &Signal) -> Result<()> {
    let params = params![
        signal.execution.0,
        signal.seq,
        signal.taken.map(|taken| taken.suspension),
        signal.taken.map(|taken| taken.counted)
    ];
    run_on_one(conn, sql::SAVE, params)
}

pub(crate) fn drop_all(conn: &Connection, execution: RowId) -> Result<()> {
    run(conn, sql::DROP_PAYLOADS, [execution.0])?;
    run(conn, sql::DROP_ALL, [execution.0]).map(drop)
}
