//! What lies beside an execution that waits: every question, asked of this store and of the
//! in-memory one over the same rows, and what is kept, changed and removed.

mod common;

use common::mail::{
    add_suspended, over, payload, signal, signing_key, step, suspended, suspension, taken,
    waitpoint, waitpoint_id,
};
use common::{Queue, at, both, commit, in_file, in_memory, row_counts, same};
use everloom_core::{
    Approval, Beside, CloseReason, EndedBy, Fingerprint, KeyState, LaneId, ListScan, NamespaceId,
    Payload, RouteId, RowId, Signal, SignalFacts, SigningKey, SigningSecret, Source, Status, Store,
    Suspension, SuspensionCourse, SuspensionEnd, Tally, TokenTrace, Transaction, Waitpoint,
    WaitpointId, WaitpointState,
};
use rusqlite::Connection;
use uuid::Uuid;

const FIRST: NamespaceId = NamespaceId(1);
const OTHER: NamespaceId = NamespaceId(2);

/// Four suspended executions and one that waits, in two namespaces, with all that can lie beside
/// them; the fourth is removed again.
fn fill(tx: &mut dyn Transaction) {
    let queue = Queue::add(tx);
    tx.put_namespace("other", &Default::default()).unwrap();
    for number in 1..=4 {
        let row = tx.new_row().unwrap();
        let mut execution = suspended(queue, row, (number % 2 == 0).then(|| at(100 + number)));
        execution.namespace = if number == 3 { OTHER } else { FIRST };
        execution.beside.steps = true;
        tx.insert(&execution, &Payload::default(), None).unwrap();
        fill_suspensions(tx, row);
        fill_waitpoints(tx, execution.namespace, row);
        fill_signals(tx, row);
        fill_steps(tx, row);
        if number == 4 {
            tx.remove(&execution).unwrap();
        }
    }
    queue.submit(tx);
    for (namespace, kid) in [(FIRST, "k2"), (FIRST, "k1"), (OTHER, "k1"), (FIRST, "k3")] {
        tx.put_signing_key(&signing_key(namespace, kid)).unwrap();
    }
    let retiring = KeyState::Retiring { since: at(3), until: Some(at(9)) };
    tx.put_signing_key(&SigningKey { state: retiring, ..signing_key(FIRST, "k2") }).unwrap();
    let revoked = KeyState::Revoked { since: at(4) };
    let key = SigningKey { state: revoked, secret: None, ..signing_key(FIRST, "k3") };
    tx.put_signing_key(&key).unwrap();
}

fn fill_suspensions(tx: &mut dyn Transaction, row: RowId) {
    for number in 1..=5 {
        let run = if number < 4 { 1 } else { 2 };
        let key = (number % 2 == 0).then(|| "wait".to_owned());
        let mut suspension = Suspension { run, key, ..suspension(row, number) };
        tx.add_suspension(&suspension).unwrap();
        let by = EndedBy::Operator { by: "ops".into(), reason: None };
        suspension.course = SuspensionCourse {
            tally: Tally::Parts(vec![Tally::Seen(true), Tally::Times(number)]),
            escalated_at: (number > 2).then(|| at(6)),
            end: (number > 3).then_some(SuspensionEnd { at: at(8), by }),
        };
        tx.save_suspension(&suspension).unwrap();
    }
}

fn fill_waitpoints(tx: &mut dyn Transaction, namespace: NamespaceId, row: RowId) {
    for seq in 1..=8 {
        let mut waitpoint = waitpoint(namespace, row, seq);
        waitpoint.expires_at = (seq % 3 == 0).then(|| at(50));
        if seq == 8 {
            waitpoint.state = WaitpointState::Closed { at: at(5), why: CloseReason::Expired };
        }
        tx.add_waitpoint(&waitpoint).unwrap();
        let closed = |why| WaitpointState::Closed { at: at(9), why };
        waitpoint.state = match seq {
            2 | 3 => WaitpointState::Active { suspension: 1, since: at(5) },
            4 => closed(CloseReason::Satisfied),
            5 => closed(CloseReason::ByHand { by: "ops".into(), reason: Some("no".into()) }),
            _ => continue,
        };
        waitpoint.kid = "k2".into();
        waitpoint.fingerprint = Fingerprint([9; 8]);
        tx.save_waitpoint(&waitpoint).unwrap();
        if seq == 3 {
            waitpoint.state = closed(CloseReason::TimedOut);
            tx.save_waitpoint(&waitpoint).unwrap();
        }
    }
}

fn fill_signals(tx: &mut dyn Transaction, row: RowId) {
    for seq in 1..=9 {
        let mut signal = Signal {
            run: if seq < 6 { 1 } else { 2 },
            key: (seq % 3 == 0).then(|| format!("key{seq}")),
            waitpoint: (seq % 2 == 0).then(|| waitpoint_id(row, seq)),
            ..signal(row, seq)
        };
        if seq == 4 {
            signal.facts = SignalFacts {
                waitpoint: Some("w4".into()),
                correlation: Some("order 7".into()),
                token: Some(TokenTrace { kid: "k1".into(), fingerprint: Fingerprint([1; 8]) }),
                approval: Some(Approval {
                    approved: true,
                    comment: Some("fine".into()),
                    roles: vec!["boss".into()],
                }),
                ..signal.facts
            };
        }
        if seq > 7 {
            signal = taken(signal, 2);
        }
        tx.add_signal(&signal, &payload(seq)).unwrap();
        if seq % 4 == 1 {
            tx.save_signal(&taken(signal, 1 + seq % 3)).unwrap();
        }
    }
}

fn fill_steps(tx: &mut dyn Transaction, row: RowId) {
    for seq in 1..=9 {
        tx.add_step(&step(row, seq), &payload(seq + 1)).unwrap();
    }
    tx.drop_steps(row, 7).unwrap();
    tx.add_step(&step(row, 7), &payload(2)).unwrap();
}

#[test]
fn suspensions_and_waitpoints_are_found() {
    let stores = &mut both(fill);
    for row in (0..=6).map(RowId) {
        same(stores, |read| read.suspension(row, None));
        same(stores, |read| read.last_waitpoint(row));
        same(stores, |read| read.open_waitpoints(row));
        for number in 0..=9 {
            same(stores, |read| read.suspension(row, Some(number)));
            same(stores, |read| read.suspension_by_key(row, number, "wait"));
            same(stores, |read| read.suspension_by_key(row, number, "none"));
            same(stores, |read| read.waitpoint(row, waitpoint_id(row, number)));
            same(stores, |read| read.waitpoint(row, waitpoint_id(RowId(1), number)));
            for limit in [1, 2, 100] {
                same(stores, |read| read.suspensions(row, number, limit));
                same(stores, |read| read.waitpoints(row, number, limit));
            }
        }
    }
    let first = stores.0.begin().unwrap().inbox(FIRST, None, None, 3).unwrap();
    assert_eq!(first.len(), 3);
    for namespace in [FIRST, OTHER, NamespaceId(3)] {
        for kid in ["k1", "k2", "none"] {
            same(stores, |read| read.count_signed(namespace, kid));
        }
        for after in [None, Some(first[2].id), Some(WaitpointId(Uuid::max()))] {
            for key in [None, Some("w2"), Some("w4"), Some("none")] {
                for limit in [1, 100] {
                    same(stores, |read| read.inbox(namespace, key, after, limit));
                }
            }
        }
    }
}

#[test]
fn signals_steps_and_signing_keys_are_found() {
    let stores = &mut both(fill);
    for row in (0..=6).map(RowId) {
        same(stores, |read| read.last_signal(row));
        same(stores, |read| read.last_step(row));
        for number in 0..=10 {
            same(stores, |read| read.signal_by_key(row, &format!("key{number}")));
            same(stores, |read| read.kept_signals(row, number));
            for limit in [1, 2, 100] {
                same(stores, |read| read.signals(row, number, limit));
                same(stores, |read| read.taken_signals(row, 2, number, limit));
                same(stores, |read| read.taken_signals(row, number, 0, limit));
                same(stores, |read| read.steps(row, number, limit));
            }
            for occurrence in 0..=2 {
                same(stores, |read| read.step(row, &format!("s{number}"), occurrence));
            }
        }
    }
    for namespace in [FIRST, OTHER, NamespaceId(3)] {
        same(stores, |read| read.signing_keys(namespace));
    }
}

/// What is said of a payload or a secret does not show its bytes.
#[test]
fn payloads_and_secrets_come_back_byte_by_byte() {
    let stores = &mut both(fill);
    for read in [&mut *stores.0.read().unwrap(), &mut *stores.1.read().unwrap()] {
        for row in (1..=3).map(RowId) {
            let all: Vec<u32> = (1..=9).rev().chain([2, 2]).collect();
            let expected: Vec<_> = all.iter().map(|seq| payload(*seq)).collect();
            assert_eq!(read.signal_payloads(row, &all).unwrap(), expected);
            let steps = [7, 2, 6, 1, 3, 4, 5];
            let expected = [2, 3, 7, 2, 4, 5, 6].map(payload);
            assert_eq!(read.step_results(row, &steps).unwrap(), expected);
            assert!(read.signal_payloads(row, &[1, 10]).is_err());
            assert!(read.step_results(row, &[8]).is_err());
            assert_eq!(read.step_results(row, &[]).unwrap(), []);
        }
        assert!(read.signal_payloads(RowId(4), &[1]).is_err());
        let secrets: Vec<_> =
            read.signing_keys(FIRST).unwrap().into_iter().map(|key| key.secret).collect();
        let secret = Some(SigningSecret::new([3; 32]));
        assert_eq!(secrets, [secret.clone(), secret, None]);
    }
}

#[test]
fn a_payload_of_a_megabyte_comes_back_and_stays_when_its_signal_is_taken() {
    let mut store = in_memory();
    commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let row = add_suspended(tx, queue, None);
        let bytes: Vec<u8> = (0..1 << 20).map(|number: u32| number.to_le_bytes()[1]).collect();
        let large = Payload { content_type: "image/png".into(), bytes };
        tx.add_signal(&signal(row, 2), &large).unwrap();
        tx.add_step(&step(row, 1), &large).unwrap();
        tx.save_signal(&taken(signal(row, 2), 1)).unwrap();
        let expected = [large.clone(), payload(1)];
        assert_eq!(tx.signal_payloads(row, &[2, 1]).unwrap(), expected);
        assert_eq!(tx.step_results(row, &[1]).unwrap(), [large]);
    });
}

#[test]
fn suspended_executions_are_neither_claimable_nor_owned_and_due_when_they_time_out() {
    let stores = &mut both(fill);
    for time in [99, 102, 103, 104, 500] {
        same(stores, |read| read.due(at(time), 9));
        same(stores, |read| read.expired_leases(FIRST, at(time), None, 9));
    }
    same(stores, |read| read.next_due());
    same(stores, |read| read.claimable(LaneId(1), &[RouteId(1)], 9));
    same(stores, |read| read.count_owned(LaneId(1)));
    same(stores, |read| read.counts(FIRST, None));
    for row in (1..=5).map(RowId) {
        same(stores, |read| read.execution(row));
    }
    let statuses = vec![Status::Suspended];
    let filter = ListScan { namespace: FIRST, statuses, ..Default::default() };
    same(stores, |read| read.list(&filter, None, 9, 99));
    assert_eq!(stores.1.read().unwrap().due(at(102), 9).unwrap().len(), 1);
}

#[test]
fn what_is_fixed_of_a_suspension_a_waitpoint_and_a_signal_is_not_changed_by_saving_it() {
    let mut store = in_memory();
    commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let row = add_suspended(tx, queue, None);
        let kept = tx.suspension(row, Some(1)).unwrap().unwrap();
        let mut other = over(&kept);
        (other.run, other.key, other.terms.note) = (7, Some("key".into()), None);
        tx.save_suspension(&other).unwrap();
        let expected = Suspension { course: other.course.clone(), ..kept };
        assert_eq!(tx.suspension(row, None).unwrap(), Some(expected));

        let kept = tx.open_waitpoints(row).unwrap().remove(0);
        let other = Waitpoint {
            id: waitpoint_id(row, 7),
            key: "other".into(),
            kid: "k7".into(),
            created_at: at(99),
            expires_at: Some(at(99)),
            state: WaitpointState::Pending,
            borne: 3,
            ..kept.clone()
        };
        tx.save_waitpoint(&other).unwrap();
        let expected = Waitpoint { kid: other.kid, state: other.state, borne: 3, ..kept };
        assert_eq!(tx.open_waitpoints(row).unwrap(), [expected]);

        let kept = tx.signals(row, 0, 9).unwrap().remove(0);
        let other = Signal { run: 7, key: Some("key".into()), ..taken(kept.clone(), 5) };
        tx.save_signal(&other).unwrap();
        assert_eq!(tx.signals(row, 0, 9).unwrap(), [taken(kept, 5)]);
    });
}

#[test]
fn a_waitpoint_leaves_and_enters_the_open_ones_as_its_state_says() {
    let mut store = in_memory();
    commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let row = add_suspended(tx, queue, None);
        let open = tx.open_waitpoints(row).unwrap().remove(0);
        let state = WaitpointState::Closed { at: at(9), why: CloseReason::Ended };
        for (state, expected) in [(state, 0), (WaitpointState::Pending, 1)] {
            tx.save_waitpoint(&Waitpoint { state, ..open.clone() }).unwrap();
            assert_eq!(tx.open_waitpoints(row).unwrap().len(), expected);
            assert_eq!(tx.inbox(queue.namespace, None, None, 9).unwrap().len(), expected);
            assert_eq!(tx.count_signed(queue.namespace, "k1").unwrap(), expected as u64);
        }
    });
}

#[test]
fn nothing_is_saved_that_was_never_added_and_nothing_is_added_twice() {
    let mut store = in_memory();
    let (queue, row) = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        (queue, add_suspended(tx, queue, None))
    });
    let mut tx = store.begin().unwrap();
    assert!(tx.save_suspension(&suspension(row, 2)).is_err());
    assert!(tx.save_waitpoint(&waitpoint(queue.namespace, row, 2)).is_err());
    assert!(tx.save_signal(&signal(row, 2)).is_err());
    assert!(tx.add_suspension(&suspension(row, 1)).is_err());
    assert!(tx.add_waitpoint(&waitpoint(queue.namespace, row, 1)).is_err());
    assert!(tx.add_signal(&signal(row, 1), &payload(0)).is_err());
}

#[test]
fn an_execution_that_is_removed_leaves_nothing_behind_and_others_keep_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    commit(&mut store, fill);
    let before = row_counts(&path);
    let execution = commit(&mut store, |tx| {
        let queue = Queue { namespace: FIRST, lane: LaneId(1), route: RouteId(1) };
        let mut execution = suspended(queue, tx.new_row().unwrap(), None);
        execution.beside = Beside { children: true, mail: true, steps: true, ..Default::default() };
        let row = execution.row;
        tx.insert(&execution, &Payload::bytes(*b"input"), None).unwrap();
        fill_suspensions(tx, row);
        fill_waitpoints(tx, FIRST, row);
        fill_signals(tx, row);
        fill_steps(tx, row);
        execution
    });
    let full = row_counts(&path);
    for table in ["suspensions", "waitpoints", "signals", "steps", "payloads"] {
        assert!(full[table] > before[table], "{table}");
    }
    commit(&mut store, |tx| tx.remove(&execution).unwrap());
    assert_eq!(row_counts(&path), before);
    assert_eq!(store.read().unwrap().signal_payloads(RowId(1), &[2]).unwrap(), [payload(2)]);
}

#[test]
fn dropped_steps_leave_no_results_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    let row = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        add_suspended(tx, queue, None)
    });
    let before = row_counts(&path);
    commit(&mut store, |tx| {
        fill_steps(tx, row);
        tx.drop_steps(row, 2).unwrap();
        assert_eq!(tx.steps(row, 0, 9).unwrap(), [step(row, 1)]);
        assert_eq!(tx.last_step(row).unwrap(), 1);
        tx.drop_steps(row, 0).unwrap();
    });
    assert_eq!(row_counts(&path), before);
}

#[test]
fn the_database_itself_refuses_what_contradicts_itself_beside_an_execution() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    commit(&mut store, fill);
    let conn = Connection::open(&path).unwrap();
    for change in [
        "suspensions SET key = 'wait', run = 1",
        "suspensions SET terms = NULL",
        "waitpoints SET uuid = x'00'",
        "waitpoints SET uuid = zeroblob(16)",
        "waitpoints SET fingerprint = zeroblob(9)",
        "waitpoints SET open = 2",
        "signals SET uuid = x'00'",
        "signals SET waitpoint = x'00'",
        "signals SET key = 'key3'",
        "signals SET suspension = NULL WHERE suspension = 1",
        "signals SET counted = 2 WHERE suspension = 1",
        "steps SET name = 's1', occurrence = 0",
        "signing_keys SET secret = zeroblob(31)",
        "payloads SET bytes = NULL",
    ] {
        assert!(conn.execute(&format!("UPDATE {change}"), []).is_err(), "{change}");
    }
}
