use everloom_core::{Execution, FlowRow, MemberCount, RowId};
use rusqlite::{Connection, params};

use super::executions::{from_row, status};
use super::{all, count, first, limit, run_on_one};
use crate::error::Result;
use crate::sql::executions as sql;

pub(crate) fn find(conn: &Connection, flow: FlowRow, node: &str) -> Result<Option<Execution>> {
    first(conn, sql::MEMBER, params![flow.0, node], from_row)
}

pub(crate) fn after(
    conn: &Connection,
    flow: FlowRow,
    after: Option<&str>,
    rows: usize,
) -> Result<Vec<Execution>> {
    let params = params![flow.0, after.unwrap_or_default(), limit(rows)];
    all(conn, sql::MEMBERS, params, from_row)
}

pub(crate) fn counts(conn: &Connection, flow: FlowRow) -> Result<Vec<MemberCount>> {
    all(conn, sql::COUNT_MEMBERS, [flow.0], |row| {
        Ok(MemberCount { status: status(row, 0)?, started: row.get(1)?, count: count(row, 2)? })
    })
}

pub(crate) fn children(
    conn: &Connection,
    parent: RowId,
    after: Option<RowId>,
    rows: usize,
) -> Result<Vec<Execution>> {
    let after = after.map_or(i64::MIN, |after| after.0);
    all(conn, sql::CHILDREN, params![parent.0, after, limit(rows)], from_row)
}

pub(crate) fn save(conn: &Connection, execution: &Execution) -> Result<()> {
    let member = execution.member.as_deref();
    let params = params![
        execution.row.0,
        member.map(|member| member.flow.0),
        member.map(|member| member.flow_id.0.as_bytes()),
        member.map(|member| &member.node)
    ];
    run_on_one(conn, sql::SAVE_MEMBER, params)
}
