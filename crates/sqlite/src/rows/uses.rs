use everloom_core::{GateRow, LimitRow, RowId, Use};
use rusqlite::{Connection, Row, params};

use super::{all, json_or_default, json_unless_default, limit as limit_to, run, run_on_one};
use crate::error::Result;
use crate::sql::uses as sql;

fn from_row(row: &Row<'_>) -> Result<Use> {
    Ok(Use {
        execution: RowId(row.get(0)?),
        limit: LimitRow(row.get(1)?),
        open: row.get(2)?,
        gate: row.get::<_, Option<i64>>(3)?.map(GateRow),
        share: json_or_default(row, 4)?,
    })
}

pub(crate) fn of(conn: &Connection, execution: RowId) -> Result<Vec<Use>> {
    all(conn, sql::OF, [execution.0], from_row)
}

pub(crate) fn open(
    conn: &Connection,
    limit: LimitRow,
    after: Option<RowId>,
    rows: usize,
) -> Result<Vec<Use>> {
    let after = after.map_or(i64::MIN, |row| row.0);
    all(conn, sql::OPEN, params![limit.0, after, limit_to(rows)], from_row)
}

pub(crate) fn put(conn: &Connection, of: &Use) -> Result<()> {
    let (gate, share) = (of.gate.map(|gate| gate.0), json_unless_default(&of.share)?);
    let params = params![of.execution.0, of.limit.0, of.open, gate, share];
    if run(conn, sql::SAVE, params)? == 0 {
        run_on_one(conn, sql::PUT, params)?;
    }
    Ok(())
}

pub(crate) fn remove(conn: &Connection, execution: RowId, limit: LimitRow) -> Result<()> {
    run(conn, sql::DROP, params![execution.0, limit.0]).map(drop)
}

pub(crate) fn drop_all(conn: &Connection, execution: RowId) -> Result<()> {
    run(conn, sql::DROP_ALL, [execution.0]).map(drop)
}

pub(crate) fn drop_of_limit(conn: &Connection, limit: LimitRow) -> Result<()> {
    run(conn, sql::DROP_OF_LIMIT, [limit.0]).map(drop)
}
