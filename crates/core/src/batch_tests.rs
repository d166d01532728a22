//! Commands that share a transaction: what one of them does never harms another.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Serialize};

use super::*;
use crate::chore::{Chore, ChoreKind};
use crate::event::{EventKind, NewEvent};
use crate::inbox::{NewRequest, Request, RequestCounts};
use crate::memory::MemoryStore;
use crate::model::{
    ChoreId, Chunk, ChunkSpan, Cursor, Defaults, Edge, EdgeId, Epoch, Execution, Flow, FlowRow,
    Gate, GateRow, Join, Key, Limit, LimitRow, LimitSort, NamespaceLimits, Passage, PastLease,
    Payload, RequestId, RouteTable, RowId, Signal, SigningKey, Step, Stream, Summary, Suspension,
    Turn, Use, Waitpoint, WaitpointId, WorkerRow,
};
use crate::store::{
    Count, EventScan, EventSlice, EventSpan, FlowScan, FlowSlice, ListScan, ListSlice, MemberCount,
    ReadLimits, ReadMail, ReadStreams, Source, StoreInfo, Transaction, WriteLimits, WriteMail,
    WriteStreams,
};

/// Draws an id and a secret, writes or not, and then ends as told.
#[derive(Serialize, Deserialize)]
struct Probe {
    name: String,
    writes: bool,
    then: Then,
    #[serde(skip)]
    runs: Arc<Mutex<Vec<Run>>>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Then {
    Succeed,
    Refuse,
    Panic,
    /// Meets an error of the store and succeeds all the same.
    Swallow,
}

/// What a command was given in one run.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    name: String,
    now: Timestamp,
    id: ExecutionId,
    secret: [u8; 16],
}

impl Command for Probe {
    const NAME: &'static str = "probe";
    type Output = ExecutionId;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<ExecutionId> {
        let (id, secret) = (cx.execution_id(), *cx.secret().as_bytes());
        let (name, now) = (self.name.clone(), cx.now);
        self.runs.lock().unwrap().push(Run { name, now, id, secret });
        if self.writes {
            let namespace = tx.put_namespace(&self.name, &Defaults::default())?;
            tx.add_event(&NewEvent::new(EventKind::NamespacePut, cx.now, namespace.id))?;
        }
        match self.then {
            Then::Succeed => Ok(id),
            Then::Refuse => Err(Error::new(Code::WrongState, "refused on purpose")),
            Then::Panic => panic!("on purpose"),
            Then::Swallow => {
                let swallowed = tx.lane_by_id(LaneId(-1));
                assert!(swallowed.is_err());
                Ok(id)
            }
        }
    }
}

/// A clock that is set by hand and goes on by a millisecond each time it is asked.
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// What came of a batch.
struct Ran {
    answers: Vec<Result<ExecutionId>>,
    runs: Vec<Run>,
    wakes: Wakes,
}

impl Ran {
    fn order(&self) -> Vec<&str> {
        self.runs.iter().map(|run| run.name.as_str()).collect()
    }

    /// `None` where the command succeeded.
    fn codes(&self) -> Vec<Option<Code>> {
        let code = |answer: &Result<_>| answer.as_ref().err().map(Error::code);
        self.answers.iter().map(code).collect()
    }
}

fn run_at(store: &mut dyn Store, time: i64, probes: &[(&str, bool, Then)]) -> Ran {
    let runs = Arc::<Mutex<Vec<Run>>>::default();
    let mut calls: Vec<_> = (0..)
        .zip(probes)
        .map(|(seed, (name, writes, then))| {
            let (name, runs) = ((*name).to_owned(), Arc::clone(&runs));
            let probe = Probe { name, writes: *writes, then: *then, runs };
            Call::new(probe, Seed::from_number(seed))
        })
        .collect();
    let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as _).collect();
    let clock = HandClock(AtomicI64::new(time));
    let wakes = run_batch(store, &mut jobs, &Settings::default(), &clock);
    let answers = calls.into_iter().map(Call::into_answer).collect();
    let runs = std::mem::take(&mut *runs.lock().unwrap());
    Ran { answers, runs, wakes }
}

fn run(store: &mut dyn Store, probes: &[(&str, bool, Then)]) -> Ran {
    run_at(store, 1000, probes)
}

/// Who has written, by what is there.
fn written(store: &mut dyn Store) -> Vec<String> {
    let namespaces = store.read().unwrap().namespaces(None, 99).unwrap();
    namespaces.iter().map(|namespace| namespace.name.clone()).collect()
}

/// The name of a row that someone else holds.
const LOCKED: &str = "locked";

#[test]
fn who_needs_a_lock_that_is_held_is_refused_and_the_others_go_on() {
    let mut store = Faulty::default();
    let names = ["a", "b", LOCKED, "c", "d", "e", LOCKED];
    let ran = run(&mut store, &names.map(|name| (name, true, Then::Succeed)));
    for (name, answer) in names.iter().zip(&ran.answers) {
        let again = answer.as_ref().err().and_then(Error::again);
        assert_eq!(again, (*name == LOCKED).then_some(Again::Locked), "{name}");
    }
    assert_eq!(written(&mut store), ["a", "b", "c", "d", "e"]);
    assert!(ran.wakes.events);
}

/// Runs a command on a transaction that is not its own: whether it wrote, and its answer.
fn within(writes: bool, then: Then) -> (Result<bool>, Result<ExecutionId>) {
    let mut store = MemoryStore::new();
    let probe = Probe { name: "a".into(), writes, then, runs: Arc::default() };
    let mut call = Call::new(probe, Seed::from_number(0));
    let mut tx = store.begin().unwrap();
    let now = Timestamp::from_millis(7);
    let wrote = run_within(&mut *tx, &mut call, &Settings::default(), now);
    (wrote, call.into_answer())
}

#[test]
fn a_command_on_anothers_transaction_tells_whether_it_wrote() {
    let (wrote, answer) = within(true, Then::Succeed);
    assert!(wrote.unwrap() && answer.is_ok());
    let (wrote, answer) = within(false, Then::Succeed);
    assert!(!wrote.unwrap() && answer.is_ok());
}

#[test]
fn a_refusal_on_anothers_transaction_is_an_answer_unless_something_was_written() {
    for (then, code) in [(Then::Refuse, Code::WrongState), (Then::Panic, Code::Internal)] {
        let (wrote, answer) = within(false, then);
        assert!(!wrote.unwrap());
        assert_eq!(answer.unwrap_err().code(), code);
        let (wrote, _) = within(true, then);
        assert_eq!(wrote.unwrap_err().code(), code);
    }
    let (wrote, _) = within(false, Then::Swallow);
    assert!(wrote.is_err(), "the latch is trusted, not the rule");
}

#[test]
fn commands_that_succeed_share_one_transaction() {
    let mut store = Faulty::default();
    let ran = run(
        &mut store,
        &[("a", true, Then::Succeed), ("b", false, Then::Succeed), ("c", true, Then::Succeed)],
    );
    assert_eq!(ran.codes(), [None, None, None]);
    assert_eq!(ran.order(), ["a", "b", "c"]);
    assert_eq!(store.counted(), (1, 1));
    assert_eq!(written(&mut store), ["a", "c"]);
    assert!(ran.wakes.events);
}

#[test]
fn a_batch_that_wrote_nothing_commits_nothing() {
    let mut store = Faulty::default();
    let ran = run(&mut store, &[("a", false, Then::Succeed), ("b", false, Then::Refuse)]);
    assert_eq!(ran.codes(), [None, Some(Code::WrongState)]);
    assert_eq!(store.counted(), (1, 0));
    assert!(ran.wakes.is_empty());
}

#[test]
fn a_refusal_or_panic_before_any_write_costs_the_others_nothing() {
    for (then, code) in [(Then::Refuse, Code::WrongState), (Then::Panic, Code::Internal)] {
        let mut store = Faulty::default();
        let ran = run(
            &mut store,
            &[("a", true, Then::Succeed), ("b", false, then), ("c", true, Then::Succeed)],
        );
        assert_eq!(ran.codes(), [None, Some(code), None]);
        assert_eq!(ran.order(), ["a", "b", "c"], "nothing runs twice");
        assert_eq!(store.counted(), (1, 1));
        assert_eq!(written(&mut store), ["a", "c"]);
    }
}

#[test]
fn a_command_that_fails_after_it_wrote_is_answered_alone_and_the_rest_run_once_more() {
    for (then, code) in [(Then::Refuse, Code::WrongState), (Then::Panic, Code::Internal)] {
        let mut store = Faulty::default();
        let ran = run(
            &mut store,
            &[
                ("a", true, Then::Succeed),
                ("b", true, then),
                ("c", true, Then::Succeed),
                ("d", false, Then::Refuse),
            ],
        );
        assert_eq!(ran.codes(), [None, Some(code), None, Some(Code::WrongState)]);
        assert_eq!(ran.order(), ["a", "b", "a", "c", "d"]);
        assert_eq!(store.counted(), (2, 1), "the rest is one batch");
        assert_eq!(written(&mut store), ["a", "c"]);
    }
}

#[test]
fn each_culprit_is_answered_alone() {
    let mut store = Faulty::default();
    let ran = run(
        &mut store,
        &[
            ("a", true, Then::Refuse),
            ("b", true, Then::Succeed),
            ("c", true, Then::Panic),
            ("d", true, Then::Succeed),
        ],
    );
    let expected = [Some(Code::WrongState), None, Some(Code::Internal), None];
    assert_eq!(ran.codes(), expected);
    assert_eq!(ran.order(), ["a", "b", "c", "b", "d"]);
    assert_eq!(store.counted(), (3, 1));
    assert_eq!(written(&mut store), ["b", "d"]);
}

#[test]
fn nobody_is_woken_by_what_a_culprit_wrote() {
    let mut store = MemoryStore::new();
    let ran = run(&mut store, &[("a", true, Then::Refuse), ("b", false, Then::Succeed)]);
    assert_eq!(ran.codes(), [Some(Code::WrongState), None]);
    assert!(ran.wakes.is_empty());
    assert_eq!(written(&mut store), [""; 0]);
}

#[test]
fn an_error_of_the_store_is_the_answer_even_of_a_rule_that_swallowed_it() {
    let mut store = Faulty::default();
    let ran = run(&mut store, &[("a", true, Then::Succeed), ("b", true, Then::Swallow)]);
    assert_eq!(ran.codes(), [None, Some(Code::Internal)]);
    assert_eq!(ran.order(), ["a", "b", "a"]);
    assert_eq!(written(&mut store), ["a"]);
}

#[test]
fn a_re_run_draws_the_same_secrets_and_a_batch_has_one_time() {
    let mut store = MemoryStore::new();
    let ran = run(&mut store, &[("a", true, Then::Succeed), ("b", true, Then::Refuse)]);
    let [first, culprit, again] = &ran.runs[..] else { panic!("{:?}", ran.runs) };
    assert_eq!(first.secret, again.secret);
    assert_ne!(first.secret, culprit.secret);
    assert_eq!(first.now, culprit.now);
    assert_eq!(ran.answers[0], Ok(again.id));

    let mut same_time = MemoryStore::new();
    let time = again.now.as_millis();
    let alone = run_at(&mut same_time, time, &[("a", true, Then::Succeed)]);
    assert_eq!(alone.runs[0], *again, "the same seed and time give the same run");
}

#[test]
fn time_never_runs_backwards_from_commit_to_commit() {
    let mut store = MemoryStore::new();
    let mut now = |clock, writes| {
        run_at(&mut store, clock, &[("a", writes, Then::Succeed)]).runs[0].now.as_millis()
    };
    assert_eq!(now(500, true), 500);
    assert_eq!(now(200, true), 500);
    assert_eq!(now(900, false), 900);
    assert_eq!(now(600, true), 600, "only a commit holds time");
    assert_eq!(now(0, false), 600);
    let kept = store.read().unwrap().last_now().unwrap();
    assert_eq!(kept, Timestamp::from_millis(600));
}

#[test]
fn an_error_that_concerns_the_store_answers_all_and_nothing_is_tried_again() {
    for code in [Code::Unavailable, Code::StorageFull, Code::ReadOnly] {
        for step in [Moment::Begin, Moment::Write(1), Moment::Write(3), Moment::Commit] {
            let mut store = Faulty { fault: Some((step, code)), ..Faulty::default() };
            let ran = run(
                &mut store,
                &[
                    ("a", true, Then::Succeed),
                    ("b", true, Then::Succeed),
                    ("c", false, Then::Succeed),
                ],
            );
            assert_eq!(ran.codes(), [Some(code); 3], "{step:?}");
            assert_eq!(store.counted(), (1, 0), "{step:?}");
            assert!(ran.wakes.is_empty());
            assert_eq!(written(&mut store), [""; 0], "{step:?}");

            store.fault = None;
            let ran = run(&mut store, &[("a", true, Then::Succeed)]);
            assert_eq!(ran.codes(), [None], "the store works again");
        }
    }
}

#[test]
fn an_error_that_concerns_one_write_answers_its_command_alone() {
    let mut store = Faulty { fault: Some((Moment::Write(3), Code::Internal)), ..Faulty::default() };
    let ran = run(&mut store, &[("a", true, Then::Succeed), ("b", true, Then::Succeed)]);
    assert_eq!(ran.codes(), [None, Some(Code::Internal)]);
    assert_eq!(ran.order(), ["a", "b", "a"]);
    assert_eq!(written(&mut store), ["a"]);
}

/// A memory store that fails where it is told to, and counts transactions.
#[derive(Default)]
struct Faulty {
    inner: MemoryStore,
    fault: Option<(Moment, Code)>,
    begins: usize,
    commits: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Begin,
    /// The write of that number in a transaction.
    Write(usize),
    Commit,
}

impl Faulty {
    /// Transactions begun and committed.
    fn counted(&self) -> (usize, usize) {
        (self.begins, self.commits)
    }
}

fn check(fault: Option<(Moment, Code)>, here: Moment) -> Result<()> {
    match fault {
        Some((step, code)) if step == here => Err(Error::new(code, "broken on purpose")),
        _ => Ok(()),
    }
}

impl Source for Faulty {
    fn read(&mut self) -> Result<Box<dyn Read + '_>> {
        self.inner.read()
    }
}

impl Store for Faulty {
    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>> {
        self.begins += 1;
        check(self.fault, Moment::Begin)?;
        Ok(Box::new(FaultyTx {
            inner: self.inner.begin()?,
            fault: self.fault,
            writes: 0,
            commits: &mut self.commits,
        }))
    }

    fn reader(&self) -> Result<Option<Box<dyn Source>>> {
        self.inner.reader()
    }

    fn changed_elsewhere(&mut self) -> Result<bool> {
        self.inner.changed_elsewhere()
    }

    fn info(&self) -> StoreInfo {
        self.inner.info()
    }
}

struct FaultyTx<'a> {
    inner: Box<dyn Transaction + 'a>,
    fault: Option<(Moment, Code)>,
    writes: usize,
    commits: &'a mut usize,
}

impl Transaction for FaultyTx<'_> {
    fn commit(self: Box<Self>, now: Timestamp) -> Result<()> {
        check(self.fault, Moment::Commit)?;
        *self.commits += 1;
        self.inner.commit(now)
    }
}

macro_rules! forward {
    (read: $(fn $name:ident($($arg:ident: $type:ty),*) -> $output:ty;)*) => {$(
        fn $name(&mut self, $($arg: $type),*) -> Result<$output> {
            self.inner.$name($($arg),*)
        }
    )*};
    (write: $(fn $name:ident($($arg:ident: $type:ty),*) -> $output:ty;)*) => {$(
        fn $name(&mut self, $($arg: $type),*) -> Result<$output> {
            self.writes += 1;
            check(self.fault, Moment::Write(self.writes))?;
            self.inner.$name($($arg),*)
        }
    )*};
}

impl Read for FaultyTx<'_> {
    forward! { read:
        fn last_now() -> Timestamp;
        fn namespace(name: &str) -> Option<Arc<Namespace>>;
        fn namespace_by_id(id: NamespaceId) -> Arc<Namespace>;
        fn namespaces(after: Option<&str>, limit: usize) -> Vec<Arc<Namespace>>;
        fn lane(namespace: NamespaceId, name: &str) -> Option<Arc<Lane>>;
        fn lane_by_id(id: LaneId) -> Arc<Lane>;
        fn lanes(namespace: NamespaceId, after: Option<&str>, limit: usize) -> Vec<Arc<Lane>>;
        fn routes(namespace: NamespaceId) -> Arc<RouteTable>;
        fn find(namespace: NamespaceId, ids: &[ExecutionId]) -> Vec<Option<Execution>>;
        fn claimable(lane: LaneId, routes: &[RouteId], limit: usize) -> Vec<Execution>;
        fn due(by: Timestamp, limit: usize) -> Vec<Execution>;
        fn retired(by: Timestamp, limit: usize) -> Vec<Execution>;
        fn next_due() -> Option<Timestamp>;
        fn owned_by(namespace: NamespaceId, worker: &str, by: Timestamp, limit: usize) -> Vec<Execution>;
        fn count_owned(lane: LaneId) -> u32;
        fn keys(namespace: NamespaceId, keys: &[&str]) -> Vec<Option<Key>>;
        fn inputs(rows: &[RowId]) -> Vec<Payload>;
        fn fingerprint(row: RowId) -> Option<[u8; 16]>;
        fn result(row: RowId) -> Option<Payload>;
        fn past_lease(row: RowId, epoch: Epoch) -> Option<PastLease>;
        fn past_leases(row: RowId, after: Epoch, limit: usize) -> Vec<PastLease>;
        fn worker(namespace: NamespaceId, instance: &str) -> Option<WorkerRow>;
        fn workers(namespace: NamespaceId, after: Option<&str>, limit: usize) -> Vec<WorkerRow>;
        fn lapsed_workers(by: Timestamp, limit: usize) -> Vec<WorkerRow>;
        fn chores(by: Timestamp, limit: usize) -> Vec<Chore>;
        fn find_chore(kind: &ChoreKind) -> Option<Chore>;
        fn requests(limit: usize) -> Vec<Request>;
        fn request(id: RequestId) -> Option<Request>;
        fn refused_requests(after: Option<RequestId>, limit: usize) -> Vec<Request>;
        fn count_requests() -> RequestCounts;
        fn events(after: Cursor, filter: &EventScan, limit: usize, scan: usize) -> EventSlice;
        fn event_span() -> EventSpan;
        fn list(filter: &ListScan, below: Option<RowId>, limit: usize, scan: usize) -> ListSlice;
        fn counts(namespace: NamespaceId, lane: Option<LaneId>) -> Vec<Count>;
        fn execution(row: RowId) -> Option<Execution>;
        fn flow(namespace: NamespaceId, id: FlowId) -> Option<Flow>;
        fn flow_by_row(row: FlowRow) -> Flow;
        fn is_gated(flow: FlowRow) -> bool;
        fn member(flow: FlowRow, node: &str) -> Option<Execution>;
        fn members(flow: FlowRow, after: Option<&str>, limit: usize) -> Vec<Execution>;
        fn count_members(flow: FlowRow) -> Vec<MemberCount>;
        fn children(parent: RowId, after: Option<RowId>, limit: usize) -> Vec<Execution>;
        fn join(target: RowId) -> Option<Join>;
        fn edges_from(source: RowId, after: Option<RowId>, limit: usize) -> Vec<Edge>;
        fn edges_into(target: RowId, bound: bool) -> Vec<Edge>;
        fn edge(flow: FlowRow, id: EdgeId) -> Option<Edge>;
        fn reach(from: &[RowId]) -> Vec<(RowId, RowId)>;
        fn list_flows(filter: &FlowScan, below: Option<FlowRow>, limit: usize, scan: usize) -> FlowSlice;
        fn oldest_ready(lane: LaneId) -> Option<Timestamp>;
        fn expired_leases(namespace: NamespaceId, as_of: Timestamp, after: Option<(Timestamp, ExecutionId)>, limit: usize) -> Vec<Execution>;
    }
}

impl ReadMail for FaultyTx<'_> {
    forward! { read:
        fn suspension(execution: RowId, number: Option<u32>) -> Option<Suspension>;
        fn suspension_by_key(execution: RowId, run: u32, key: &str) -> Option<Suspension>;
        fn suspensions(execution: RowId, after: u32, limit: usize) -> Vec<Suspension>;
        fn waitpoint(execution: RowId, id: WaitpointId) -> Option<Waitpoint>;
        fn open_waitpoints(execution: RowId) -> Vec<Waitpoint>;
        fn last_waitpoint(execution: RowId) -> u32;
        fn waitpoints(execution: RowId, after: u32, limit: usize) -> Vec<Waitpoint>;
        fn inbox(namespace: NamespaceId, key: Option<&str>, after: Option<WaitpointId>, limit: usize) -> Vec<Waitpoint>;
        fn count_signed(namespace: NamespaceId, kid: &str) -> u64;
        fn last_signal(execution: RowId) -> u32;
        fn signal_by_key(execution: RowId, key: &str) -> Option<Signal>;
        fn kept_signals(execution: RowId, run: u32) -> Vec<Signal>;
        fn taken_signals(execution: RowId, suspension: u32, after: u32, limit: usize) -> Vec<Signal>;
        fn signals(execution: RowId, after: u32, limit: usize) -> Vec<Signal>;
        fn signal_payloads(execution: RowId, seqs: &[u32]) -> Vec<Payload>;
        fn step(execution: RowId, name: &str, occurrence: u32) -> Option<Step>;
        fn last_step(execution: RowId) -> u32;
        fn steps(execution: RowId, after: u32, limit: usize) -> Vec<Step>;
        fn step_results(execution: RowId, seqs: &[u32]) -> Vec<Payload>;
        fn signing_keys(namespace: NamespaceId) -> Vec<SigningKey>;
    }
}

impl WriteMail for FaultyTx<'_> {
    forward! { write:
        fn add_suspension(suspension: &Suspension) -> ();
        fn save_suspension(suspension: &Suspension) -> ();
        fn add_waitpoint(waitpoint: &Waitpoint) -> ();
        fn save_waitpoint(waitpoint: &Waitpoint) -> ();
        fn add_signal(signal: &Signal, payload: &Payload) -> ();
        fn save_signal(signal: &Signal) -> ();
        fn add_step(step: &Step, result: &Payload) -> ();
        fn drop_steps(execution: RowId, from: u32) -> ();
        fn put_signing_key(key: &SigningKey) -> ();
    }
}

impl ReadStreams for FaultyTx<'_> {
    forward! { read:
        fn stream(execution: RowId) -> Option<Stream>;
        fn chunks(execution: RowId, after: u64, to: u64, live: bool, limit: usize, bytes: usize) -> Vec<Chunk>;
        fn last_chunks(execution: RowId, after: u64, to: u64, live: bool, limit: usize, bytes: usize) -> Vec<Chunk>;
        fn oldest_chunks(execution: RowId, live: bool, frames: u64) -> Vec<ChunkSpan>;
        fn summary(execution: RowId) -> Option<Summary>;
    }
}

impl WriteStreams for FaultyTx<'_> {
    forward! { write:
        fn put_stream(execution: &Execution, stream: &Stream) -> ();
        fn add_chunk(chunk: &Chunk) -> ();
        fn drop_chunks(execution: RowId, live: bool, through: u64) -> ();
        fn trim_chunks(gone: &[RowId], limit: usize) -> usize;
        fn put_summary(summary: &Summary) -> ();
    }
}

impl ReadLimits for FaultyTx<'_> {
    forward! { read:
        fn limit(namespace: NamespaceId, sort: LimitSort, name: &str) -> Option<Arc<Limit>>;
        fn limit_by_row(row: LimitRow) -> Arc<Limit>;
        fn limits(namespace: NamespaceId, sort: LimitSort, after: Option<&str>, limit: usize) -> Vec<Arc<Limit>>;
        fn find_gate(namespace: NamespaceId, limit: LimitRow, key: &str) -> Option<Gate>;
        fn gate_by_row(row: GateRow) -> Option<Gate>;
        fn gates(limit: LimitRow, after: Option<&str>, limit_to: usize) -> Vec<Gate>;
        fn uses(execution: RowId) -> Vec<Use>;
        fn open_uses(limit: LimitRow, after: Option<RowId>, limit_to: usize) -> Vec<Use>;
        fn passage(gate: GateRow, number: u64) -> Option<Passage>;
        fn limited(gate: GateRow, each: usize) -> Vec<Execution>;
        fn turn(lane: LaneId, priority: i32, key: &str) -> Option<Turn>;
    }
}

impl WriteLimits for FaultyTx<'_> {
    forward! { write:
        fn new_limit_row() -> LimitRow;
        fn put_limit(limit: &Limit) -> ();
        fn drop_limit(limit: &Limit) -> ();
        fn gate(namespace: NamespaceId, limit: LimitRow, key: &str) -> Gate;
        fn save_gate(gate: &Gate) -> ();
        fn trim_gates(by: Timestamp, limit: usize) -> usize;
        fn put_use(of: &Use) -> ();
        fn drop_use(execution: RowId, limit: LimitRow) -> ();
        fn put_passage(gate: GateRow, passage: &Passage) -> ();
        fn drop_passages(gate: GateRow, through: u64) -> ();
        fn put_turn(turn: &Turn) -> ();
        fn drop_turns(lane: LaneId, priority: i32, before: i64, limit: usize) -> ();
        fn save_policy(execution: &Execution) -> ();
        fn save_terms(flow: &Flow) -> ();
        fn save_limits(namespace: NamespaceId, limits: &NamespaceLimits) -> ();
    }
}

impl Tx for FaultyTx<'_> {
    fn put_namespace(&mut self, name: &str, defaults: &Defaults) -> Result<Arc<Namespace>> {
        self.writes += 1;
        check(self.fault, Moment::Write(self.writes))?;
        match name {
            LOCKED => Err(Error::locked("held on purpose")),
            _ => self.inner.put_namespace(name, defaults),
        }
    }

    forward! { write:
        fn add_lane(namespace: NamespaceId, name: &str) -> Arc<Lane>;
        fn save_lane(lane: &Lane) -> ();
        fn add_route(namespace: NamespaceId, kind: &str, capabilities: &[String]) -> RouteId;
        fn new_row() -> RowId;
        fn insert(execution: &Execution, input: &Payload, fingerprint: Option<&[u8; 16]>) -> ();
        fn save(execution: &Execution) -> ();
        fn save_tags(execution: &Execution) -> ();
        fn save_member(execution: &Execution) -> ();
        fn remove(execution: &Execution) -> ();
        fn new_flow_row() -> FlowRow;
        fn insert_flow(flow: &Flow) -> ();
        fn save_flow(flow: &Flow) -> ();
        fn remove_flow(flow: &Flow) -> ();
        fn add_edge(edge: &Edge) -> ();
        fn save_edge(edge: &Edge) -> ();
        fn drop_edge(edge: &Edge) -> ();
        fn put_join(join: &Join) -> ();
        fn put_result(row: RowId, result: &Payload) -> ();
        fn drop_result(row: RowId) -> ();
        fn add_past_lease(lease: &PastLease) -> ();
        fn add_event(event: &NewEvent) -> ();
        fn put_key(key: &Key) -> ();
        fn drop_key(namespace: NamespaceId, key: &str) -> ();
        fn put_worker(worker: &WorkerRow) -> ();
        fn drop_worker(namespace: NamespaceId, instance: &str) -> ();
        fn add_chore(kind: &ChoreKind, due_at: Timestamp) -> ChoreId;
        fn save_chore(chore: &Chore) -> ();
        fn drop_chore(id: ChoreId) -> ();
        fn add_request(request: &NewRequest) -> RequestId;
        fn save_request(request: &Request) -> ();
        fn drop_request(id: RequestId) -> ();
        fn trim_events(before: Timestamp, limit: usize) -> usize;
        fn trim_keys(by: Timestamp, limit: usize) -> usize;
    }
}
