use super::*;
use crate::chore::{Chore, ChoreKind};
use crate::model::{ChoreId, Cursor, Key, KeyOf, Lane, LaneMode};
use crate::store::{EventScan, ListScan, Read};

const LATE: Timestamp = at(1_000_000);

/// Every answer the store gives about what the tests below write.
fn answers(read: &mut dyn Read) -> String {
    let mut said = Vec::new();
    let mut say = |answer: &dyn std::fmt::Debug| said.push(format!("{answer:?}"));
    say(&read.last_now());
    say(&read.namespaces(None, 9));
    say(&read.namespace("added"));
    for namespace in [SPACE, NamespaceId(2)] {
        say(&read.lanes(namespace, None, 9));
        say(&read.lane(namespace, "added"));
        say(&read.routes(namespace).unwrap().routes());
        say(&read.counts(namespace, None));
        say(&read.find(namespace, &[1, 2, 3, 4, 5].map(id)));
        say(&read.keys(namespace, &["kept", "added"]));
        say(&read.workers(namespace, None, 9));
        say(&read.owned_by(namespace, "w", LATE, 9));
        say(&read.expired_leases(namespace, LATE, None, 9));
        let all = ListScan { namespace, ..ListScan::default() };
        say(&read.list(&all, None, 9, 9));
    }
    for lane in [LANE, OTHER_LANE] {
        say(&read.claimable(lane, &ROUTES, 9));
        say(&read.oldest_ready(lane));
        say(&read.count_owned(lane));
    }
    say(&(read.due(LATE, 9), read.retired(LATE, 9), read.next_due()));
    for row in [1, 2, 3, 4, 5].map(RowId) {
        say(&(read.inputs(&[row]), read.fingerprint(row), read.result(row)));
        say(&read.past_leases(row, Epoch(0), 9));
        let about = EventScan { row: Some(row), ..EventScan::default() };
        say(&read.events(Cursor(0), &about, 9, 9));
    }
    say(&read.events(Cursor(0), &EventScan::default(), 9, 9));
    say(&read.event_span());
    say(&(read.lapsed_workers(LATE, 9), read.chores(LATE, 9)));
    say(&read.find_chore(&ChoreKind::Retention));
    said.join("\n")
}

fn key(name: &str, expires_at: Option<Timestamp>) -> Key {
    let of = KeyOf::Execution(id(1));
    Key { namespace: SPACE, key: name.into(), of, fingerprint: [1; 16], expires_at }
}

/// A store with a row of every sort.
fn full_store() -> MemoryStore {
    let mut store = empty_store();
    change(&mut store, |tx| {
        insert(tx, State::Waiting, |_| ());
        insert(tx, leased("w", at(2000)), |_| ());
        insert(tx, failed("no"), |_| ());
        tx.put_result(RowId(3), &Payload::bytes(*b"result")).unwrap();
        tx.add_past_lease(&past_lease(3, 1)).unwrap();
        tx.put_key(&key("kept", Some(at(2000)))).unwrap();
        tx.put_worker(&worker("w")).unwrap();
        tx.add_chore(&ChoreKind::Retention, at(3000)).unwrap();
        for row in [None, Some(1), Some(3)] {
            tx.add_event(&event(EventKind::Submitted, NOW, row)).unwrap();
        }
    });
    store
}

/// Writes in a transaction that is dropped, and compares all that can be asked.
fn leaves_no_trace(name: &str, write: impl FnOnce(&mut dyn Tx)) {
    let mut store = full_store();
    let before = answers(&mut *store.read().unwrap());
    let indexes_before = format!("{:?}", store.tables.index);
    let mut tx = store.begin().unwrap();
    write(&mut *tx);
    assert_ne!(answers(&mut *tx), before, "{name} is seen by what follows");
    drop(tx);
    assert_eq!(answers(&mut *store.read().unwrap()), before, "{name} is gone");
    assert_eq!(format!("{:?}", store.tables.index), indexes_before, "{name} left an index entry");
}

#[test]
fn dropped_names_leave_no_trace() {
    let lane = Lane {
        mode: LaneMode::Paused,
        max_active: Some(3),
        active: 1,
        ..Lane::new(LANE, SPACE, "lane")
    };
    let defaults = Defaults { priority: Some(3), ..Defaults::default() };
    leaves_no_trace("a new namespace", |tx| {
        tx.put_namespace("added", &defaults).unwrap();
    });
    leaves_no_trace("new defaults", |tx| {
        tx.put_namespace("space", &defaults).unwrap();
    });
    leaves_no_trace("a new lane", |tx| {
        tx.add_lane(SPACE, "added").unwrap();
    });
    leaves_no_trace("a changed lane", |tx| tx.save_lane(&lane).unwrap());
    leaves_no_trace("a route", |tx| {
        tx.add_route(SPACE, "mail", &["gpu".into()]).unwrap();
    });
}

#[test]
fn dropped_changes_of_executions_leave_no_trace() {
    let waiting = execution(1, State::Waiting);
    let active = Execution { state: leased("w", at(5000)), ..waiting.clone() };
    let held = Execution { held: true, ..waiting.clone() };
    let urgent = Execution { priority: 9000, ..waiting.clone() };
    let tagged = Execution { tags: tags("team", "a"), ..waiting.clone() };
    let ended = execution(3, failed("no"));
    leaves_no_trace("a submission", |tx| drop(insert(tx, State::Waiting, |_| ())));
    leaves_no_trace("a claim", |tx| tx.save(&active).unwrap());
    leaves_no_trace("a hold", |tx| tx.save(&held).unwrap());
    leaves_no_trace("a priority", |tx| tx.save(&urgent).unwrap());
    leaves_no_trace("tags", |tx| tx.save_tags(&tagged).unwrap());
    leaves_no_trace("an end", |tx| tx.save(&execution(1, failed("no"))).unwrap());
    leaves_no_trace("a removal", |tx| tx.remove(&ended).unwrap());
    leaves_no_trace("a life", |tx| {
        let mut born = insert(tx, State::Waiting, |_| ());
        for state in [leased("w", at(5000)), delayed(at(6000)), failed("no")] {
            born.state = state;
            tx.save(&born).unwrap();
        }
        tx.remove(&born).unwrap();
        tx.remove(&ended).unwrap();
    });
}

#[test]
fn dropped_rows_beside_an_execution_leave_no_trace() {
    let result = Payload::bytes(*b"new");
    leaves_no_trace("a result", |tx| tx.put_result(RowId(1), &result).unwrap());
    leaves_no_trace("another result", |tx| tx.put_result(RowId(3), &result).unwrap());
    leaves_no_trace("no result", |tx| tx.drop_result(RowId(3)).unwrap());
    leaves_no_trace("an ended lease", |tx| tx.add_past_lease(&past_lease(3, 2)).unwrap());
    leaves_no_trace("a key", |tx| tx.put_key(&key("added", None)).unwrap());
    leaves_no_trace("a key without end", |tx| tx.put_key(&key("kept", None)).unwrap());
    leaves_no_trace("a dropped key", |tx| tx.drop_key(SPACE, "kept").unwrap());
    leaves_no_trace("trimmed keys", |tx| assert_eq!(tx.trim_keys(LATE, 9).unwrap(), 1));
}

#[test]
fn dropped_events_leave_no_trace() {
    let happened = event(EventKind::Failed, NOW, Some(2));
    leaves_no_trace("an event", |tx| tx.add_event(&happened).unwrap());
    leaves_no_trace("trimmed events", |tx| assert_eq!(tx.trim_events(LATE, 9).unwrap(), 2));
    leaves_no_trace("an event trimmed at once", |tx| {
        tx.add_event(&happened).unwrap();
        tx.add_event(&happened).unwrap();
        assert_eq!(tx.trim_events(LATE, 9).unwrap(), 4);
    });
}

#[test]
fn dropped_workers_and_chores_leave_no_trace() {
    let seen = WorkerRow { seen_at: at(5), ..worker("w") };
    let later = Chore { id: ChoreId(1), kind: ChoreKind::Retention, due_at: at(9) };
    leaves_no_trace("a worker", |tx| tx.put_worker(&worker("new")).unwrap());
    leaves_no_trace("a heartbeat", |tx| tx.put_worker(&seen).unwrap());
    leaves_no_trace("a dead worker", |tx| tx.drop_worker(SPACE, "w").unwrap());
    leaves_no_trace("a chore", |tx| {
        tx.add_chore(&ChoreKind::Retention, at(5)).unwrap();
    });
    leaves_no_trace("a slice of a chore", |tx| tx.save_chore(&later).unwrap());
    leaves_no_trace("a done chore", |tx| tx.drop_chore(ChoreId(1)).unwrap());
}

#[test]
fn a_rule_that_panics_leaves_no_trace() {
    let mut store = full_store();
    let before = answers(&mut *store.read().unwrap());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut tx = store.begin().unwrap();
        insert(&mut *tx, State::Waiting, |_| ());
        panic!("on purpose");
    }));
    assert!(outcome.is_err());
    assert_eq!(answers(&mut *store.read().unwrap()), before);
}
