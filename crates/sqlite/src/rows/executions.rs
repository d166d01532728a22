use std::sync::{Arc, OnceLock};

use everloom_core::{
    Beside, Count, Epoch, Execution, ExecutionId, FlowId, FlowRow, GateRow, LaneId, Member,
    NamespaceId, Payload, Policy, RouteId, RowId, Secret, State, StateColumns, Status, Tags,
    Timestamp,
};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::{
    all, count, edges, first, from_json, integer, joins, json, json_or_default, limit, millis,
    optional_time, past_leases, payloads, run_on_one, signals, steps, streams, summaries,
    suspensions, tags, time, uses, waitpoints,
};
use crate::error::{Fault, Result};
use crate::ready::ReadyHeads;
use crate::sql::executions as sql;

/// Where a column stands in what `sql::executions` selects.
pub(crate) mod column {
    pub(crate) const ID: usize = 0;
    pub(crate) const UUID: usize = 1;
    pub(crate) const NAMESPACE: usize = 2;
    pub(crate) const LANE: usize = 3;
    pub(crate) const ROUTE: usize = 4;
    pub(crate) const PRIORITY: usize = 5;
    pub(crate) const RANK: usize = 6;
    pub(crate) const STATE: usize = 7;
    pub(crate) const HELD: usize = 8;
    pub(crate) const SINCE: usize = 9;
    pub(crate) const UNTIL: usize = 10;
    pub(crate) const DEADLINE_AT: usize = 11;
    pub(crate) const CREATED_AT: usize = 12;
    pub(crate) const STARTED_AT: usize = 13;
    pub(crate) const EPOCH: usize = 14;
    pub(crate) const ATTEMPT: usize = 15;
    pub(crate) const RETRIES: usize = 16;
    pub(crate) const RECLAIMS: usize = 17;
    pub(crate) const RUN: usize = 18;
    pub(crate) const WORKER: usize = 19;
    pub(crate) const SECRET: usize = 20;
    pub(crate) const TTL_MS: usize = 21;
    pub(crate) const DETAIL: usize = 22;
    pub(crate) const POLICY: usize = 23;
    pub(crate) const TAGS: usize = 24;
    pub(crate) const CREATED_BY: usize = 25;
    pub(crate) const PROGRESS: usize = 26;
    pub(crate) const KEY: usize = 27;
    pub(crate) const BESIDE: usize = 28;
    pub(crate) const PARENT: usize = 29;
    pub(crate) const FLOW: usize = 30;
    pub(crate) const FLOW_UUID: usize = 31;
    pub(crate) const NODE: usize = 32;
    pub(crate) const GATE: usize = 33;
}

/// Who holds an execution, as the bits of one column: only what nobody holds may be claimed.
const BY_OPERATOR: i64 = 1;
const BY_FLOW: i64 = 2;

fn held_column(execution: &Execution) -> i64 {
    let by_operator = if execution.held { BY_OPERATOR } else { 0 };
    let by_flow = if execution.gated { BY_FLOW } else { 0 };
    by_operator | by_flow
}

pub(crate) fn from_row(row: &Row<'_>) -> Result<Execution> {
    let held: i64 = row.get(column::HELD)?;
    Ok(Execution {
        row: RowId(row.get(column::ID)?),
        id: ExecutionId(Uuid::from_bytes(row.get(column::UUID)?)),
        namespace: NamespaceId(row.get(column::NAMESPACE)?),
        lane: LaneId(row.get(column::LANE)?),
        route: RouteId(row.get(column::ROUTE)?),
        priority: row.get(column::PRIORITY)?,
        rank: row.get(column::RANK)?,
        state: state_from_row(row)?,
        since: time(row, column::SINCE)?,
        held: held & BY_OPERATOR != 0,
        gated: held & BY_FLOW != 0,
        deadline_at: optional_time(row, column::DEADLINE_AT)?,
        created_at: time(row, column::CREATED_AT)?,
        started_at: optional_time(row, column::STARTED_AT)?,
        epoch: Epoch(count(row, column::EPOCH)?),
        attempt: row.get(column::ATTEMPT)?,
        retries: row.get(column::RETRIES)?,
        reclaims: row.get(column::RECLAIMS)?,
        run: row.get(column::RUN)?,
        policy: match row.get_ref(column::POLICY)?.as_str_or_null()? {
            None => no_policy(),
            Some(text) => Arc::new(from_json(text)?),
        },
        tags: match row.get_ref(column::TAGS)?.as_str_or_null()? {
            None => no_tags(),
            Some(text) => Arc::new(from_json(text)?),
        },
        created_by: row.get(column::CREATED_BY)?,
        progress: match row.get_ref(column::PROGRESS)?.as_str_or_null()? {
            None => None,
            Some(text) => Some(from_json(text)?),
        },
        key: row.get(column::KEY)?,
        beside: Beside::from_code(row.get(column::BESIDE)?),
        parent: row.get::<_, Option<i64>>(column::PARENT)?.map(RowId),
        member: member_from_row(row)?,
    })
}

fn member_from_row(row: &Row<'_>) -> Result<Option<Arc<Member>>> {
    let Some(flow) = row.get::<_, Option<i64>>(column::FLOW)? else { return Ok(None) };
    Ok(Some(Arc::new(Member {
        flow: FlowRow(flow),
        flow_id: FlowId(Uuid::from_bytes(row.get(column::FLOW_UUID)?)),
        node: row.get(column::NODE)?,
    })))
}

fn state_from_row(row: &Row<'_>) -> Result<State> {
    Ok(State::from_columns(&StateColumns {
        state: row.get(column::STATE)?,
        until: optional_time(row, column::UNTIL)?,
        worker: row.get_ref(column::WORKER)?.as_str_or_null()?,
        secret: row.get::<_, Option<[u8; 16]>>(column::SECRET)?.map(Secret::new),
        ttl_ms: row.get(column::TTL_MS)?,
        detail: row.get(column::DETAIL)?,
        gate: row.get::<_, Option<i64>>(column::GATE)?.map(GateRow),
    })?)
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

pub(crate) fn tags_column(tags: &Tags) -> Result<Option<String>> {
    if tags.is_empty() { Ok(None) } else { json(tags).map(Some) }
}

pub(crate) fn insert(
    conn: &Connection,
    ready: &mut ReadyHeads,
    execution: &Execution,
    input: &Payload,
    fingerprint: Option<&[u8; 16]>,
) -> Result<()> {
    let state = execution.state.columns();
    let member = execution.member.as_deref();
    run_on_one(
        conn,
        sql::INSERT,
        params![
            execution.row.0,
            execution.id.0.as_bytes(),
            execution.namespace.0,
            execution.lane.0,
            execution.route.0,
            execution.priority,
            execution.rank,
            state.state,
            held_column(execution),
            execution.since.as_millis(),
            millis(state.until),
            millis(execution.deadline_at),
            execution.created_at.as_millis(),
            millis(execution.started_at),
            integer(execution.epoch.0),
            execution.attempt,
            execution.retries,
            execution.reclaims,
            execution.run,
            state.worker,
            state.secret.as_ref().map(Secret::as_bytes),
            state.ttl_ms,
            state.detail,
            policy_column(execution)?,
            tags_column(&execution.tags)?,
            execution.created_by,
            progress_column(execution)?,
            execution.key,
            execution.beside.code(),
            execution.parent.map(|parent| parent.0),
            member.map(|member| member.flow.0),
            member.map(|member| member.flow_id.0.as_bytes()),
            member.map(|member| &member.node),
            state.gate.map(|gate| gate.0),
            millis(execution.due_at())
        ],
    )?;
    payloads::add_input(conn, execution.row, input, fingerprint)?;
    tags::add(conn, execution.namespace, execution.row, &execution.tags)?;
    ready.note(execution);
    Ok(())
}

fn policy_column(execution: &Execution) -> Result<Option<String>> {
    if execution.policy.is_empty() { Ok(None) } else { json(&*execution.policy).map(Some) }
}

fn progress_column(execution: &Execution) -> Result<Option<String>> {
    execution.progress.as_ref().map(json).transpose()
}

pub(crate) fn save(conn: &Connection, ready: &mut ReadyHeads, execution: &Execution) -> Result<()> {
    let state = execution.state.columns();
    run_on_one(
        conn,
        sql::SAVE,
        params![
            execution.row.0,
            execution.priority,
            execution.rank,
            state.state,
            held_column(execution),
            execution.since.as_millis(),
            millis(state.until),
            millis(execution.deadline_at),
            millis(execution.started_at),
            integer(execution.epoch.0),
            execution.attempt,
            execution.retries,
            execution.reclaims,
            execution.run,
            state.worker,
            state.secret.as_ref().map(Secret::as_bytes),
            state.ttl_ms,
            state.detail,
            progress_column(execution)?,
            millis(execution.due_at()),
            execution.beside.code(),
            state.gate.map(|gate| gate.0)
        ],
    )?;
    ready.note(execution);
    Ok(())
}

pub(crate) fn save_tags(conn: &Connection, execution: &Execution) -> Result<()> {
    let stored = first(conn, sql::TAGS, [execution.row.0], |row| json_or_default(row, 0))?;
    let stored: Tags = stored
        .ok_or_else(|| Fault::bug(format!("there is no execution in row {}", execution.row.0)))?;
    let wanted = &*execution.tags;
    let only_in = |these: &Tags, others: &Tags| -> Tags {
        let absent = |(key, value): &(&String, &String)| others.get(*key) != Some(*value);
        these.iter().filter(absent).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let (namespace, row) = (execution.namespace, execution.row);
    tags::remove(conn, namespace, row, &only_in(&stored, wanted))?;
    tags::add(conn, namespace, row, &only_in(wanted, &stored))?;
    run_on_one(conn, sql::SAVE_TAGS, params![row.0, tags_column(wanted)?])
}

/// Which limits it names changes, and nothing that says when it is due.
pub(crate) fn save_policy(conn: &Connection, execution: &Execution) -> Result<()> {
    run_on_one(conn, sql::SAVE_POLICY, params![execution.row.0, policy_column(execution)?])
}

pub(crate) fn remove(
    conn: &Connection,
    ready: &mut ReadyHeads,
    execution: &Execution,
) -> Result<()> {
    let row = execution.row;
    run_on_one(conn, sql::REMOVE, [row.0])?;
    payloads::drop_input(conn, row)?;
    payloads::drop_result(conn, row)?;
    past_leases::drop_all(conn, row)?;
    tags::remove(conn, execution.namespace, row, &execution.tags)?;
    // Nothing else is ever waited for or waits.
    if execution.member.is_some() || execution.beside.children {
        joins::remove(conn, row)?;
        edges::drop_all(conn, row)?;
    }
    if execution.beside.mail {
        suspensions::drop_all(conn, row)?;
        waitpoints::drop_all(conn, row)?;
        signals::drop_all(conn, row)?;
    }
    if execution.beside.steps {
        steps::drop_from(conn, row, 0)?;
    }
    if execution.beside.stream {
        summaries::remove(conn, row)?;
        streams::remove(conn, row)?;
    }
    if execution.beside.limits {
        uses::drop_all(conn, row)?;
    }
    ready.forget(execution);
    Ok(())
}

pub(crate) fn by_row(conn: &Connection, row: RowId) -> Result<Option<Execution>> {
    first(conn, sql::BY_ROW, [row.0], from_row)
}

pub(crate) fn find(
    conn: &Connection,
    namespace: NamespaceId,
    ids: &[ExecutionId],
) -> Result<Vec<Option<Execution>>> {
    let mut statement = conn.prepare_cached(sql::FIND)?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = statement.query(params![id.0.as_bytes(), namespace.0])?;
        found.push(rows.next()?.map(from_row).transpose()?);
    }
    Ok(found)
}

pub(crate) fn due(conn: &Connection, by: Timestamp, rows: usize) -> Result<Vec<Execution>> {
    all(conn, sql::DUE, params![by.as_millis(), limit(rows)], from_row)
}

pub(crate) fn retired(conn: &Connection, by: Timestamp, rows: usize) -> Result<Vec<Execution>> {
    all(conn, sql::RETIRED, params![by.as_millis(), limit(rows)], from_row)
}

pub(crate) fn owned_by(
    conn: &Connection,
    namespace: NamespaceId,
    worker: &str,
    by: Timestamp,
    rows: usize,
) -> Result<Vec<Execution>> {
    let params = params![worker, namespace.0, by.as_millis(), limit(rows)];
    all(conn, sql::OWNED_BY, params, from_row)
}

pub(crate) fn count_owned(conn: &Connection, lane: LaneId) -> Result<u32> {
    let owned = first(conn, sql::COUNT_OWNED, [lane.0], |row| Ok(row.get(0)?))?;
    Ok(owned.unwrap_or(0))
}

pub(crate) fn counts(
    conn: &Connection,
    namespace: NamespaceId,
    lane: Option<LaneId>,
) -> Result<Vec<Count>> {
    all(conn, sql::COUNTS, params![namespace.0, lane.map(|lane| lane.0)], |row| {
        Ok(Count { status: status(row, 0)?, held: row.get(1)?, count: count(row, 2)? })
    })
}

pub(crate) fn status(row: &Row<'_>, column: usize) -> Result<Status> {
    let code = row.get(column)?;
    Status::from_code(code).ok_or_else(|| Fault::bug(format!("a row has the unknown state {code}")))
}

pub(crate) fn oldest_ready(conn: &Connection, lane: LaneId) -> Result<Option<Timestamp>> {
    let since = first(conn, sql::OLDEST_READY, [lane.0], |row| optional_time(row, 0))?;
    Ok(since.flatten())
}

pub(crate) fn expired_leases(
    conn: &Connection,
    namespace: NamespaceId,
    as_of: Timestamp,
    after: Option<(Timestamp, ExecutionId)>,
    rows: usize,
) -> Result<Vec<Execution>> {
    let (until, id) = match &after {
        Some((until, id)) => (until.as_millis(), id.0.as_bytes().as_slice()),
        None => (i64::MIN, [].as_slice()),
    };
    let params = params![namespace.0, as_of.as_millis(), until, id, limit(rows)];
    all(conn, sql::EXPIRED_LEASES, params, from_row)
}
