//! Watches what a rule does to a transaction: counts writes, keeps the first error of the store,
//! and notes what those who wait should hear of.

use std::sync::Arc;

use crate::batch::{Clock, Notes};
use crate::chore::{Chore, ChoreKind};
use crate::claim::free_slots;
use crate::event::NewEvent;
use crate::inbox::{NewRequest, Request, RequestCounts};
use crate::model::{
    ChoreId, Chunk, ChunkSpan, Cursor, Defaults, Edge, EdgeId, Epoch, Error, Execution,
    ExecutionId, Flow, FlowId, FlowRow, Gate, GateRow, Join, Key, Lane, LaneId, LaneMode, Limit,
    LimitRow, LimitSort, Namespace, NamespaceId, NamespaceLimits, Passage, PastLease, Payload,
    RequestId, Result, RouteId, RouteTable, RowId, Signal, SigningKey, Step, Stream, Summary,
    Suspension, Timestamp, Turn, Use, Waitpoint, WaitpointId, WorkerRow,
};
use crate::store::{
    Count, EventScan, EventSlice, EventSpan, FlowScan, FlowSlice, ListScan, ListSlice, MemberCount,
    Read, ReadLimits, ReadMail, ReadStreams, Tx, WriteLimits, WriteMail, WriteStreams,
};

pub(crate) struct Recorder<'a> {
    tx: &'a mut dyn Tx,
    notes: &'a mut Notes,
    writes: usize,
    error: Option<Error>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(tx: &'a mut dyn Tx, notes: &'a mut Notes) -> Self {
        Self { tx, notes, writes: 0, error: None }
    }

    /// How many writes there were, and the first error the store gave.
    pub(crate) fn finish(self) -> (usize, Option<Error>) {
        (self.writes, self.error)
    }

    fn latch<T>(&mut self, result: Result<T>) -> Result<T> {
        if let (Err(error), None) = (&result, &self.error) {
            self.error = Some(error.clone());
        }
        result
    }

    fn note_due(&mut self, at: Option<Timestamp>) {
        self.notes.due = self.notes.due.into_iter().chain(at).min();
    }

    /// A request that waits is due at once.
    fn note_request(&mut self, waits: bool) {
        self.note_due(waits.then_some(Timestamp::default()));
    }

    fn note_execution(&mut self, execution: &Execution) {
        if execution.claimable() {
            let place = (execution.namespace, execution.lane, Some(execution.route));
            *self.notes.ready.entry(place).or_default() += 1;
        }
        if execution.status().is_terminal() {
            self.notes.ended.push(execution.id);
        } else {
            self.note_due(execution.due_at());
        }
    }

    fn note_flow(&mut self, flow: &Flow) {
        if flow.status().is_terminal() {
            self.notes.ended_flows.push(flow.id);
        }
    }

    /// Whoever waits for a lane hears of the room it gained, not of what it had.
    fn note_lane(&mut self, before: &Lane, after: &Lane) {
        let room = |lane: &Lane| match lane.mode {
            LaneMode::Paused => 0,
            LaneMode::Open | LaneMode::Draining => free_slots(lane),
        };
        let gained = room(after).saturating_sub(room(before));
        if gained > 0 {
            let count = self.notes.ready.entry((after.namespace, after.id, None)).or_default();
            *count = count.saturating_add(gained);
        }
    }
}

macro_rules! forward {
    (read: $(fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) -> $output:ty;)*) => {$(
        fn $name(&mut self $(, $arg: $type)*) -> Result<$output> {
            let result = self.tx.$name($($arg),*);
            self.latch(result)
        }
    )*};
    (write: $(fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) -> $output:ty $(, then |$this:ident| $note:expr)?;)*) => {$(
        fn $name(&mut self $(, $arg: $type)*) -> Result<$output> {
            self.writes += 1;
            let result = self.tx.$name($($arg),*);
            $(if result.is_ok() {
                let $this = &mut *self;
                $note;
            })?
            self.latch(result)
        }
    )*};
}

impl Read for Recorder<'_> {
    forward! { read:
        fn last_now(&mut self) -> Timestamp;
        fn now(&mut self, clock: &dyn Clock) -> Timestamp;
        fn namespace(&mut self, name: &str) -> Option<Arc<Namespace>>;
        fn namespace_by_id(&mut self, id: NamespaceId) -> Arc<Namespace>;
        fn namespaces(&mut self, after: Option<&str>, limit: usize) -> Vec<Arc<Namespace>>;
        fn lane(&mut self, namespace: NamespaceId, name: &str) -> Option<Arc<Lane>>;
        fn lane_by_id(&mut self, id: LaneId) -> Arc<Lane>;
        fn lanes(&mut self, namespace: NamespaceId, after: Option<&str>, limit: usize) -> Vec<Arc<Lane>>;
        fn routes(&mut self, namespace: NamespaceId) -> Arc<RouteTable>;
        fn find(&mut self, namespace: NamespaceId, ids: &[ExecutionId]) -> Vec<Option<Execution>>;
        fn claimable(&mut self, lane: LaneId, routes: &[RouteId], limit: usize) -> Vec<Execution>;
        fn due(&mut self, by: Timestamp, limit: usize) -> Vec<Execution>;
        fn retired(&mut self, by: Timestamp, limit: usize) -> Vec<Execution>;
        fn next_due(&mut self) -> Option<Timestamp>;
        fn owned_by(&mut self, namespace: NamespaceId, worker: &str, by: Timestamp, limit: usize) -> Vec<Execution>;
        fn count_owned(&mut self, lane: LaneId) -> u32;
        fn keys(&mut self, namespace: NamespaceId, keys: &[&str]) -> Vec<Option<Key>>;
        fn inputs(&mut self, rows: &[RowId]) -> Vec<Payload>;
        fn fingerprint(&mut self, row: RowId) -> Option<[u8; 16]>;
        fn result(&mut self, row: RowId) -> Option<Payload>;
        fn past_lease(&mut self, row: RowId, epoch: Epoch) -> Option<PastLease>;
        fn past_leases(&mut self, row: RowId, after: Epoch, limit: usize) -> Vec<PastLease>;
        fn worker(&mut self, namespace: NamespaceId, instance: &str) -> Option<WorkerRow>;
        fn workers(&mut self, namespace: NamespaceId, after: Option<&str>, limit: usize) -> Vec<WorkerRow>;
        fn lapsed_workers(&mut self, by: Timestamp, limit: usize) -> Vec<WorkerRow>;
        fn chores(&mut self, by: Timestamp, limit: usize) -> Vec<Chore>;
        fn find_chore(&mut self, kind: &ChoreKind) -> Option<Chore>;
        fn requests(&mut self, limit: usize) -> Vec<Request>;
        fn request(&mut self, id: RequestId) -> Option<Request>;
        fn refused_requests(&mut self, after: Option<RequestId>, limit: usize) -> Vec<Request>;
        fn count_requests(&mut self) -> RequestCounts;
        fn events(&mut self, after: Cursor, filter: &EventScan, limit: usize, scan: usize) -> EventSlice;
        fn event_span(&mut self) -> EventSpan;
        fn list(&mut self, filter: &ListScan, below: Option<RowId>, limit: usize, scan: usize) -> ListSlice;
        fn counts(&mut self, namespace: NamespaceId, lane: Option<LaneId>) -> Vec<Count>;
        fn execution(&mut self, row: RowId) -> Option<Execution>;
        fn flow(&mut self, namespace: NamespaceId, id: FlowId) -> Option<Flow>;
        fn flow_by_row(&mut self, row: FlowRow) -> Flow;
        fn is_gated(&mut self, flow: FlowRow) -> bool;
        fn member(&mut self, flow: FlowRow, node: &str) -> Option<Execution>;
        fn members(&mut self, flow: FlowRow, after: Option<&str>, limit: usize) -> Vec<Execution>;
        fn count_members(&mut self, flow: FlowRow) -> Vec<MemberCount>;
        fn children(&mut self, parent: RowId, after: Option<RowId>, limit: usize) -> Vec<Execution>;
        fn join(&mut self, target: RowId) -> Option<Join>;
        fn edges_from(&mut self, source: RowId, after: Option<RowId>, limit: usize) -> Vec<Edge>;
        fn edges_into(&mut self, target: RowId, bound: bool) -> Vec<Edge>;
        fn edge(&mut self, flow: FlowRow, id: EdgeId) -> Option<Edge>;
        fn reach(&mut self, from: &[RowId]) -> Vec<(RowId, RowId)>;
        fn list_flows(&mut self, filter: &FlowScan, below: Option<FlowRow>, limit: usize, scan: usize) -> FlowSlice;
        fn oldest_ready(&mut self, lane: LaneId) -> Option<Timestamp>;
        fn expired_leases(&mut self, namespace: NamespaceId, as_of: Timestamp, after: Option<(Timestamp, ExecutionId)>, limit: usize) -> Vec<Execution>;
    }
}

impl ReadMail for Recorder<'_> {
    forward! { read:
        fn suspension(&mut self, execution: RowId, number: Option<u32>) -> Option<Suspension>;
        fn suspension_by_key(&mut self, execution: RowId, run: u32, key: &str) -> Option<Suspension>;
        fn suspensions(&mut self, execution: RowId, after: u32, limit: usize) -> Vec<Suspension>;
        fn waitpoint(&mut self, execution: RowId, id: WaitpointId) -> Option<Waitpoint>;
        fn open_waitpoints(&mut self, execution: RowId) -> Vec<Waitpoint>;
        fn last_waitpoint(&mut self, execution: RowId) -> u32;
        fn waitpoints(&mut self, execution: RowId, after: u32, limit: usize) -> Vec<Waitpoint>;
        fn inbox(&mut self, namespace: NamespaceId, key: Option<&str>, after: Option<WaitpointId>, limit: usize) -> Vec<Waitpoint>;
        fn count_signed(&mut self, namespace: NamespaceId, kid: &str) -> u64;
        fn last_signal(&mut self, execution: RowId) -> u32;
        fn signal_by_key(&mut self, execution: RowId, key: &str) -> Option<Signal>;
        fn kept_signals(&mut self, execution: RowId, run: u32) -> Vec<Signal>;
        fn taken_signals(&mut self, execution: RowId, suspension: u32, after: u32, limit: usize) -> Vec<Signal>;
        fn signals(&mut self, execution: RowId, after: u32, limit: usize) -> Vec<Signal>;
        fn signal_payloads(&mut self, execution: RowId, seqs: &[u32]) -> Vec<Payload>;
        fn step(&mut self, execution: RowId, name: &str, occurrence: u32) -> Option<Step>;
        fn last_step(&mut self, execution: RowId) -> u32;
        fn steps(&mut self, execution: RowId, after: u32, limit: usize) -> Vec<Step>;
        fn step_results(&mut self, execution: RowId, seqs: &[u32]) -> Vec<Payload>;
        fn signing_keys(&mut self, namespace: NamespaceId) -> Vec<SigningKey>;
    }
}

impl WriteMail for Recorder<'_> {
    forward! { write:
        fn add_suspension(&mut self, suspension: &Suspension) -> ();
        fn save_suspension(&mut self, suspension: &Suspension) -> ();
        fn add_waitpoint(&mut self, waitpoint: &Waitpoint) -> ();
        fn save_waitpoint(&mut self, waitpoint: &Waitpoint) -> ();
        fn add_signal(&mut self, signal: &Signal, payload: &Payload) -> ();
        fn save_signal(&mut self, signal: &Signal) -> ();
        fn add_step(&mut self, step: &Step, result: &Payload) -> ();
        fn drop_steps(&mut self, execution: RowId, from: u32) -> ();
        fn put_signing_key(&mut self, key: &SigningKey) -> ();
    }
}

impl ReadStreams for Recorder<'_> {
    forward! { read:
        fn stream(&mut self, execution: RowId) -> Option<Stream>;
        fn chunks(&mut self, execution: RowId, after: u64, to: u64, live: bool, limit: usize, bytes: usize) -> Vec<Chunk>;
        fn last_chunks(&mut self, execution: RowId, after: u64, to: u64, live: bool, limit: usize, bytes: usize) -> Vec<Chunk>;
        fn oldest_chunks(&mut self, execution: RowId, live: bool, frames: u64) -> Vec<ChunkSpan>;
        fn summary(&mut self, execution: RowId) -> Option<Summary>;
    }
}

impl WriteStreams for Recorder<'_> {
    forward! { write:
        fn put_stream(&mut self, execution: &Execution, stream: &Stream) -> (),
            then |this| this.notes.streams.push(execution.id);
        fn add_chunk(&mut self, chunk: &Chunk) -> ();
        fn drop_chunks(&mut self, execution: RowId, live: bool, through: u64) -> ();
        fn trim_chunks(&mut self, gone: &[RowId], limit: usize) -> usize;
        fn put_summary(&mut self, summary: &Summary) -> ();
    }
}

impl ReadLimits for Recorder<'_> {
    forward! { read:
        fn limit(&mut self, namespace: NamespaceId, sort: LimitSort, name: &str) -> Option<Arc<Limit>>;
        fn limit_by_row(&mut self, row: LimitRow) -> Arc<Limit>;
        fn limits(&mut self, namespace: NamespaceId, sort: LimitSort, after: Option<&str>, limit: usize) -> Vec<Arc<Limit>>;
        fn find_gate(&mut self, namespace: NamespaceId, limit: LimitRow, key: &str) -> Option<Gate>;
        fn gate_by_row(&mut self, row: GateRow) -> Option<Gate>;
        fn gates(&mut self, limit: LimitRow, after: Option<&str>, limit_to: usize) -> Vec<Gate>;
        fn uses(&mut self, execution: RowId) -> Vec<Use>;
        fn open_uses(&mut self, limit: LimitRow, after: Option<RowId>, limit_to: usize) -> Vec<Use>;
        fn passage(&mut self, gate: GateRow, number: u64) -> Option<Passage>;
        fn limited(&mut self, gate: GateRow, each: usize) -> Vec<Execution>;
        fn turn(&mut self, lane: LaneId, priority: i32, key: &str) -> Option<Turn>;
    }
}

impl WriteLimits for Recorder<'_> {
    forward! { write:
        fn new_limit_row(&mut self) -> LimitRow;
        fn put_limit(&mut self, limit: &Limit) -> ();
        fn drop_limit(&mut self, limit: &Limit) -> ();
        fn gate(&mut self, namespace: NamespaceId, limit: LimitRow, key: &str) -> Gate;
        fn save_gate(&mut self, gate: &Gate) -> ();
        fn trim_gates(&mut self, by: Timestamp, limit: usize) -> usize;
        fn put_use(&mut self, of: &Use) -> ();
        fn drop_use(&mut self, execution: RowId, limit: LimitRow) -> ();
        fn put_passage(&mut self, gate: GateRow, passage: &Passage) -> ();
        fn drop_passages(&mut self, gate: GateRow, through: u64) -> ();
        fn put_turn(&mut self, turn: &Turn) -> ();
        fn drop_turns(&mut self, lane: LaneId, priority: i32, before: i64, limit: usize) -> ();
        fn save_policy(&mut self, execution: &Execution) -> ();
        fn save_terms(&mut self, flow: &Flow) -> ();
        fn save_limits(&mut self, namespace: NamespaceId, limits: &NamespaceLimits) -> ();
    }
}

impl Tx for Recorder<'_> {
    fn save_lane(&mut self, lane: &Lane) -> Result<()> {
        let before = self.lane_by_id(lane.id)?;
        self.writes += 1;
        let result = self.tx.save_lane(lane);
        if result.is_ok() {
            self.note_lane(&before, lane);
        }
        self.latch(result)
    }

    forward! { write:
        fn put_namespace(&mut self, name: &str, defaults: &Defaults) -> Arc<Namespace>;
        fn add_lane(&mut self, namespace: NamespaceId, name: &str) -> Arc<Lane>;
        fn add_route(&mut self, namespace: NamespaceId, kind: &str, capabilities: &[String]) -> RouteId;
        fn new_row(&mut self) -> RowId;
        fn insert(&mut self, execution: &Execution, input: &Payload, fingerprint: Option<&[u8; 16]>) -> (),
            then |this| this.note_execution(execution);
        fn save(&mut self, execution: &Execution) -> (), then |this| this.note_execution(execution);
        fn save_tags(&mut self, execution: &Execution) -> ();
        fn save_member(&mut self, execution: &Execution) -> ();
        fn remove(&mut self, execution: &Execution) -> ();
        fn new_flow_row(&mut self) -> FlowRow;
        fn insert_flow(&mut self, flow: &Flow) -> ();
        fn save_flow(&mut self, flow: &Flow) -> (), then |this| this.note_flow(flow);
        fn remove_flow(&mut self, flow: &Flow) -> ();
        fn add_edge(&mut self, edge: &Edge) -> ();
        fn save_edge(&mut self, edge: &Edge) -> ();
        fn drop_edge(&mut self, edge: &Edge) -> ();
        fn put_join(&mut self, join: &Join) -> ();
        fn put_result(&mut self, row: RowId, result: &Payload) -> ();
        fn drop_result(&mut self, row: RowId) -> ();
        fn add_past_lease(&mut self, lease: &PastLease) -> ();
        fn add_event(&mut self, event: &NewEvent) -> (), then |this| this.notes.events = true;
        fn put_key(&mut self, key: &Key) -> ();
        fn drop_key(&mut self, namespace: NamespaceId, key: &str) -> ();
        fn put_worker(&mut self, worker: &WorkerRow) -> (), then |this| this.note_due(Some(worker.due_at()));
        fn drop_worker(&mut self, namespace: NamespaceId, instance: &str) -> ();
        fn add_chore(&mut self, kind: &ChoreKind, due_at: Timestamp) -> ChoreId, then |this| this.note_due(Some(due_at));
        fn save_chore(&mut self, chore: &Chore) -> (), then |this| this.note_due(Some(chore.due_at));
        fn drop_chore(&mut self, id: ChoreId) -> ();
        fn add_request(&mut self, request: &NewRequest) -> RequestId, then |this| this.note_request(true);
        fn save_request(&mut self, request: &Request) -> (), then |this| this.note_request(request.refusal.is_none());
        fn drop_request(&mut self, id: RequestId) -> ();
        fn trim_events(&mut self, before: Timestamp, limit: usize) -> usize;
        fn trim_keys(&mut self, by: Timestamp, limit: usize) -> usize;
    }
}
