use everloom_core::{Execution, GateRow};
use rusqlite::{Connection, params};

use super::executions::from_row;
use super::limit;
use crate::error::Result;
use crate::sql::executions as sql;

/// The first ones of each lane and route before a gate, jumping from queue to queue.
pub(crate) fn firsts(conn: &Connection, gate: GateRow, each: usize) -> Result<Vec<Execution>> {
    let mut next = conn.prepare_cached(sql::NEXT_LIMITED)?;
    let mut queue = conn.prepare_cached(sql::LIMITED)?;
    let mut found = Vec::new();
    let (mut lane, mut route) = (i64::MIN, i64::MIN);
    loop {
        let mut rows = next.query(params![gate.0, lane, route])?;
        let Some(row) = rows.next()? else { return Ok(found) };
        (lane, route) = (row.get(0)?, row.get(1)?);
        let mut rows = queue.query(params![gate.0, lane, route, limit(each)])?;
        while let Some(row) = rows.next()? {
            found.push(from_row(row)?);
        }
    }
}
