use std::sync::{Arc, OnceLock};

use everloom_core::{
    Count, Epoch, Execution, ExecutionId, LaneId, NamespaceId, Policy, RouteId, RowId, Secret,
    State, StateColumns, Status, Tags,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::payloads::{self, Input};
use super::{Columns, code, from_json, integer, json, millis};
use crate::error::{Fault, Result};
use crate::exchange::Inserted;
use crate::link::{Param, Step, params};
use crate::sql::executions as sql;

pub(crate) fn from_row(row: &Row) -> Result<Execution> {
    take(&mut Columns::of(row))
}

/// An execution with its input.
pub(crate) fn whole_from_row(row: &Row) -> Result<(Execution, Input)> {
    let mut columns = Columns::of(row);
    Ok((take(&mut columns)?, payloads::input(&mut columns)?))
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
    })
}

/// Most executions have no policy and no tags of their own: they share one of each.
fn no_policy() -> Arc<Policy> {
    static NONE: OnceLock<Arc<Policy>> = OnceLock::new();
    Arc::clone(NONE.get_or_init(Arc::default))
}

fn no_tags() -> Arc<Tags> {
    static NONE: OnceLock<Arc<Tags>> = OnceLock::new();
    Arc::clone(NONE.get_or_init(Arc::default))
}

pub(crate) fn tags_column(tags: &Tags) -> Result<Option<String>> {
    if tags.is_empty() { Ok(None) } else { json(tags).map(Some) }
}

/// What may change of executions, column by column.
#[derive(Default)]
struct Mutable {
    priority: Vec<i32>,
    rank: Vec<i64>,
    state: Vec<i32>,
    held: Vec<bool>,
    since: Vec<i64>,
    until: Vec<Option<i64>>,
    deadline_at: Vec<Option<i64>>,
    started_at: Vec<Option<i64>>,
    epoch: Vec<i64>,
    attempt: Vec<i64>,
    retries: Vec<i64>,
    reclaims: Vec<i64>,
    run: Vec<i64>,
    worker: Vec<Option<String>>,
    secret: Vec<Option<Vec<u8>>>,
    ttl_ms: Vec<Option<i64>>,
    detail: Vec<Option<String>>,
    progress: Vec<Option<String>>,
    due_at: Vec<Option<i64>>,
}

impl Mutable {
    fn of<'a>(executions: impl IntoIterator<Item = &'a Execution>) -> Result<Self> {
        let mut all = Self::default();
        for execution in executions {
            all.push(execution)?;
        }
        Ok(all)
    }

    fn push(&mut self, execution: &Execution) -> Result<()> {
        let state = execution.state.columns();
        self.priority.push(execution.priority);
        self.rank.push(execution.rank);
        self.state.push(code(state.state));
        self.held.push(execution.held);
        self.since.push(execution.since.as_millis());
        self.until.push(millis(state.until));
        self.deadline_at.push(millis(execution.deadline_at));
        self.started_at.push(millis(execution.started_at));
        self.epoch.push(integer(execution.epoch.0));
        self.attempt.push(i64::from(execution.attempt));
        self.retries.push(i64::from(execution.retries));
        self.reclaims.push(i64::from(execution.reclaims));
        self.run.push(i64::from(execution.run));
        self.worker.push(state.worker.map(str::to_owned));
        self.secret.push(state.secret.map(|secret| secret.as_bytes().to_vec()));
        self.ttl_ms.push(state.ttl_ms);
        self.detail.push(state.detail);
        self.progress.push(execution.progress.as_ref().map(json).transpose()?);
        self.due_at.push(millis(execution.due_at()));
        Ok(())
    }
}

pub(crate) fn insert(inserted: &[Inserted]) -> Result<Step> {
    let executions = inserted.iter().map(|new| &new.execution);
    let numbers = |of: fn(&Execution) -> i64| -> Param {
        Box::new(executions.clone().map(of).collect::<Vec<i64>>())
    };
    let texts = |of: fn(&Execution) -> Result<Option<String>>| -> Result<Param> {
        Ok(Box::new(executions.clone().map(of).collect::<Result<Vec<Option<String>>>>()?))
    };
    let own = Mutable::of(executions.clone())?;
    let uuids: Vec<Uuid> = executions.clone().map(|execution| execution.id.0).collect();
    Ok(Step::Prepared(
        sql::INSERT,
        vec![
            numbers(|execution| execution.row.0),
            Box::new(uuids),
            numbers(|execution| execution.namespace.0),
            numbers(|execution| execution.lane.0),
            numbers(|execution| execution.route.0),
            Box::new(own.priority),
            Box::new(own.rank),
            Box::new(own.state),
            Box::new(own.held),
            Box::new(own.since),
            Box::new(own.until),
            Box::new(own.deadline_at),
            numbers(|execution| execution.created_at.as_millis()),
            Box::new(own.started_at),
            Box::new(own.epoch),
            Box::new(own.attempt),
            Box::new(own.retries),
            Box::new(own.reclaims),
            Box::new(own.run),
            Box::new(own.worker),
            Box::new(own.secret),
            Box::new(own.ttl_ms),
            Box::new(own.detail),
            texts(|execution| match execution.policy.is_empty() {
                true => Ok(None),
                false => json(&*execution.policy).map(Some),
            })?,
            texts(|execution| tags_column(&execution.tags))?,
            texts(|execution| Ok(execution.created_by.clone()))?,
            Box::new(own.progress),
            texts(|execution| Ok(execution.key.clone()))?,
            Box::new(own.due_at),
        ],
    ))
}

pub(crate) fn save(executions: &[Execution]) -> Result<Step> {
    let rows: Vec<i64> = executions.iter().map(|execution| execution.row.0).collect();
    let own = Mutable::of(executions)?;
    Ok(Step::Prepared(
        sql::SAVE,
        params![
            rows,
            own.priority,
            own.rank,
            own.state,
            own.held,
            own.since,
            own.until,
            own.deadline_at,
            own.started_at,
            own.epoch,
            own.attempt,
            own.retries,
            own.reclaims,
            own.run,
            own.worker,
            own.secret,
            own.ttl_ms,
            own.detail,
            own.progress,
            own.due_at
        ],
    ))
}

pub(crate) fn save_tags(executions: &[&Execution]) -> Result<Step> {
    let rows: Vec<i64> = executions.iter().map(|execution| execution.row.0).collect();
    let tags: Vec<Option<String>> =
        executions.iter().map(|execution| tags_column(&execution.tags)).collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::SAVE_TAGS, params![rows, tags]))
}

pub(crate) fn count_from_row(row: &Row) -> Result<Count> {
    let mut columns = Columns::of(row);
    let code = i64::from(columns.take::<i32>()?);
    let status = Status::ALL.into_iter().find(|status| status.code() == code);
    let status = status.ok_or_else(|| Fault::bug(format!("a row has the unknown state {code}")))?;
    Ok(Count { status, held: columns.take()?, count: columns.count()? })
}
