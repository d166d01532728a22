use everloom_core::{LaneId, Turn};
use rusqlite::{Connection, params};

use super::{first, limit, run, run_on_one};
use crate::error::Result;
use crate::sql::turns as sql;

pub(crate) fn find(
    conn: &Connection,
    lane: LaneId,
    priority: i32,
    key: &str,
) -> Result<Option<Turn>> {
    first(conn, sql::FIND, params![lane.0, priority, key], |row| {
        Ok(Turn { lane, priority, key: key.to_owned(), next: row.get(0)? })
    })
}

pub(crate) fn put(conn: &Connection, turn: &Turn) -> Result<()> {
    let Turn { lane, priority, key, next } = turn;
    run_on_one(conn, sql::PUT, params![lane.0, priority, key, next])
}

pub(crate) fn drop_before(
    conn: &Connection,
    lane: LaneId,
    priority: i32,
    moment: i64,
    rows: usize,
) -> Result<()> {
    run(conn, sql::DROP_BEFORE, params![lane.0, priority, moment, limit(rows)]).map(drop)
}
