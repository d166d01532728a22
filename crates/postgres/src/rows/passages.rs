use everloom_core::{GateRow, Passage};
use tokio_postgres::Row;

use super::{Columns, integer};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::passages as sql;

pub(crate) fn from_row(row: &Row) -> Result<(GateRow, Passage)> {
    let mut columns = Columns::of(row);
    let gate = GateRow(columns.take()?);
    let (first, last, at) = (columns.count()?, columns.count()?, columns.time()?);
    Ok((gate, Passage { first, last, at }))
}

pub(crate) fn put(passages: &[(GateRow, Passage)]) -> Step {
    let gates: Vec<i64> = passages.iter().map(|(gate, _)| gate.0).collect();
    let firsts: Vec<i64> = passages.iter().map(|(_, one)| integer(one.first)).collect();
    let lasts: Vec<i64> = passages.iter().map(|(_, one)| integer(one.last)).collect();
    let times: Vec<i64> = passages.iter().map(|(_, one)| one.at.as_millis()).collect();
    Step::Prepared(sql::PUT, params![gates, firsts, lasts, times])
}

pub(crate) fn remove(through: &[(GateRow, u64)]) -> Step {
    let (gates, numbers): (Vec<i64>, Vec<i64>) =
        through.iter().map(|(gate, number)| (gate.0, integer(*number))).unzip();
    Step::Prepared(sql::DROP, params![gates, numbers])
}
