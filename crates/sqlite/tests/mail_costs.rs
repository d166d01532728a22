//! What waiting costs, counted in steps of SQLite's virtual machine.

mod common;

use common::mail::{
    add_suspended, over, payload, signal, signing_key, step, suspension, taken, waitpoint,
    waitpoint_id,
};
use common::{Queue, at, commit, in_memory};
use everloom_core::{
    Beside, Call, Claim, Clock, CloseReason, Command, Condition, DelayCause, DeliverSignal, Effect,
    Execution, LeaseToken, Payload, Ready, RowId, Seed, Settings, Signal, SignalTo, State, Step,
    Store, Suspend, SuspendOutcome, Suspension, Tick, Timer, Timestamp, Tx, Waitpoint,
    WaitpointState, run_batch,
};
use everloom_sqlite::SqliteStore;

struct Stopped;

const NOW: i64 = 10_000;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        at(NOW)
    }
}

fn apply<C: Command>(store: &mut SqliteStore, command: C) -> C::Output {
    let mut call = Call::new(command, Seed::random());
    run_batch(store, &mut [&mut call], &Settings::default(), &Stopped);
    call.into_answer().unwrap()
}

fn claim(store: &mut SqliteStore) -> LeaseToken {
    apply(store, Claim::new("w")).leases.remove(0).lease
}

/// Claims an execution, suspends it, sends it a signal with the token, and claims it again.
fn round_trip(store: &mut SqliteStore) {
    let lease = claim(store);
    let execution = lease.execution;
    let suspend = Suspend::new(lease, Condition::at("go"));
    let SuspendOutcome::Suspended { waitpoints, .. } = apply(store, suspend) else {
        panic!("not suspended");
    };
    let token = waitpoints[0].token.clone();
    let signal = DeliverSignal {
        to: SignalTo::Token(token),
        payload: payload(1),
        key: Some("once".into()),
        ..DeliverSignal::new(execution, "go")
    };
    let delivered = apply(store, signal);
    assert!(matches!(delivered.effect, Effect::Resumed { .. }), "{delivered:?}");
    assert_eq!(claim(store).execution, execution);
}

/// What some work does, and its steps.
fn steps_of<T>(store: &mut SqliteStore, work: impl FnOnce(&mut SqliteStore) -> T) -> (u64, T) {
    let before = store.statement_counters().vm_steps;
    let value = work(store);
    (store.statement_counters().vm_steps - before, value)
}

/// Steps of a tick, of ten claims, and of ten round trips, next to so many suspended executions,
/// every second of which times out later, and one that is delayed, so that there is something to
/// come in any case.
fn steps_beside(suspended: i64) -> [u64; 3] {
    let mut store = in_memory();
    commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let mut delayed = queue.waiting(tx.new_row().unwrap());
        let (until, cause, then) = (at(2 * NOW), DelayCause::Start, Ready::Waiting);
        delayed.state = State::Delayed(Timer { until, cause, then });
        tx.insert(&delayed, &Payload::default(), None).unwrap();
        for number in 0..suspended {
            add_suspended(tx, queue, (number % 2 == 0).then(|| at(2 * NOW + number)));
        }
        for _ in 0..22 {
            queue.submit(tx);
        }
    });
    // The first ones set up what comes back again and again.
    while apply(&mut store, Tick::default()).more {}
    claim(&mut store);
    round_trip(&mut store);
    let (ticked, answer) = steps_of(&mut store, |store| apply(store, Tick::default()));
    assert_eq!(answer.done, 0);
    let claimed = steps_of(&mut store, |store| [(); 10].map(|()| claim(store))).0;
    let tripped = steps_of(&mut store, |store| [(); 10].map(|()| round_trip(store))).0;
    assert_eq!(store.statement_counters().reprepares, 0);
    [ticked, claimed, tripped]
}

#[test]
fn ten_thousand_suspended_executions_add_no_step_to_a_tick_a_claim_or_a_signal() {
    assert_eq!(steps_beside(10_000), steps_beside(0));
}

/// A store with one execution that has so many signals, waitpoints, suspensions and steps, of which
/// ten each are open or kept, beside some others.
fn with_mail(count: u32) -> (SqliteStore, Queue, RowId) {
    let mut store = in_memory();
    let (queue, row) = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        tx.put_signing_key(&signing_key(queue.namespace, "k1")).unwrap();
        add_suspended(tx, queue, None);
        let row = tx.new_row().unwrap();
        let mut execution = queue.waiting(row);
        execution.beside = Beside { mail: true, steps: true, ..Default::default() };
        tx.insert(&execution, &Payload::default(), None).unwrap();
        for number in 1..=count {
            let last = number + 10 > count;
            let key = Some(format!("key{number}"));
            tx.add_suspension(&Suspension { key, ..suspension(row, number) }).unwrap();
            let mut waitpoint = waitpoint(queue.namespace, row, number);
            if !last {
                waitpoint.state = WaitpointState::Closed { at: at(9), why: CloseReason::Resumed };
            }
            tx.add_waitpoint(&waitpoint).unwrap();
            let key = Some(format!("key{number}"));
            let signal = Signal { key, ..signal(row, number) };
            let signal = if last { signal } else { taken(signal, number % 20) };
            tx.add_signal(&signal, &payload(1)).unwrap();
            let name = format!("s{number}");
            tx.add_step(&Step { name, ..step(row, number) }, &payload(1)).unwrap();
        }
        (queue, row)
    });
    commit(&mut store, |tx| {
        add_suspended(tx, queue, None);
    });
    (store, queue, row)
}

/// What is done to an execution whose last waitpoint, signal, suspension and step have a number;
/// says how much it found or did.
type Work = fn(&mut dyn Tx, Queue, RowId, u32) -> usize;

const WORK: &[(&str, Work)] = &[
    ("suspension", |tx, _, row, n| tx.suspension(row, Some(n / 2)).unwrap().iter().count()),
    ("last suspension", |tx, _, row, _| tx.suspension(row, None).unwrap().iter().count()),
    ("suspension_by_key", |tx, _, row, n| {
        tx.suspension_by_key(row, 1, &format!("key{}", n / 2)).unwrap().iter().count()
    }),
    ("suspensions", |tx, _, row, n| tx.suspensions(row, n / 2, 5).unwrap().len()),
    ("waitpoint", |tx, _, row, n| {
        tx.waitpoint(row, waitpoint_id(row, n / 2)).unwrap().iter().count()
    }),
    ("open_waitpoints", |tx, _, row, _| tx.open_waitpoints(row).unwrap().len()),
    ("last_waitpoint", |tx, _, row, n| (tx.last_waitpoint(row).unwrap() / n) as usize),
    ("waitpoints", |tx, _, row, n| tx.waitpoints(row, n / 2, 5).unwrap().len()),
    ("inbox", |tx, queue, row, n| {
        let after = waitpoint_id(row, n - 2);
        tx.inbox(queue.namespace, None, Some(after), 5).unwrap().len()
    }),
    ("inbox of a key", |tx, queue, _, n| {
        tx.inbox(queue.namespace, Some(&format!("w{n}")), None, 5).unwrap().len()
    }),
    ("count_signed", |tx, queue, _, _| tx.count_signed(queue.namespace, "k1").unwrap() as usize),
    ("last_signal", |tx, _, row, n| (tx.last_signal(row).unwrap() / n) as usize),
    ("signal_by_key", |tx, _, row, n| {
        tx.signal_by_key(row, &format!("key{}", n / 2)).unwrap().iter().count()
    }),
    ("no signal_by_key", |tx, _, row, _| 1 + tx.signal_by_key(row, "none").unwrap().iter().count()),
    ("kept_signals", |tx, _, row, _| tx.kept_signals(row, 1).unwrap().len()),
    ("taken_signals", |tx, _, row, n| tx.taken_signals(row, 3, n / 2, 2).unwrap().len()),
    ("signals", |tx, _, row, n| tx.signals(row, n / 2, 5).unwrap().len()),
    ("signal_payloads", |tx, _, row, n| tx.signal_payloads(row, &[n / 2, n]).unwrap().len()),
    ("step", |tx, _, row, n| tx.step(row, &format!("s{}", n / 2), 0).unwrap().iter().count()),
    ("last_step", |tx, _, row, n| (tx.last_step(row).unwrap() / n) as usize),
    ("steps", |tx, _, row, n| tx.steps(row, n / 2, 5).unwrap().len()),
    ("step_results", |tx, _, row, n| tx.step_results(row, &[n / 2, n]).unwrap().len()),
    ("signing_keys", |tx, queue, _, _| tx.signing_keys(queue.namespace).unwrap().len()),
    ("add_suspension", |tx, _, row, n| {
        let key = Some("new".to_owned());
        done(tx.add_suspension(&Suspension { key, ..suspension(row, n + 1) }))
    }),
    ("save_suspension", |tx, _, row, n| done(tx.save_suspension(&over(&suspension(row, n))))),
    ("add_waitpoint", |tx, queue, row, n| {
        done(tx.add_waitpoint(&waitpoint(queue.namespace, row, n + 1)))
    }),
    ("save_waitpoint that stays open", |tx, queue, row, n| {
        let state = WaitpointState::Active { suspension: 1, since: at(5) };
        done(tx.save_waitpoint(&Waitpoint { state, ..waitpoint(queue.namespace, row, n) }))
    }),
    ("save_waitpoint that closes", |tx, queue, row, n| {
        let state = WaitpointState::Closed { at: at(9), why: CloseReason::Satisfied };
        done(tx.save_waitpoint(&Waitpoint { state, ..waitpoint(queue.namespace, row, n) }))
    }),
    ("add_signal", |tx, _, row, n| {
        let key = Some("new".to_owned());
        let signal = Signal { key, ..taken(signal(row, n + 1), n) };
        done(tx.add_signal(&signal, &payload(2)))
    }),
    ("save_signal", |tx, _, row, n| done(tx.save_signal(&taken(signal(row, n), 7)))),
    ("add_step", |tx, _, row, n| {
        let name = "new".to_owned();
        done(tx.add_step(&Step { name, ..step(row, n + 1) }, &payload(2)))
    }),
    ("drop_steps", |tx, _, row, n| done(tx.drop_steps(row, n - 2))),
    ("put_signing_key", |tx, queue, _, _| {
        done(tx.put_signing_key(&signing_key(queue.namespace, "k1")))
    }),
];

fn done(result: everloom_core::Result<()>) -> usize {
    result.map(|()| 1).unwrap()
}

#[test]
fn delivering_and_asking_cost_the_same_beside_a_hundred_signals_and_beside_ten_thousand() {
    let (mut few, mut many) = (with_mail(100), with_mail(10_000));
    for (name, work) in WORK {
        let steps = |(store, queue, row): &mut (SqliteStore, Queue, RowId), count: u32| {
            let (steps, found) = steps_of(store, |store| {
                // Dropped, so that the rows stay as they are.
                work(&mut *store.begin().unwrap(), *queue, *row, count)
            });
            assert!(found > 0, "{name} finds nothing");
            steps
        };
        assert_eq!(steps(&mut many, 10_000), steps(&mut few, 100), "{name}");
    }
    assert_eq!(many.0.statement_counters().reprepares, 0);
}

#[test]
fn an_execution_that_never_waited_is_removed_without_a_look_at_what_lies_beside_others() {
    let (mut store, queue, _) = with_mail(20);
    let remove = |store: &mut SqliteStore, beside: Beside| {
        let execution = commit(store, |tx| {
            let execution = Execution { beside, ..queue.waiting(tx.new_row().unwrap()) };
            tx.insert(&execution, &Payload::default(), None).unwrap();
            execution
        });
        steps_of(store, |store| commit(store, |tx| tx.remove(&execution).unwrap())).0
    };
    let ordinary = remove(&mut store, Beside::default());
    let mail = remove(&mut store, Beside { mail: true, ..Default::default() });
    let steps = remove(&mut store, Beside { steps: true, ..Default::default() });
    assert!(ordinary < mail && ordinary < steps, "{ordinary}, {mail} and {steps} steps");
}

#[test]
fn a_waitpoint_that_stays_open_costs_no_index_a_write() {
    let (mut store, queue, row) = with_mail(20);
    let mut save = |state: WaitpointState| {
        let waitpoint = Waitpoint { state, ..waitpoint(queue.namespace, row, 20) };
        steps_of(&mut store, |store| commit(store, |tx| tx.save_waitpoint(&waitpoint).unwrap())).0
    };
    save(WaitpointState::Pending);
    let open = save(WaitpointState::Active { suspension: 1, since: at(5) });
    let closed = save(WaitpointState::Closed { at: at(9), why: CloseReason::Ended });
    assert!(open < closed, "{open} steps instead of less than {closed}");
}
