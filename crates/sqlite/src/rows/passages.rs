use everloom_core::{GateRow, Passage};
use rusqlite::{Connection, params};

use super::{count, first, integer, run, run_on_one, time};
use crate::error::Result;
use crate::sql::passages as sql;

pub(crate) fn find(conn: &Connection, gate: GateRow, number: u64) -> Result<Option<Passage>> {
    let begun = first(conn, sql::FIND, params![gate.0, integer(number)], |row| {
        Ok(Passage { first: count(row, 0)?, last: count(row, 1)?, at: time(row, 2)? })
    })?;
    Ok(begun.filter(|passage| number <= passage.last))
}

pub(crate) fn put(conn: &Connection, gate: GateRow, passage: &Passage) -> Result<()> {
    let Passage { first, last, at } = passage;
    run_on_one(conn, sql::PUT, params![gate.0, integer(*first), integer(*last), at.as_millis()])
}

pub(crate) fn drop_through(conn: &Connection, gate: GateRow, number: u64) -> Result<()> {
    run(conn, sql::DROP_THROUGH, params![gate.0, integer(number)]).map(drop)
}
