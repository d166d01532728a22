//! What suspending, signals and steps leave in the database, and processes that do it at once.

mod common;

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};

use common::{Admin, Schema, ask, complete, run, run_all, submit, up_to};
use everloom_core::*;

fn suspend(store: &mut dyn Store, leased: &Leased) -> Token {
    let suspend = Suspend::new(leased.lease.clone(), Condition::at("go"));
    match run(store, suspend).expect("it suspends") {
        SuspendOutcome::Suspended { waitpoints, .. } => waitpoints[0].token.clone(),
        other => panic!("{other:?}"),
    }
}

fn signal(execution: ExecutionId, token: &Token, payload: Payload) -> DeliverSignal {
    let to = SignalTo::Token(token.clone());
    DeliverSignal { to, payload, ..DeliverSignal::new(execution, "go") }
}

/// How many rows each table has that belongs to executions.
fn rows(schema: &Schema) -> BTreeMap<&'static str, i64> {
    let admin = Admin::new();
    let tables = ["executions", "suspensions", "waitpoints", "signals", "steps"];
    let count = |table| admin.number(&format!("SELECT count(*) FROM {}.{table}", schema.name));
    tables.into_iter().map(|table| (table, count(table))).collect()
}

/// An execution that has recorded a step, was suspended, got a signal, and is active again.
fn resumed(store: &mut dyn Store) -> Leased {
    run(store, submit(1)).expect("it is submitted");
    let leased = run(store, up_to(1)).expect("a claim").leases.remove(0);
    let step = RecordStep::new(leased.lease.clone(), "first", Payload::bytes(*b"\0\0"));
    run(store, step).expect("a step");
    let token = suspend(store, &leased);
    run(store, signal(leased.id(), &token, Payload::bytes(*b"\0\xff"))).expect("a signal");
    run(store, up_to(1)).expect("a claim").leases.remove(0)
}

#[test]
fn an_execution_that_is_deleted_leaves_nothing_behind_and_others_keep_theirs() {
    let schema = Schema::new("leavings");
    let mut store = schema.open();
    let kept = resumed(&mut store);
    let before = rows(&schema);
    assert!(before.values().all(|count| *count > 0), "{before:?}");
    let leased = resumed(&mut store);
    run(&mut store, complete(&leased)).expect("it is done");
    assert!(rows(&schema).values().sum::<i64>() > before.values().sum::<i64>());
    let execution = leased.id();
    run(&mut store, Delete { namespace: DEFAULT_NAME.into(), execution }).expect("it is deleted");
    assert_eq!(rows(&schema), before);
    let signals = ask(&mut store, &ObserveSignals::new(kept.id())).expect("its signals").signals;
    assert_eq!(signals[0].payload, Some(Payload::bytes(*b"\0\xff")));
}

#[test]
fn what_is_too_much_to_come_along_is_handed_over_all_the_same() {
    let schema = Schema::new("large");
    let mut store = schema.open();
    run(&mut store, submit(1)).expect("it is submitted");
    let leased = run(&mut store, up_to(1)).expect("a claim").leases.remove(0);
    let large = |number: u8| Payload {
        content_type: format!("x/{number}").into(),
        bytes: (0..1_000_000_u32).map(|place| place.to_le_bytes()[1] ^ number).collect(),
    };
    for number in 0..6 {
        let name = format!("step-{number}");
        let step = RecordStep::new(leased.lease.clone(), name, large(number));
        run(&mut store, step).expect("a step");
    }
    let condition = Condition::count(6, Distinct::Signals, ["go"]);
    let suspend = Suspend::new(leased.lease.clone(), condition);
    let SuspendOutcome::Suspended { waitpoints, .. } = run(&mut store, suspend).expect("it waits")
    else {
        panic!("it is not suspended")
    };
    for number in 0..6 {
        let signal = signal(leased.id(), &waitpoints[0].token, large(number));
        run(&mut store, signal).expect("a signal");
    }
    let leased = run(&mut store, up_to(1)).expect("a claim").leases.remove(0);
    let signals = leased.resumption.expect("it was suspended").signals;
    for number in 0..6_u8 {
        let payload = signals[usize::from(number)].payload.as_ref();
        assert!(payload == Some(&large(number)), "signal {number}");
        let result = leased.steps[usize::from(number)].result.as_ref();
        assert!(result == Some(&large(number)), "step {number}");
    }
}

#[test]
fn a_name_with_nul_is_not_found_and_spoils_nothing() {
    let schema = Schema::new("nul");
    let mut store = schema.open();
    let leased = resumed(&mut store);
    run(&mut store, complete(&leased)).expect("it is done");
    let replay = |name: &str| {
        let steps = KeepSteps::Before { name: name.into(), occurrence: 0 };
        Replay { steps, ..Replay::new(leased.id()) }
    };
    let done = run_all(&mut store, [replay("fi\0rst"), replay("first")]);
    assert_eq!(done[0].as_ref().unwrap_err().code(), Code::NotFound);
    assert!(done[1].is_ok(), "{:?}", done[1]);
    let mut read = store.read().unwrap();
    let space = NamespaceId(1);
    let row = read.find(space, &[leased.id()]).unwrap().remove(0).unwrap().row;
    assert!(read.suspension_by_key(row, 1, "a\0b").unwrap().is_none());
    assert!(read.signal_by_key(row, "a\0b").unwrap().is_none());
    assert!(read.step(row, "a\0b", 0).unwrap().is_none());
    assert!(read.inbox(space, Some("a\0b"), None, 9).unwrap().is_empty());
    assert_eq!(read.count_signed(space, "a\0b").unwrap(), 0);
    drop(read);
    let mut tx = store.begin().unwrap();
    assert!(tx.execution(row).is_err() && tx.load_missing().unwrap());
    assert!(tx.suspension_by_key(row, 1, "a\0b").unwrap().is_none());
    assert!(tx.signal_by_key(row, "a\0b").unwrap().is_none());
    assert!(tx.step(row, "a\0b", 0).unwrap().is_none());
    assert_eq!(tx.count_signed(space, "a\0b").unwrap(), 0);
    assert!(!tx.load_missing().unwrap(), "nothing is asked for");
}

#[test]
fn processes_that_suspend_first_at_once_sign_with_one_key() {
    const PROCESSES: usize = 6;
    let schema = Schema::new("signers");
    let mut store = schema.open();
    run(&mut store, submit(PROCESSES)).expect("it is submitted");
    let leases = run(&mut store, up_to(PROCESSES)).expect("a claim").leases;
    let (together, tokens) = (Barrier::new(PROCESSES), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for leased in &leases {
            scope.spawn(|| {
                let mut store = schema.open();
                together.wait();
                let token = suspend(&mut store, leased);
                tokens.lock().unwrap().push((leased.id(), token));
            });
        }
    });
    let keys = ask(&mut store, &ListSigningKeys { namespace: DEFAULT_NAME.into() }).unwrap().keys;
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert_eq!(keys[0].open_waitpoints, PROCESSES as u64);
    for (execution, token) in tokens.into_inner().unwrap() {
        let delivered = run(&mut store, signal(execution, &token, Payload::default()));
        let effect = delivered.expect("the token is good").effect;
        assert_eq!(effect, Effect::Resumed { status: Status::Resumable });
    }
}

/// Whoever is told that a key signed nothing that is open may forget it: nobody may be about to.
#[test]
fn a_key_is_not_counted_while_others_sign_with_it() {
    let schema = Schema::new("counted");
    let mut store = schema.open();
    run(&mut store, submit(1)).expect("it is submitted");
    let leased = run(&mut store, up_to(1)).expect("a claim").leases.remove(0);
    suspend(&mut store, &leased);
    let space = NamespaceId(1);
    let mut signing = store.begin().unwrap();
    let _ = signing.signing_keys(space);
    assert!(signing.load_missing().unwrap());
    let mut other = schema.open();
    let mut counting = other.begin().unwrap();
    counting.count_signed(space, "k1").unwrap();
    let refused = counting.load_missing().unwrap_err();
    assert_eq!(refused.again(), Some(Again::Locked));
    drop((counting, signing));
    let mut counting = other.begin().unwrap();
    counting.count_signed(space, "k1").unwrap();
    assert!(counting.load_missing().unwrap());
    assert_eq!(counting.count_signed(space, "k1").unwrap(), 1);
}
