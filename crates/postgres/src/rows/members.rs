use everloom_core::{Execution, FlowRow, Member, MemberCount};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Columns;
use super::executions::status;
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::executions as sql;

pub(crate) fn count_from_row(row: &Row) -> Result<(FlowRow, MemberCount)> {
    let mut columns = Columns::of(row);
    let flow = FlowRow(columns.take()?);
    let status = status(&mut columns)?;
    let (started, count) = (columns.take()?, columns.count()?);
    Ok((flow, MemberCount { status, started, count }))
}

/// Gives executions their places in flows.
pub(crate) fn save(executions: &[Execution]) -> Step {
    let members = || executions.iter().map(|execution| execution.member.as_deref());
    let rows: Vec<i64> = executions.iter().map(|execution| execution.row.0).collect();
    let flows: Vec<Option<i64>> =
        members().map(|member| member.map(|member| member.flow.0)).collect();
    let ids: Vec<Option<Uuid>> =
        members().map(|member| member.map(|member| member.flow_id.0)).collect();
    let node = |member: &Member| member.node.clone();
    let nodes: Vec<Option<String>> = members().map(|member| member.map(node)).collect();
    Step::Prepared(sql::SAVE_MEMBER, params![rows, flows, ids, nodes])
}
