use everloom_core::{Gate, GateRow, LimitRow, NamespaceId, Timestamp};
use tokio_postgres::Row;

use super::{Columns, from_json, json, millis};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::gates as sql;

pub(crate) fn from_row(row: &Row) -> Result<Gate> {
    let mut columns = Columns::of(row);
    Ok(Gate {
        row: GateRow(columns.take()?),
        namespace: NamespaceId(columns.take()?),
        limit: LimitRow(columns.take()?),
        key: columns.take()?,
        course: from_json(columns.take()?)?,
        // The beginning of time is of those that were made and not used yet.
        idle_at: columns.optional_time()?.filter(|at| *at > Timestamp::default()),
    })
}

pub(crate) fn save(gates: &[Gate]) -> Result<Step> {
    let rows: Vec<i64> = gates.iter().map(|gate| gate.row.0).collect();
    let courses: Vec<String> =
        gates.iter().map(|gate| json(&gate.course)).collect::<Result<_>>()?;
    let idle: Vec<Option<i64>> = gates.iter().map(|gate| millis(gate.idle_at)).collect();
    Ok(Step::Prepared(sql::SAVE, params![rows, courses, idle]))
}
