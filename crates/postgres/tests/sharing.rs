//! Several processes on one schema.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use common::{Admin, Schema, ask, complete, run, run_all, submit, up_to};
use everloom_core::*;

#[test]
fn stores_that_claim_at_once_never_get_the_same_work() {
    let schema = Schema::new("claims");
    let mut store = schema.open();
    run(&mut store, submit(600)).expect("it is submitted");
    let (sender, claimed) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let sender = sender.clone();
            let schema = &schema;
            scope.spawn(move || {
                let mut store = schema.open();
                loop {
                    let leases = run(&mut store, up_to(7)).expect("a claim").leases;
                    if leases.is_empty() {
                        return;
                    }
                    leases.iter().for_each(|leased| sender.send(leased.id()).unwrap());
                }
            });
        }
    });
    drop(sender);
    let claimed: Vec<ExecutionId> = claimed.iter().collect();
    assert_eq!(claimed.len(), 600);
    assert_eq!(claimed.iter().collect::<BTreeSet<_>>().len(), 600);
}

#[test]
fn a_maximum_holds_across_stores() {
    let schema = Schema::new("cap");
    let mut store = schema.open();
    run(&mut store, submit(100)).expect("it is submitted");
    let cap: PutLane =
        serde_json::from_value(serde_json::json!({ "lane": "default", "max_active": 10 }))
            .expect("a command");
    run(&mut store, cap).expect("a maximum");
    let claimed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut store = schema.open();
                for _ in 0..10 {
                    let leases = run(&mut store, up_to(3)).expect("a claim").leases;
                    claimed.fetch_add(leases.len(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(claimed.into_inner(), 10);
}

#[test]
fn one_key_is_one_submission_however_many_submit_it() {
    let schema = Schema::new("keys");
    drop(schema.open());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut store = schema.open();
                for number in 0..25 {
                    let mut submit = submit(1);
                    submit.executions[0].key = Some(format!("order-{number}"));
                    run(&mut store, submit).expect("created or a duplicate");
                }
            });
        }
    });
    let sql = format!("SELECT count(*) FROM {}.executions", schema.name);
    assert_eq!(Admin::new().number(&sql), 25);
}

/// What is answered has happened once, and what is refused has not happened.
#[test]
fn a_connection_that_is_lost_at_any_moment_loses_and_repeats_nothing() {
    let schema = Schema::new("lost");
    let mut stores: Vec<_> = (0..3).map(|_| schema.open()).collect();
    let (acknowledged, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let acknowledged = &acknowledged;
        let writers: Vec<_> = stores
            .iter_mut()
            .map(|store| scope.spawn(move || submit_one_by_one(store, 150, acknowledged)))
            .collect();
        scope.spawn(|| {
            let admin = Admin::new();
            while !done.load(Ordering::Relaxed) {
                let before = acknowledged.load(Ordering::Relaxed);
                admin.terminate(&schema);
                // Each cut meets others that have come on since the last.
                let stuck = || acknowledged.load(Ordering::Relaxed) == before;
                while stuck() && !done.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
            }
        });
        let outcomes: Vec<_> =
            writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(std::result::Result::is_ok));
    });
    let sql = format!("SELECT count(*) FROM {}.executions", schema.name);
    let kept = Admin::new().number(&sql);
    assert_eq!(kept, i64::try_from(acknowledged.into_inner()).unwrap());
    assert!(kept > 50, "{kept}");
}

fn submit_one_by_one(store: &mut dyn Store, count: usize, acknowledged: &AtomicUsize) {
    for _ in 0..count {
        match run(store, submit(1)) {
            Ok(submitted) => {
                acknowledged.fetch_add(submitted.executions.len(), Ordering::Relaxed);
            }
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
}

/// Strangers hold locks, a snapshot and a transaction id, here and in another database.
#[test]
fn open_transactions_of_others_delay_nobody() {
    let schema = Schema::new("open");
    let mut store = schema.open();
    run(&mut store, submit(2)).expect("it is submitted");
    let (here, elsewhere) = (Admin::new(), Neighbour::new(&schema));
    here.run(&format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ;
         UPDATE {0}.executions SET priority = priority WHERE id = 1;
         SELECT 1 FROM {0}.lanes FOR SHARE;
         CREATE TABLE {0}.x ()",
        schema.name
    ));
    elsewhere.admin.run("BEGIN ISOLATION LEVEL REPEATABLE READ; CREATE TABLE x ()");
    let (sender, told) = mpsc::channel();
    let mut waiting = schema.open();
    waiting.listen(Arc::new(move |_| sender.send(()).unwrap_or_default())).expect("it listens");
    for round in 1..=20 {
        let leases = run(&mut store, up_to(5)).expect("a claim").leases;
        assert_eq!(leases.len(), 1, "all but the one that is locked");
        run(&mut store, complete(&leases[0])).expect("it completes");
        run(&mut store, submit(1)).expect("it is submitted");
        wait_for_events(&mut waiting, 2 + 3 * round);
    }
    told.try_recv().expect("others are told of commits");
    here.run("ROLLBACK");
    assert_eq!(run(&mut store, up_to(5)).expect("a claim").leases.len(), 2);
}

/// Another database of the same server.
struct Neighbour {
    admin: Admin,
    name: String,
}

impl Neighbour {
    fn new(schema: &Schema) -> Self {
        let name = format!("{}_next", schema.name);
        Admin::new().run(&format!("CREATE DATABASE {name}"));
        let server = common::server();
        let (address, _) = server.rsplit_once('/').expect("a database");
        Self { admin: Admin::at(&format!("{address}/{name}")), name }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        Admin::new().run(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

#[test]
fn another_process_is_told_of_a_commit() {
    let schema = Schema::new("told");
    let (mut here, mut there) = (schema.open(), schema.open());
    let (sender, told) = mpsc::channel();
    there.listen(Arc::new(move |_| sender.send(()).unwrap_or_default())).expect("it listens");
    // It begins to listen in its own time: what comes before that is not told.
    let is_told = (0..50).any(|_| {
        run(&mut here, submit(1)).expect("it is submitted");
        told.recv_timeout(std::time::Duration::from_millis(200)).is_ok()
    });
    assert!(is_told);
    assert!(there.changed_elsewhere().expect("it is known"));
}

#[test]
fn who_found_only_locked_work_is_told_to_look_again() {
    let schema = Schema::new("again");
    let mut store = schema.open();
    run(&mut store, submit(1)).expect("it is submitted");
    let (sender, told) = mpsc::channel();
    store.listen(Arc::new(move |news| sender.send(news).unwrap_or_default())).expect("it listens");
    let stranger = Admin::new();
    stranger.run(&format!("BEGIN; SELECT FROM {}.executions FOR UPDATE", schema.name));
    assert!(run(&mut store, up_to(1)).expect("a claim").leases.is_empty());
    stranger.run("ROLLBACK");
    let patience = std::time::Duration::from_secs(20);
    while told.recv_timeout(patience).expect("news") != News::Elsewhere {}
    assert_eq!(run(&mut store, up_to(1)).expect("a claim").leases.len(), 1);
}

fn wait_for_events(store: &mut dyn Store, count: usize) {
    while ask(store, &ReadEvents::default()).expect("events").events.len() < count {
        std::thread::yield_now();
    }
}

#[test]
fn every_follower_sees_every_event_once_and_causes_before_effects() {
    let expected = WRITERS * ROUNDS * BATCH * 3;
    let schema = Schema::new("log");
    drop(schema.open());
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (schema, failed) = (&schema, &failed);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write_log(&mut schema.open(), writer)))
            .collect();
        let followers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| follow(schema, expected, failed))).collect();
        for writer in writers {
            failed.fetch_or(writer.join().is_err(), Ordering::Relaxed);
        }
        let seen: Vec<_> = followers.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(seen.iter().all(|log| *log == seen[0]));
        check_order(&seen[0], expected);
    });
}

const WRITERS: usize = 8;
const ROUNDS: usize = 50;
const BATCH: usize = 25;

/// Submits to its own lane and works off that of another, so that effects follow causes that came
/// over another connection; at last what is left anywhere.
fn write_log(store: &mut dyn Store, writer: usize) {
    for _ in 0..ROUNDS {
        let mut submit = submit(BATCH);
        submit.executions.iter_mut().for_each(|one| one.lane = Some(lane(writer)));
        run(store, submit).expect("it is submitted");
        work_off(store, vec![lane((writer + 1) % WRITERS), lane(writer)]);
    }
    while work_off(store, (0..WRITERS).map(lane).collect()) > 0 {}
}

fn work_off(store: &mut dyn Store, lanes: Vec<String>) -> usize {
    let leases = run(store, Claim { lanes, ..up_to(BATCH) }).expect("a claim").leases;
    for done in run_all(store, leases.iter().map(complete)) {
        done.expect("it completes");
    }
    leases.len()
}

fn lane(number: usize) -> String {
    format!("lane-{number}")
}

type Log = Vec<(Cursor, EventKind, ExecutionId)>;

fn follow(schema: &Schema, expected: usize, failed: &AtomicBool) -> Log {
    let store = schema.open();
    let mut reader = store.reader().expect("a reader").expect("there is one");
    let mut query = ReadEvents { limit: 500, from: From::After(Cursor(0)), ..Default::default() };
    let mut log = Vec::new();
    while log.len() < expected && !failed.load(Ordering::Relaxed) {
        let page = ask(&mut *reader, &query).expect("events");
        log.extend(
            page.events.iter().map(|event| (event.cursor, event.kind, event.execution.unwrap())),
        );
        query.from = From::After(page.next);
    }
    log
}

fn check_order(log: &Log, expected: usize) {
    assert_eq!(log.len(), expected);
    assert!(log.iter().zip(1..).all(|((cursor, ..), place)| cursor.0 == place));
    let mut seen = std::collections::BTreeMap::<ExecutionId, Vec<EventKind>>::new();
    for (_, kind, execution) in log {
        seen.entry(*execution).or_default().push(*kind);
    }
    let life = [EventKind::Submitted, EventKind::Claimed, EventKind::Completed];
    assert!(seen.values().all(|kinds| *kinds == life));
}

/// Claims and completes from several stores at once until there is nothing left.
fn finish_all(schema: &Schema, stores: usize) {
    std::thread::scope(|scope| {
        for _ in 0..stores {
            scope.spawn(|| {
                let mut store = schema.open();
                loop {
                    let leases = run(&mut store, up_to(3)).expect("a claim").leases;
                    let done = run_all(&mut store, leases.iter().map(complete));
                    done.into_iter().collect::<Result<Vec<_>>>().expect("completions");
                    let counts = CountExecutions { namespace: DEFAULT_NAME.into(), lane: None };
                    let left = ask(&mut store, &counts).expect("counts");
                    if left.of(Status::Completed) == left.total() {
                        return;
                    }
                }
            });
        }
    });
}

#[test]
fn stores_that_end_members_of_one_flow_at_once_lose_no_end() {
    let schema = Schema::new("flow");
    let mut store = schema.open();
    let node = |name: String| NewNode::new(name, NewExecution::new("work"));
    let middle = (0..60).map(|n| node(format!("n{n}")).after(After::all(["first"])));
    let last = After::all((0..60).map(|n| format!("n{n}")));
    let fan = NewFlow::new()
        .node(node("first".into()))
        .nodes(middle)
        .node(node("last".into()).after(last));
    let flows: Vec<FlowId> = (0..3)
        .map(|_| {
            let submit = SubmitFlow { namespace: DEFAULT_NAME.into(), flow: fan.clone() };
            run(&mut store, submit).expect("it is submitted").id
        })
        .collect();
    finish_all(&schema, 3);
    for flow in flows {
        let view = ask(&mut store, &GetFlow { namespace: DEFAULT_NAME.into(), flow, brief: true })
            .unwrap();
        assert_eq!(view.status, FlowStatus::Completed);
        assert_eq!(view.counts.completed, 62);
    }
}

#[test]
fn children_of_many_flows_that_end_at_once_wake_their_parent_once() {
    let schema = Schema::new("children");
    let mut store = schema.open();
    run(&mut store, submit(1)).expect("a parent");
    let parent = run(&mut store, up_to(1)).expect("a claim").leases.remove(0);
    let mut children = Vec::new();
    for step in 0..30 {
        let spawn = Spawn {
            namespace: DEFAULT_NAME.into(),
            lease: parent.lease.clone(),
            step: format!("step {step}"),
            nodes: vec![NewNode::new("child", NewExecution::new("work"))],
            into: SpawnInto::New,
        };
        children.extend(run(&mut store, spawn).expect("children").nodes.into_values());
    }
    let waited = run(&mut store, WaitChildren::new(parent.lease.clone(), children));
    assert_eq!(waited.expect("it waits"), WaitChildrenOutcome::Waiting);
    finish_all(&schema, 3);
    let done = GetExecution { namespace: DEFAULT_NAME.into(), execution: parent.id() };
    assert_eq!(ask(&mut store, &done).unwrap().status, Status::Completed);
}
