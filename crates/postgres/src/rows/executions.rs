use std::cmp::Reverse;
use std::sync::{Arc, OnceLock};

use everloom_core::{
    Beside, Count, Edge, Epoch, Execution, ExecutionId, FlowId, FlowRow, GateRow, LaneId, Member,
    NamespaceId, Policy, RouteId, RowId, Secret, State, StateColumns, Status, Tags,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::payloads::{self, Input};
use super::records::Records;
use super::{Columns, code, edges, from_json, integer, json, millis};
use crate::error::{Fault, Result};
use crate::exchange::Inserted;
use crate::link::{Step, params};
use crate::sql::executions as sql;

pub(crate) fn from_row(row: &Row) -> Result<Execution> {
    take(&mut Columns::of(row))
}

/// An execution with what a claim hands over.
pub(crate) struct Whole {
    pub(crate) execution: Execution,
    pub(crate) input: Input,
    /// Whether its flow is held or being closed, if it has one.
    pub(crate) gate: Option<bool>,
    /// The edges into it that bind results.
    pub(crate) bound: Vec<Edge>,
}

pub(crate) fn whole_from_row(row: &Row) -> Result<Whole> {
    let mut columns = Columns::of(row);
    let execution = take(&mut columns)?;
    let input = payloads::input(&mut columns)?;
    let gate = columns.take()?;
    let bound = match columns.take::<Option<&str>>()? {
        None => vec![],
        Some(text) => edges::bound_from_json(execution.row, text)?,
    };
    Ok(Whole { execution, input, gate, bound })
}

/// An execution, and whether its flow is held or being closed, if it has one.
pub(crate) fn gated_from_row(row: &Row) -> Result<(Execution, Option<bool>)> {
    let mut columns = Columns::of(row);
    Ok((take(&mut columns)?, columns.take()?))
}

fn take(columns: &mut Columns<'_>) -> Result<Execution> {
    let row = RowId(columns.take()?);
    let id = ExecutionId(columns.take()?);
    let namespace = NamespaceId(columns.take()?);
    let lane = LaneId(columns.take()?);
    let route = RouteId(columns.take()?);
    let priority = columns.take()?;
    let rank = columns.take()?;
    let state: i32 = columns.take()?;
    let held = columns.take()?;
    let since = columns.time()?;
    let until = columns.optional_time()?;
    let deadline_at = columns.optional_time()?;
    let created_at = columns.time()?;
    let started_at = columns.optional_time()?;
    let epoch = Epoch(columns.count()?);
    let attempt = columns.count()?;
    let retries = columns.count()?;
    let reclaims = columns.count()?;
    let run = columns.count()?;
    let state = StateColumns {
        state: i64::from(state),
        until,
        worker: columns.take()?,
        secret: columns.bytes()?.map(Secret::new),
        ttl_ms: columns.take()?,
        gate: columns.take::<Option<i64>>()?.map(GateRow),
        detail: columns.take()?,
    };
    Ok(Execution {
        row,
        id,
        namespace,
        lane,
        route,
        priority,
        rank,
        state: State::from_columns(&state)?,
        since,
        held,
        deadline_at,
        created_at,
        started_at,
        epoch,
        attempt,
        retries,
        reclaims,
        run,
        policy: match columns.take::<Option<&str>>()? {
            None => no_policy(),
            Some(text) => Arc::new(from_json(text)?),
        },
        tags: match columns.take::<Option<&str>>()? {
            None => no_tags(),
            Some(text) => Arc::new(from_json(text)?),
        },
        created_by: columns.take()?,
        progress: columns.take::<Option<&str>>()?.map(from_json).transpose()?,
        key: columns.take()?,
        gated: columns.take()?,
        beside: Beside::from_code(i64::from(columns.take::<i32>()?)),
        parent: columns.take::<Option<i64>>()?.map(RowId),
        member: member(columns)?,
    })
}

fn member(columns: &mut Columns<'_>) -> Result<Option<Arc<Member>>> {
    let flow = columns.take::<Option<i64>>()?.map(FlowRow);
    let flow_id = columns.take::<Option<Uuid>>()?.map(FlowId);
    let node = columns.take::<Option<String>>()?;
    let member = flow.zip(flow_id).zip(node);
    Ok(member.map(|((flow, flow_id), node)| Arc::new(Member { flow, flow_id, node })))
}

/// Where an execution stands among others before a gate: by lane and route, in the order of claims.
pub(crate) fn place(execution: &Execution) -> (LaneId, RouteId, Reverse<i32>, i64, RowId) {
    let Execution { lane, route, priority, rank, row, .. } = *execution;
    (lane, route, Reverse(priority), rank, row)
}

/// Most executions have no policy and no tags of their own: they share one of each.
fn no_policy() -> Arc<Policy> {
    static NONE: OnceLock<Arc<Policy>> = OnceLock::new();
    Arc::clone(NONE.get_or_init(Arc::default))
}

pub(crate) fn no_tags() -> Arc<Tags> {
    static NONE: OnceLock<Arc<Tags>> = OnceLock::new();
    Arc::clone(NONE.get_or_init(Arc::default))
}

fn policy_column(policy: &Policy) -> Result<Option<String>> {
    if policy.is_empty() { Ok(None) } else { json(policy).map(Some) }
}

pub(crate) fn tags_column(tags: &Tags) -> Result<Option<String>> {
    if tags.is_empty() { Ok(None) } else { json(tags).map(Some) }
}

/// The columns of the table.
const COLUMNS: i32 = 36;

/// Adds an execution as a row of the table. What never changes is left out unless it is `new`.
fn put(records: &mut Records, execution: &Execution, new: bool) -> Result<()> {
    let state = execution.state.columns();
    let policy = if new { policy_column(&execution.policy)? } else { None };
    let tags = if new { tags_column(&execution.tags)? } else { None };
    let progress = execution.progress.as_ref().map(json).transpose()?;
    let member = execution.member.as_deref().filter(|_| new);
    let mut row = records.row();
    row.put(execution.row.0)
        .put(execution.id.0)
        .put(execution.namespace.0)
        .put(execution.lane.0)
        .put(execution.route.0)
        .put(execution.priority)
        .put(execution.rank)
        .put(code(state.state))
        .put(execution.held)
        .put(millis(execution.due_at()))
        .put(execution.since.as_millis())
        .put(millis(state.until))
        .put(millis(execution.deadline_at))
        .put(execution.created_at.as_millis())
        .put(millis(execution.started_at))
        .put(integer(execution.epoch.0))
        .put(i64::from(execution.attempt))
        .put(i64::from(execution.retries))
        .put(i64::from(execution.reclaims))
        .put(i64::from(execution.run))
        .put(state.worker)
        .put(state.secret.as_ref().map(|secret| &secret.as_bytes()[..]))
        .put(state.ttl_ms)
        .put(state.detail.as_deref())
        .put(policy.as_deref())
        .put(tags.as_deref())
        .put(execution.created_by.as_deref().filter(|_| new))
        .put(progress.as_deref())
        .put(execution.key.as_deref().filter(|_| new))
        .put(execution.gated)
        .put(code(execution.beside.code()))
        .put(execution.parent.map(|parent| parent.0).filter(|_| new))
        .put(member.map(|member| member.flow.0))
        .put(member.map(|member| member.flow_id.0))
        .put(member.map(|member| &*member.node))
        .put(state.gate.map(|gate| gate.0));
    Ok(())
}

pub(crate) fn insert(inserted: &[Inserted]) -> Result<Step> {
    let mut records = Records::new(COLUMNS);
    for new in inserted {
        put(&mut records, &new.execution, true)?;
    }
    Ok(Step::Prepared(sql::INSERT, params![records]))
}

pub(crate) fn save(executions: &[Execution]) -> Result<Step> {
    let mut records = Records::new(COLUMNS);
    for execution in executions {
        put(&mut records, execution, false)?;
    }
    Ok(Step::Prepared(sql::SAVE, params![records]))
}

pub(crate) fn save_tags(executions: &[&Execution]) -> Result<Step> {
    let rows: Vec<i64> = executions.iter().map(|execution| execution.row.0).collect();
    let tags: Vec<Option<String>> =
        executions.iter().map(|execution| tags_column(&execution.tags)).collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::SAVE_TAGS, params![rows, tags]))
}

pub(crate) fn save_policies(executions: &[Execution]) -> Result<Step> {
    let rows: Vec<i64> = executions.iter().map(|execution| execution.row.0).collect();
    let policies = executions.iter().map(|execution| policy_column(&execution.policy));
    let policies: Vec<Option<String>> = policies.collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::SAVE_POLICY, params![rows, policies]))
}

pub(crate) fn count_from_row(row: &Row) -> Result<Count> {
    let mut columns = Columns::of(row);
    Ok(Count { status: status(&mut columns)?, held: columns.take()?, count: columns.count()? })
}

pub(crate) fn status(columns: &mut Columns<'_>) -> Result<Status> {
    let code = i64::from(columns.take::<i32>()?);
    Status::from_code(code).ok_or_else(|| Fault::bug(format!("a row has the unknown state {code}")))
}
