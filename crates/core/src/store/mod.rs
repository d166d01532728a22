//! The storage contract: rows, and the few indexed questions the rules ask.
//!
//! A store never decides anything. It is synchronous: whoever runs it chooses the thread. Its
//! layers:
//!
//! - [`Read`]: questions, on a consistent view;
//! - [`Tx`]: the same view with writes, which the questions that follow see;
//! - [`ReadMail`] and [`WriteMail`]: those of them about what waits beside an execution;
//! - [`ReadStreams`] and [`WriteStreams`]: those about what it has put out;
//! - [`ReadLimits`] and [`WriteLimits`]: those about what it may use;
//! - [`Store`]: the place itself, which begins transactions.
//!
//! What every store owes to the rules:
//!
//! - Questions are plural where a rule may have many, and answer in the order asked.
//! - A question costs a bounded number of rows by primary key or index, except where its text
//!   says that it scans; it never returns more than asked for.
//! - Ids of rows are handed out in ascending order and never used again.
//! - A transaction that is dropped leaves no trace, also not in the store's caches.
//! - A failed write fails with an [`Error`] whose code says what sort: `unavailable`,
//!   `storage_full` and `read_only` concern the store, everything else the command.

mod limits;
mod mail;
mod streams;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::batch::Clock;
use crate::chore::{Chore, ChoreKind};
use crate::event::{Event, EventKind, NewEvent};
use crate::inbox::{NewRequest, Request, RequestCounts};
use crate::model::{
    ChoreId, Code, Cursor, Defaults, Edge, EdgeId, Epoch, Error, Execution, ExecutionId, Flow,
    FlowId, FlowRow, FlowStatus, Join, Key, Lane, LaneId, Namespace, NamespaceId, PastLease,
    Payload, RequestId, Result, RouteId, RouteTable, RowId, Status, Tags, Timestamp, WorkerRow,
};

pub use limits::{ReadLimits, WriteLimits};
pub use mail::{ReadMail, WriteMail};
pub use streams::{ReadStreams, WriteStreams};

/// A place rows can be read from.
pub trait Source: Send {
    /// A consistent view of everything committed. It ends when it is dropped.
    fn read(&mut self) -> Result<Box<dyn Read + '_>>;
}

/// A place rows are kept.
pub trait Store: Source {
    /// Begins a transaction, waiting for other writers up to the store's own limit, then
    /// `unavailable`.
    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>>;

    /// Another place to read the same rows from, beside the writer; `None` when reads must go
    /// through this one.
    fn reader(&self) -> Result<Option<Box<dyn Source>>>;

    /// Another place to write the same rows from at the same time; `None` where there can be only
    /// one writer.
    fn another(&self) -> Result<Option<Box<dyn Store>>> {
        Ok(None)
    }

    /// Whether another process has committed since the last time this was asked.
    fn changed_elsewhere(&mut self) -> Result<bool>;

    /// Calls `tell` from now on, on a thread of its own, whenever there are news; says whether it
    /// will. A store that does not is asked with [`Store::changed_elsewhere`].
    fn listen(&mut self, tell: Arc<dyn Fn(News) + Send + Sync>) -> Result<bool> {
        drop(tell);
        Ok(false)
    }

    /// What it is.
    fn info(&self) -> StoreInfo;

    /// Copies up to `pages` more pages of a consistent copy to the file `to`, beginning one when
    /// none is under way. Transactions may run between two calls and are part of the copy.
    fn backup(&mut self, to: &Path, pages: usize) -> Result<BackupProgress> {
        let _ = (to, pages);
        Err(Error::new(
            Code::Unsupported,
            format!("a {} store has no file to back up", self.info().store),
        ))
    }

    /// Forgets a backup that is under way.
    fn abandon_backup(&mut self) {}
}

/// What a store tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Another process has committed, or may have.
    Elsewhere,
    /// Events that this process has committed can be read only now.
    Events,
    /// Another process has appended to the stream of this execution.
    Stream(ExecutionId),
}

/// What a store is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreInfo {
    /// `memory`, `sqlite` or `postgres`.
    pub store: String,
    /// The version of the database software.
    pub version: String,
    /// The version of the schema.
    pub schema: u32,
}

/// How far a backup has come, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupProgress {
    /// Pages copied.
    pub done: u64,
    /// Pages to copy in all.
    pub total: u64,
}

impl BackupProgress {
    /// Whether the copy is whole.
    pub fn is_complete(self) -> bool {
        self.done >= self.total
    }
}

/// Questions about a consistent view.
pub trait Read: ReadMail + ReadStreams + ReadLimits {
    /// The `now` of the last commit.
    fn last_now(&mut self) -> Result<Timestamp>;

    /// The time to go by: never before that of the last commit. A store with a clock of its own
    /// tells that one's time instead of the given one's, so that all who share it agree.
    fn now(&mut self, clock: &dyn Clock) -> Result<Timestamp> {
        Ok(clock.now().max(self.last_now()?))
    }

    /// The namespace of that name.
    fn namespace(&mut self, name: &str) -> Result<Option<Arc<Namespace>>>;

    /// The namespace of that row.
    fn namespace_by_id(&mut self, id: NamespaceId) -> Result<Arc<Namespace>>;

    /// Namespaces by name, from the first one after `after`.
    fn namespaces(&mut self, after: Option<&str>, limit: usize) -> Result<Vec<Arc<Namespace>>>;

    /// The lane of that name.
    fn lane(&mut self, namespace: NamespaceId, name: &str) -> Result<Option<Arc<Lane>>>;

    /// The lane of that row.
    fn lane_by_id(&mut self, id: LaneId) -> Result<Arc<Lane>>;

    /// Lanes by name, from the first one after `after`.
    fn lanes(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Arc<Lane>>>;

    /// All routes of a namespace. Answers from memory as long as none was added.
    fn routes(&mut self, namespace: NamespaceId) -> Result<Arc<RouteTable>>;

    /// The executions of those ids.
    fn find(
        &mut self,
        namespace: NamespaceId,
        ids: &[ExecutionId],
    ) -> Result<Vec<Option<Execution>>>;

    /// The next claimable executions of a lane on any of these routes (ascending ids): highest
    /// priority first, then lowest rank. What stands on other routes costs nothing.
    fn claimable(
        &mut self,
        lane: LaneId,
        routes: &[RouteId],
        limit: usize,
    ) -> Result<Vec<Execution>>;

    /// Executions that are not over and due by then, the longest overdue first.
    fn due(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Execution>>;

    /// Executions that are over and due to be removed by then, the longest overdue first.
    fn retired(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Execution>>;

    /// The earliest moment at which an execution that is not over, a worker or a chore is due.
    fn next_due(&mut self) -> Result<Option<Timestamp>>;

    /// Executions leased to or reserved for a worker since `by` or before.
    fn owned_by(
        &mut self,
        namespace: NamespaceId,
        worker: &str,
        by: Timestamp,
        limit: usize,
    ) -> Result<Vec<Execution>>;

    /// How many executions of a lane are leased or reserved. Scans what is.
    fn count_owned(&mut self, lane: LaneId) -> Result<u32>;

    /// What stands behind those idempotency keys.
    fn keys(&mut self, namespace: NamespaceId, keys: &[&str]) -> Result<Vec<Option<Key>>>;

    /// The inputs of executions that exist.
    fn inputs(&mut self, rows: &[RowId]) -> Result<Vec<Payload>>;

    /// The fingerprint an execution was inserted with.
    fn fingerprint(&mut self, row: RowId) -> Result<Option<[u8; 16]>>;

    /// The result of an execution.
    fn result(&mut self, row: RowId) -> Result<Option<Payload>>;

    /// The ended lease of that epoch.
    fn past_lease(&mut self, row: RowId, epoch: Epoch) -> Result<Option<PastLease>>;

    /// The ended leases of an execution with a higher epoch, in order.
    fn past_leases(&mut self, row: RowId, after: Epoch, limit: usize) -> Result<Vec<PastLease>>;

    /// A registered worker.
    fn worker(&mut self, namespace: NamespaceId, instance: &str) -> Result<Option<WorkerRow>>;

    /// Registered workers by instance id, from the first one after `after`.
    fn workers(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkerRow>>;

    /// Workers that count as dead by then.
    fn lapsed_workers(&mut self, by: Timestamp, limit: usize) -> Result<Vec<WorkerRow>>;

    /// Chores due by then, the longest overdue first.
    fn chores(&mut self, by: Timestamp, limit: usize) -> Result<Vec<Chore>>;

    /// The chore of exactly that kind.
    fn find_chore(&mut self, kind: &ChoreKind) -> Result<Option<Chore>>;

    /// Requests that wait in the inbox, the oldest first. Leaves out what another transaction is
    /// at work on.
    fn requests(&mut self, limit: usize) -> Result<Vec<Request>>;

    /// The request of that id, whether it waits or was refused.
    fn request(&mut self, id: RequestId) -> Result<Option<Request>>;

    /// Refused requests, from the first one after `after`.
    fn refused_requests(&mut self, after: Option<RequestId>, limit: usize) -> Result<Vec<Request>>;

    /// How many requests are in the inbox. Scans them.
    fn count_requests(&mut self) -> Result<RequestCounts>;

    /// Events after a cursor that match, oldest first; looks at no more than `scan` events.
    fn events(
        &mut self,
        after: Cursor,
        filter: &EventScan,
        limit: usize,
        scan: usize,
    ) -> Result<EventSlice>;

    /// What of the log is kept.
    fn event_span(&mut self) -> Result<EventSpan>;

    /// Executions that match, newest first, below a row; looks at no more than `scan` executions.
    fn list(
        &mut self,
        filter: &ListScan,
        below: Option<RowId>,
        limit: usize,
        scan: usize,
    ) -> Result<ListSlice>;

    /// How many executions are in which state, of a namespace or one of its lanes. Scans.
    fn counts(&mut self, namespace: NamespaceId, lane: Option<LaneId>) -> Result<Vec<Count>>;

    /// The execution in a row.
    fn execution(&mut self, row: RowId) -> Result<Option<Execution>>;

    /// The flow of that id.
    fn flow(&mut self, namespace: NamespaceId, id: FlowId) -> Result<Option<Flow>>;

    /// The flow in a row that exists.
    fn flow_by_row(&mut self, row: FlowRow) -> Result<Flow>;

    /// Whether a flow is held or being closed. A store that locks what it reads does not lock for
    /// this one: what is under way meanwhile counts as before or after.
    fn is_gated(&mut self, flow: FlowRow) -> Result<bool>;

    /// The member of a flow with that name.
    fn member(&mut self, flow: FlowRow, node: &str) -> Result<Option<Execution>>;

    /// The members of a flow by name, from the first one after `after`.
    fn members(
        &mut self,
        flow: FlowRow,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Execution>>;

    /// How many members of a flow are in which state. Scans the flow.
    fn count_members(&mut self, flow: FlowRow) -> Result<Vec<MemberCount>>;

    /// Executions that a parent has made and that are not over, by row, from the first one after
    /// `after`.
    fn children(
        &mut self,
        parent: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Result<Vec<Execution>>;

    /// What an execution waits for, or waited for.
    fn join(&mut self, target: RowId) -> Result<Option<Join>>;

    /// Edges out of an execution to targets after one, by target and ordinal.
    fn edges_from(
        &mut self,
        source: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Result<Vec<Edge>>;

    /// Edges into an execution, by source and ordinal; only those that bind a result, if so asked.
    fn edges_into(&mut self, target: RowId, bound: bool) -> Result<Vec<Edge>>;

    /// The edge of that name.
    fn edge(&mut self, flow: FlowRow, id: EdgeId) -> Result<Option<Edge>>;

    /// Sources and targets of all edges that can be reached from some executions along edges, each
    /// pair once. Walks what can be reached.
    fn reach(&mut self, from: &[RowId]) -> Result<Vec<(RowId, RowId)>>;

    /// Flows that match, newest first, below a row; looks at no more than `scan` flows.
    fn list_flows(
        &mut self,
        filter: &FlowScan,
        below: Option<FlowRow>,
        limit: usize,
        scan: usize,
    ) -> Result<FlowSlice>;

    /// When the longest waiting claimable execution of a lane became so. Scans what waits.
    fn oldest_ready(&mut self, lane: LaneId) -> Result<Option<Timestamp>>;

    /// Active executions whose lease had run out by `as_of`, by (end of lease, id), strictly
    /// after `after`. Scans what is due by then.
    fn expired_leases(
        &mut self,
        namespace: NamespaceId,
        as_of: Timestamp,
        after: Option<(Timestamp, ExecutionId)>,
        limit: usize,
    ) -> Result<Vec<Execution>>;
}

/// A view that can be written to.
pub trait Tx: Read + WriteMail + WriteStreams + WriteLimits {
    /// Creates a namespace or replaces its defaults; its limits stay.
    fn put_namespace(&mut self, name: &str, defaults: &Defaults) -> Result<Arc<Namespace>>;

    /// Creates a lane that does not exist.
    fn add_lane(&mut self, namespace: NamespaceId, name: &str) -> Result<Arc<Lane>>;

    /// Saves what may change of a lane: everything but its name.
    fn save_lane(&mut self, lane: &Lane) -> Result<()>;

    /// Creates a route that does not exist; the capabilities are sorted.
    fn add_route(
        &mut self,
        namespace: NamespaceId,
        kind: &str,
        capabilities: &[String],
    ) -> Result<RouteId>;

    /// The row of the next execution.
    fn new_row(&mut self) -> Result<RowId>;

    /// Inserts an execution with its input, its tags, and a fingerprint when its id was given.
    fn insert(
        &mut self,
        execution: &Execution,
        input: &Payload,
        fingerprint: Option<&[u8; 16]>,
    ) -> Result<()>;

    /// Saves what may change of an execution, except its tags.
    fn save(&mut self, execution: &Execution) -> Result<()>;

    /// Saves an execution's tags.
    fn save_tags(&mut self, execution: &Execution) -> Result<()>;

    /// Gives an execution that has none its place in a flow.
    fn save_member(&mut self, execution: &Execution) -> Result<()>;

    /// Removes an execution with its input, result, tags, ended leases, join, edges, suspensions,
    /// waitpoints, signals, steps, uses of limits, stream and summary. The chunks of the stream stay
    /// until [`WriteStreams::trim_chunks`]: there may be very many.
    fn remove(&mut self, execution: &Execution) -> Result<()>;

    /// Sets or replaces an execution's result.
    fn put_result(&mut self, row: RowId, result: &Payload) -> Result<()>;

    /// Removes an execution's result, if there is one.
    fn drop_result(&mut self, row: RowId) -> Result<()>;

    /// The row of the next flow.
    fn new_flow_row(&mut self) -> Result<FlowRow>;

    /// Inserts a flow.
    fn insert_flow(&mut self, flow: &Flow) -> Result<()>;

    /// Saves what may change of a flow: state, hold, run, counts, deadline and tags.
    fn save_flow(&mut self, flow: &Flow) -> Result<()>;

    /// Removes a flow that has no members any more.
    fn remove_flow(&mut self, flow: &Flow) -> Result<()>;

    /// Adds an edge that does not exist.
    fn add_edge(&mut self, edge: &Edge) -> Result<()>;

    /// Saves whether an edge was applied.
    fn save_edge(&mut self, edge: &Edge) -> Result<()>;

    /// Removes an edge.
    fn drop_edge(&mut self, edge: &Edge) -> Result<()>;

    /// Creates or replaces what an execution waits for.
    fn put_join(&mut self, join: &Join) -> Result<()>;

    /// Appends to an execution's ended leases.
    fn add_past_lease(&mut self, lease: &PastLease) -> Result<()>;

    /// Appends to the log.
    fn add_event(&mut self, event: &NewEvent) -> Result<()>;

    /// Sets or replaces an idempotency key.
    fn put_key(&mut self, key: &Key) -> Result<()>;

    /// Removes an idempotency key.
    fn drop_key(&mut self, namespace: NamespaceId, key: &str) -> Result<()>;

    /// Creates or replaces a worker.
    fn put_worker(&mut self, worker: &WorkerRow) -> Result<()>;

    /// Removes a worker.
    fn drop_worker(&mut self, namespace: NamespaceId, instance: &str) -> Result<()>;

    /// Creates a chore.
    fn add_chore(&mut self, kind: &ChoreKind, due_at: Timestamp) -> Result<ChoreId>;

    /// Saves what is left of a chore, and when it goes on.
    fn save_chore(&mut self, chore: &Chore) -> Result<()>;

    /// Removes a chore that is done.
    fn drop_chore(&mut self, id: ChoreId) -> Result<()>;

    /// Adds a request to the inbox, as anyone may who can write rows.
    fn add_request(&mut self, request: &NewRequest) -> Result<RequestId>;

    /// Saves whether a request was refused; the rest of it never changes.
    fn save_request(&mut self, request: &Request) -> Result<()>;

    /// Removes a request.
    fn drop_request(&mut self, id: RequestId) -> Result<()>;

    /// Removes up to `limit` of the oldest events from before then, never the newest of all, and
    /// says how many.
    fn trim_events(&mut self, before: Timestamp, limit: usize) -> Result<usize>;

    /// Removes up to `limit` idempotency keys that have expired by then, and says how many.
    fn trim_keys(&mut self, by: Timestamp, limit: usize) -> Result<usize>;
}

/// A transaction; dropped without [`Transaction::commit`] it has not happened.
pub trait Transaction: Tx {
    /// Loads what questions were left unanswered for with [`Error::miss`], or answered with a
    /// guess, locks it, and forgets everything that was written, so that the commands can run
    /// again; says whether there was anything to load. If so, no answer counts until they have.
    /// A store that answers every question at once has nothing to do.
    fn load_missing(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Makes everything durable, together with `now`. An error means that nothing was written; a
    /// store that can not tell finds out before it answers. [`Error::conflict`] asks for the
    /// commands to run again in another transaction.
    fn commit(self: Box<Self>, now: Timestamp) -> Result<()>;
}

/// An event filter in the store's own ids. What is left out does not matter.
#[derive(Clone, Debug, Default)]
pub struct EventScan {
    /// Of this namespace.
    pub namespace: Option<NamespaceId>,
    /// Of one of these kinds; none means all.
    pub kinds: Vec<EventKind>,
    /// About this execution.
    pub execution: Option<ExecutionId>,
    /// The row all events about that execution name, when there is just one: a store uses its
    /// index.
    pub row: Option<RowId>,
    /// About this lane.
    pub lane: Option<LaneId>,
    /// About this flow or a member of it.
    pub flow: Option<FlowId>,
    /// About an execution that had all these tags.
    pub tags: Tags,
}

impl EventScan {
    /// Whether an event is meant, as far as the columns every store keeps apart tell.
    pub fn matches(
        &self,
        namespace: NamespaceId,
        kind: EventKind,
        execution: Option<ExecutionId>,
        lane: Option<LaneId>,
        flow: Option<FlowId>,
        tags: &Tags,
    ) -> bool {
        self.namespace.is_none_or(|wanted| wanted == namespace)
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.execution.is_none() || self.execution == execution)
            && (self.lane.is_none() || self.lane == lane)
            && (self.flow.is_none() || self.flow == flow)
            && self.tags.iter().all(|(key, value)| tags.get(key) == Some(value))
    }
}

/// A slice of the log.
#[derive(Clone, Debug, Default)]
pub struct EventSlice {
    /// What matched.
    pub events: Vec<Event>,
    /// Everything up to here was looked at.
    pub scanned_to: Cursor,
}

/// What of the log is kept. Empty when `first` is above `last`.
#[derive(Clone, Copy, Debug)]
pub struct EventSpan {
    /// The oldest event kept, or the one to come.
    pub first: Cursor,
    /// The newest event ever written.
    pub last: Cursor,
}

/// An execution filter in the store's own ids. What is left out does not matter.
#[derive(Clone, Debug, Default)]
pub struct ListScan {
    /// Of this namespace.
    pub namespace: NamespaceId,
    /// In one of these states; none means all.
    pub statuses: Vec<Status>,
    /// Held, or not.
    pub held: Option<bool>,
    /// On one of these routes.
    pub routes: Option<Vec<RouteId>>,
    /// In this lane.
    pub lane: Option<LaneId>,
    /// With all these tags.
    pub tags: Tags,
    /// Leased to or reserved for this worker.
    pub worker: Option<String>,
    /// Submitted by.
    pub created_by: Option<String>,
    /// Submitted then or later.
    pub created_from: Option<Timestamp>,
    /// Submitted before.
    pub created_before: Option<Timestamp>,
    /// Whose end has this text in its message; ASCII letters match in any case.
    pub text: Option<String>,
}

/// A slice of a list.
#[derive(Clone, Debug, Default)]
pub struct ListSlice {
    /// What matched.
    pub executions: Vec<Execution>,
    /// Read on below this row; `None` at the end.
    pub next: Option<RowId>,
}

/// A flow filter in the store's own ids. What is left out does not matter.
#[derive(Clone, Debug, Default)]
pub struct FlowScan {
    /// Of this namespace.
    pub namespace: NamespaceId,
    /// In one of these states; none means all.
    pub statuses: Vec<FlowStatus>,
    /// Of this kind.
    pub kind: Option<String>,
    /// With all these tags.
    pub tags: Tags,
    /// Submitted then or later.
    pub created_from: Option<Timestamp>,
    /// Submitted before.
    pub created_before: Option<Timestamp>,
}

impl FlowScan {
    /// Whether a flow of the namespace is meant.
    pub fn matches(&self, flow: &Flow) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&flow.status()))
            && (self.kind.is_none() || self.kind == flow.kind)
            && self.tags.iter().all(|(key, value)| flow.tags.get(key) == Some(value))
            && self.created_from.is_none_or(|from| from <= flow.created_at)
            && self.created_before.is_none_or(|before| flow.created_at < before)
    }
}

/// A slice of a list of flows.
#[derive(Clone, Debug, Default)]
pub struct FlowSlice {
    /// What matched.
    pub flows: Vec<Flow>,
    /// Read on below this row; `None` at the end.
    pub next: Option<FlowRow>,
}

/// How many members of a flow are in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberCount {
    /// The state.
    pub status: Status,
    /// Whether these were ever claimed.
    pub started: bool,
    /// How many.
    pub count: u64,
}

/// How many executions are in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The state.
    pub status: Status,
    /// Whether these are held.
    pub held: bool,
    /// How many.
    pub count: u64,
}
