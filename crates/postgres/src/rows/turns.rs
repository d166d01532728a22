use everloom_core::{LaneId, Turn};
use tokio_postgres::Row;

use super::{Columns, limit};
use crate::error::Result;
use crate::exchange::PastTurns;
use crate::link::{Step, params};
use crate::sql::turns as sql;

pub(crate) fn from_row(row: &Row) -> Result<Turn> {
    let mut columns = Columns::of(row);
    Ok(Turn {
        lane: LaneId(columns.take()?),
        priority: columns.take()?,
        key: columns.take()?,
        next: columns.take()?,
    })
}

pub(crate) fn write(sql: &'static str, turns: &[Turn]) -> Step {
    let lanes: Vec<i64> = turns.iter().map(|turn| turn.lane.0).collect();
    let priorities: Vec<i32> = turns.iter().map(|turn| turn.priority).collect();
    let keys: Vec<String> = turns.iter().map(|turn| turn.key.clone()).collect();
    let next: Vec<i64> = turns.iter().map(|turn| turn.next).collect();
    Step::Prepared(sql, params![lanes, priorities, keys, next])
}

pub(crate) fn remove(past: &[PastTurns]) -> Step {
    let lanes: Vec<i64> = past.iter().map(|past| past.lane.0).collect();
    let priorities: Vec<i32> = past.iter().map(|past| past.priority).collect();
    let before: Vec<i64> = past.iter().map(|past| past.before).collect();
    let most: Vec<i64> = past.iter().map(|past| limit(past.limit)).collect();
    Step::Prepared(sql::DROP, params![lanes, priorities, before, most])
}
