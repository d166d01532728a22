//! The registry of worker processes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cancel::end_cancelled;
use crate::chore::{ChoreKind, Slice};
use crate::command::{Command, Context, Query};
use crate::event::{EventKind, NewEvent, default_page};
use crate::finish::requeue;
use crate::model::{
    Cause, Check, Code, Epoch, Error, ExecutionId, LeaseEnd, NamespaceId, Result, State, Timestamp,
    WorkerRow, default_name, duration_ms,
};
use crate::namespace;
use crate::overview::cut;
use crate::store::{Read, Tx};

/// Makes a worker process known. Registering again means that the process began anew: what it
/// owned before is taken from it at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterWorker {
    /// Where it belongs; created by use.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The process: what its claims name as their worker.
    pub instance: String,
    /// The pool it belongs to.
    pub name: String,
    /// The lanes it claims from.
    #[serde(default)]
    pub lanes: Vec<String>,
    /// The kinds it handles; none means all.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// What it has.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// How long a sign of life lasts: 1 s to 1 h.
    #[serde(rename = "ttl_ms", with = "duration_ms", default = "default_liveness")]
    pub ttl: Duration,
}

fn default_liveness() -> Duration {
    Duration::from_secs(60)
}

impl RegisterWorker {
    /// A worker of every kind on the default lane.
    pub fn new(name: impl Into<String>, instance: impl Into<String>) -> Self {
        Self {
            namespace: default_name(),
            instance: instance.into(),
            name: name.into(),
            lanes: vec![default_name()],
            kinds: vec![],
            capabilities: vec![],
            ttl: default_liveness(),
        }
    }
}

/// What became of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Registration {
    /// The worker is new.
    Registered {
        /// When it counts as dead unless it is heard of.
        expires_at: Timestamp,
    },
    /// The worker was known; what it owned before it owns no more.
    Refreshed {
        /// When it counts as dead unless it is heard of.
        expires_at: Timestamp,
    },
}

/// How much is taken from a worker in the command itself; the rest is a chore.
const TAKEN_AT_ONCE: usize = 200;

impl Command for RegisterWorker {
    const NAME: &'static str = "register_worker";
    type Output = Registration;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Registration> {
        let mut check = Check::default();
        check.name("namespace", &self.namespace);
        check.name("instance", &self.instance);
        check.name("name", &self.name);
        check.names("lanes", &self.lanes);
        check.names("kinds", &self.kinds);
        check.capabilities("capabilities", &self.capabilities);
        check.lease("ttl_ms", self.ttl);
        check.finish()?;
        let known = match tx.namespace(&self.namespace)? {
            Some(namespace) => tx.worker(namespace.id, &self.instance)?,
            None => None,
        };
        let known = known.filter(|row| cx.now < row.due_at());
        if let Some(row) = known.as_ref().filter(|row| row.name != self.name) {
            return Err(Error::new(
                Code::InUse,
                format!(
                    "instance `{}` is registered under the worker name `{}`; choose another instance id",
                    self.instance, row.name
                ),
            )
            .with_field("instance"));
        }
        let namespace = namespace::used(tx, &self.namespace)?.id;
        let row = WorkerRow {
            namespace,
            instance: self.instance.clone(),
            name: self.name.clone(),
            lanes: self.lanes.clone(),
            kinds: self.kinds.clone(),
            capabilities: self.capabilities.clone(),
            ttl: self.ttl,
            registered_at: known.as_ref().map_or(cx.now, |row| row.registered_at),
            seen_at: cx.now,
        };
        let expires_at = row.due_at();
        tx.put_worker(&row)?;
        take_all(tx, cx, namespace, &self.instance)?;
        let (kind, registration) = match known {
            Some(_) => (EventKind::WorkerRefreshed, Registration::Refreshed { expires_at }),
            None => (EventKind::WorkerRegistered, Registration::Registered { expires_at }),
        };
        tx.add_event(&worker_event(kind, cx, &row, Some(json!({ "name": row.name }))))?;
        Ok(registration)
    }
}

fn worker_event(kind: EventKind, cx: &Context, row: &WorkerRow, data: Option<Value>) -> NewEvent {
    let worker = Some(row.instance.clone());
    NewEvent { worker, data, ..NewEvent::new(kind, cx.now, row.namespace) }
}

/// Takes from a worker all it owns, as far as one command should.
fn take_all(tx: &mut dyn Tx, cx: &Context, namespace: NamespaceId, instance: &str) -> Result<()> {
    match dispossess(tx, cx, namespace, instance, cx.now, TAKEN_AT_ONCE)? {
        Slice::Done => Ok(()),
        Slice::More { due_at } => {
            let rest =
                ChoreKind::WorkerGone { namespace, instance: instance.to_owned(), by: cx.now };
            match tx.find_chore(&rest)? {
                Some(_) => Ok(()),
                None => tx.add_chore(&rest, due_at).map(drop),
            }
        }
    }
}

/// A slice of taking from a worker what it has owned since `by` or before.
pub(crate) fn dispossess(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: NamespaceId,
    instance: &str,
    by: Timestamp,
    rows: usize,
) -> Result<Slice> {
    let owned = tx.owned_by(namespace, instance, by, rows)?;
    let more = owned.len() == rows;
    for mut execution in owned {
        if execution.member.is_some() {
            // The end of one member may have ended others.
            match tx.execution(execution.row)?.filter(|current| current.epoch == execution.epoch) {
                Some(current) => execution = current,
                None => continue,
            }
        }
        let (state, cancel) = match &execution.state {
            State::Granted(grant) => (grant.back.into(), None),
            State::Active(lease) => (State::Waiting, lease.cancel.clone()),
            State::Waiting
            | State::Resumable
            | State::Delayed(_)
            | State::WaitingChildren(_)
            | State::Suspended(_)
            | State::Limited(_)
            | State::Ended(_) => continue,
        };
        match cancel {
            Some(request) => end_cancelled(tx, cx, &mut execution, &request, false)?,
            None => {
                let event = (EventKind::LeaseLost, None);
                let end = LeaseEnd::WorkerGone;
                requeue(tx, cx, &mut execution, end, state, Cause::WorkerGone, event)?;
            }
        }
    }
    Ok(if more { Slice::More { due_at: cx.now } } else { Slice::Done })
}

/// Says that a worker is alive. One that counts as dead is not revived: it must register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatWorker {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The process.
    pub instance: String,
}

/// What became of a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Heartbeat {
    /// It is noted.
    Refreshed {
        /// When the worker counts as dead unless it is heard of again.
        expires_at: Timestamp,
    },
    /// There is no such worker, or it counts as dead.
    NotRegistered,
}

impl Command for HeartbeatWorker {
    const NAME: &'static str = "heartbeat_worker";
    type Output = Heartbeat;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Heartbeat> {
        let Some(mut row) = live_worker(tx, cx, &self.namespace, &self.instance)? else {
            return Ok(Heartbeat::NotRegistered);
        };
        row.seen_at = cx.now;
        tx.put_worker(&row)?;
        Ok(Heartbeat::Refreshed { expires_at: row.due_at() })
    }
}

fn live_worker(
    read: &mut dyn Read,
    cx: &Context,
    namespace: &str,
    instance: &str,
) -> Result<Option<WorkerRow>> {
    let Some(namespace) = read.namespace(namespace)? else {
        return Ok(None);
    };
    Ok(read.worker(namespace.id, instance)?.filter(|row| cx.now < row.due_at()))
}

/// Declares a worker dead: it is forgotten, and what it owns is taken from it at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkWorkerDead {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The process.
    pub instance: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum MarkedDead {
    /// The worker is gone.
    Marked,
    /// There is no such worker.
    NotRegistered,
}

impl Command for MarkWorkerDead {
    const NAME: &'static str = "mark_worker_dead";
    type Output = MarkedDead;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<MarkedDead> {
        let mut check = Check::default();
        if let Some(reason) = &self.reason {
            check.text("reason", reason);
        }
        check.finish()?;
        let Some(row) = live_worker(tx, cx, &self.namespace, &self.instance)? else {
            return Ok(MarkedDead::NotRegistered);
        };
        tx.drop_worker(row.namespace, &row.instance)?;
        take_all(tx, cx, row.namespace, &row.instance)?;
        let data = json!({ "name": row.name, "reason": self.reason });
        tx.add_event(&worker_event(EventKind::WorkerDead, cx, &row, Some(data)))?;
        Ok(MarkedDead::Marked)
    }
}

/// Forgets workers that were not heard of in time. Their leases run out by themselves.
pub(crate) fn forget_lapsed(tx: &mut dyn Tx, cx: &Context, rows: usize) -> Result<usize> {
    let lapsed = tx.lapsed_workers(cx.now, rows)?;
    for row in &lapsed {
        tx.drop_worker(row.namespace, &row.instance)?;
        let data = json!({ "name": row.name });
        tx.add_event(&worker_event(EventKind::WorkerExpired, cx, row, Some(data)))?;
    }
    Ok(lapsed.len())
}

/// Lists the workers of a namespace by instance id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListWorkers {
    /// Which namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// From the first one after this instance id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

/// A worker as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerView {
    /// The process.
    pub instance: String,
    /// The pool it belongs to.
    pub name: String,
    /// The lanes it claims from.
    pub lanes: Vec<String>,
    /// The kinds it handles; none means all.
    pub kinds: Vec<String>,
    /// What it has.
    pub capabilities: Vec<String>,
    /// When it first registered.
    pub registered_at: Timestamp,
    /// Its last sign of life.
    pub seen_at: Timestamp,
    /// When it counts as dead unless it is heard of.
    pub expires_at: Timestamp,
    /// Whether it counts as alive now.
    pub alive: bool,
}

/// A page of workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPage {
    /// The workers.
    pub workers: Vec<WorkerView>,
    /// Read on after this instance id; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Query for ListWorkers {
    const NAME: &'static str = "list_workers";
    type Output = WorkerPage;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<WorkerPage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.finish()?;
        let rows = match read.namespace(&self.namespace)? {
            Some(namespace) => read.workers(namespace.id, self.after.as_deref(), self.limit + 1)?,
            None => vec![],
        };
        let (rows, next) = cut(rows, self.limit, |row| row.instance.clone());
        let workers = rows.into_iter().map(|row| view(row, cx.now)).collect();
        Ok(WorkerPage { workers, next })
    }
}

fn view(row: WorkerRow, now: Timestamp) -> WorkerView {
    let expires_at = row.due_at();
    WorkerView {
        instance: row.instance,
        name: row.name,
        lanes: row.lanes,
        kinds: row.kinds,
        capabilities: row.capabilities,
        registered_at: row.registered_at,
        seen_at: row.seen_at,
        expires_at,
        alive: now < expires_at,
    }
}

/// Lists leases that had run out by a time and were not taken up again, the oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListExpiredLeases {
    /// Which namespace.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// By when; now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Timestamp>,
    /// From the first one after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ExpiredLeaseCursor>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

/// A place in the list of expired leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredLeaseCursor {
    /// When the lease ran out.
    pub expired_at: Timestamp,
    /// Whose it was.
    pub execution: ExecutionId,
}

/// A lease that has run out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredLease {
    /// Which execution.
    pub execution: ExecutionId,
    /// The fence of the lease.
    pub epoch: Epoch,
    /// Which attempt.
    pub attempt: u32,
    /// Who held it.
    pub worker: String,
    /// When it ran out.
    pub expired_at: Timestamp,
}

/// A page of expired leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredLeasePage {
    /// The leases.
    pub leases: Vec<ExpiredLease>,
    /// Read on after this; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ExpiredLeaseCursor>,
}

impl Query for ListExpiredLeases {
    const NAME: &'static str = "list_expired_leases";
    type Output = ExpiredLeasePage;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<ExpiredLeasePage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.finish()?;
        let Some(namespace) = read.namespace(&self.namespace)? else {
            return Ok(ExpiredLeasePage { leases: vec![], next: None });
        };
        let after = self.after.map(|cursor| (cursor.expired_at, cursor.execution));
        let as_of = self.as_of.unwrap_or(cx.now);
        let rows = read.expired_leases(namespace.id, as_of, after, self.limit + 1)?;
        let expired = rows.into_iter().filter_map(|execution| match execution.state {
            State::Active(lease) => Some(ExpiredLease {
                execution: execution.id,
                epoch: execution.epoch,
                attempt: execution.attempt,
                worker: lease.worker,
                expired_at: lease.until,
            }),
            _ => None,
        });
        let (leases, next) = cut(expired.collect(), self.limit, |last: &ExpiredLease| {
            ExpiredLeaseCursor { expired_at: last.expired_at, execution: last.execution }
        });
        Ok(ExpiredLeasePage { leases, next })
    }
}
