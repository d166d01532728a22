use everloom_core::{GateRow, LimitRow, RowId, Use};
use tokio_postgres::Row;

use super::records::Records;
use super::{Columns, json_unless_default};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::uses as sql;

pub(crate) fn from_row(row: &Row) -> Result<Use> {
    let mut columns = Columns::of(row);
    Ok(Use {
        execution: RowId(columns.take()?),
        limit: LimitRow(columns.take()?),
        open: columns.take()?,
        gate: columns.take::<Option<i64>>()?.map(GateRow),
        share: columns.json_or_default()?,
    })
}

/// The columns of the table.
const COLUMNS: i32 = 5;

pub(crate) fn put(uses: &[Use]) -> Result<Step> {
    let mut records = Records::new(COLUMNS);
    for of in uses {
        let share = json_unless_default(&of.share)?;
        records
            .row()
            .put(of.execution.0)
            .put(of.limit.0)
            .put(of.open)
            .put(of.gate.map(|gate| gate.0))
            .put(share.as_deref());
    }
    Ok(Step::Prepared(sql::PUT, params![records]))
}

pub(crate) fn remove(uses: &[(RowId, LimitRow)]) -> Step {
    let (rows, limits): (Vec<i64>, Vec<i64>) =
        uses.iter().map(|(row, limit)| (row.0, limit.0)).unzip();
    Step::Prepared(sql::DROP, params![rows, limits])
}
