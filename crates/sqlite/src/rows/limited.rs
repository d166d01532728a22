use everloom_core::{Execution, GateRow};
use rusqlite::{Connection, Row, params};

use super::executions::from_row;
use super::{first, limit};
use crate::error::Result;
use crate::sql::executions as sql;

/// The first ones of each lane and route before a gate, jumping from queue to queue.
pub(crate) fn firsts(conn: &Connection, gate: GateRow, each: usize) -> Result<Vec<Execution>> {
    let mut statement = conn.prepare_cached(sql::LIMITED)?;
    let mut found = Vec::new();
    let mut last = Queue { lane: i64::MIN, route: i64::MIN };
    while let Some(queue) = last.next(conn, gate)? {
        let mut rows = statement.query(params![gate.0, queue.lane, queue.route, limit(each)])?;
        while let Some(row) = rows.next()? {
            found.push(from_row(row)?);
        }
        last = queue;
    }
    Ok(found)
}

/// What waits of one lane and route.
struct Queue {
    lane: i64,
    route: i64,
}

impl Queue {
    fn from_row(row: &Row<'_>) -> Result<Self> {
        Ok(Self { lane: row.get(0)?, route: row.get(1)? })
    }

    fn next(&self, conn: &Connection, gate: GateRow) -> Result<Option<Self>> {
        let Self { lane, route } = self;
        let params = params![gate.0, lane, route];
        let beside = first(conn, sql::NEXT_LIMITED_ROUTE, params, Self::from_row)?;
        match beside {
            Some(beside) => Ok(Some(beside)),
            None => first(conn, sql::NEXT_LIMITED_LANE, params![gate.0, lane], Self::from_row),
        }
    }
}
