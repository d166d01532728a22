//! What limits work: what is kept, changed and removed.

mod common;

use common::limits::{add_limited, budget, open_use, quota};
use common::{Queue, at, both, commit, in_file, in_memory, row_counts, same};
use everloom_core::{
    FlowId, Gate, GateRow, Key, KeyOf, LaneId, Limit, LimitRow, LimitSort, NamespaceId, Passage,
    Payload, RouteId, RowId, Source, Status, Store, Transaction, Turn,
};
use rusqlite::Connection;
use uuid::Uuid;

const QUEUE: Queue = Queue { namespace: NamespaceId(1), lane: LaneId(1), route: RouteId(1) };

#[test]
fn only_whole_passages_are_dropped() {
    for through in 0..=8 {
        let stores = &mut both(|tx| {
            for (first, last) in [(1, 2), (3, 3), (4, 7)] {
                tx.put_passage(GateRow(1), &Passage { first, last, at: at(first as i64) }).unwrap();
            }
            tx.drop_passages(GateRow(1), through).unwrap();
        });
        for number in 0..=8 {
            same(stores, |read| read.passage(GateRow(1), number));
        }
    }
}

#[test]
fn turns_that_are_over_are_dropped_oldest_first() {
    for before in 0..=6 {
        for limit in 0..=4 {
            let stores = &mut both(|tx| {
                for (key, next) in [("a", 5), ("b", 1), ("c", 3), ("d", 1)] {
                    let (lane, key) = (LaneId(1), key.to_owned());
                    tx.put_turn(&Turn { lane, priority: 0, key, next }).unwrap();
                }
                tx.drop_turns(LaneId(1), 0, before, limit).unwrap();
            });
            for key in ["a", "b", "c", "d"] {
                same(stores, |read| read.turn(LaneId(1), 0, key));
            }
        }
    }
}

#[test]
fn a_limit_has_only_its_last_name_and_no_row_is_given_out_again() {
    let mut store = in_memory();
    commit(&mut store, |tx| {
        Queue::add(tx);
        let limit = budget(tx.new_limit_row().unwrap(), QUEUE.namespace, "old");
        tx.put_limit(&limit).unwrap();
        tx.put_limit(&Limit { name: "new".into(), ..limit.clone() }).unwrap();
        let named = |name| tx.limit(QUEUE.namespace, LimitSort::Budget, name).unwrap();
        assert_eq!(["old", "new"].map(named).map(|found| found.is_some()), [false, true]);
        let gate = tx.gate(QUEUE.namespace, limit.row, "").unwrap().row;
        tx.drop_limit(&limit).unwrap();
        assert!(tx.new_limit_row().unwrap() > limit.row);
        assert!(tx.gate(QUEUE.namespace, LimitRow::KEYS, "k").unwrap().row > gate);
    });
    commit(&mut store, |tx| {
        let row = tx.new_limit_row().unwrap();
        tx.put_limit(&budget(row, QUEUE.namespace, "b")).unwrap();
        let twice = tx.new_limit_row().unwrap();
        assert!(tx.put_limit(&budget(twice, QUEUE.namespace, "b")).is_err());
    });
}

#[test]
fn what_is_removed_leaves_nothing_behind_and_others_keep_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    let fill = |tx: &mut dyn Transaction, name: &str| {
        let limit = quota(tx.new_limit_row().unwrap(), QUEUE.namespace, name);
        tx.put_limit(&limit).unwrap();
        let gates = ["", "a"].map(|key| tx.gate(QUEUE.namespace, limit.row, key).unwrap());
        for gate in &gates {
            tx.put_passage(gate.row, &Passage { first: 1, last: 2, at: at(1) }).unwrap();
            tx.save_gate(&Gate { idle_at: Some(at(50)), ..gate.clone() }).unwrap();
        }
        let mut execution = QUEUE.waiting(tx.new_row().unwrap());
        execution.beside.limits = true;
        tx.insert(&execution, &Payload::default(), None).unwrap();
        tx.put_use(&open_use(execution.row, limit.row)).unwrap();
        tx.put_use(&open_use(execution.row, LimitRow(99))).unwrap();
        (limit, execution)
    };
    let (kept, under) = commit(&mut store, |tx| {
        Queue::add(tx);
        fill(tx, "kept")
    });
    let before = row_counts(&path);
    let (limit, execution) = commit(&mut store, |tx| fill(tx, "gone"));
    let full = row_counts(&path);
    for (table, more) in [("limits", 1), ("gates", 2), ("passages", 2), ("uses", 2)] {
        assert_eq!(full[table], before[table] + more, "{table}");
    }
    commit(&mut store, |tx| tx.drop_limit(&limit).unwrap());
    assert_eq!(row_counts(&path)["uses"], before["uses"] + 1);
    commit(&mut store, |tx| tx.remove(&execution).unwrap());
    assert_eq!(row_counts(&path), before);
    commit(&mut store, |tx| {
        assert_eq!(tx.uses(under.row).unwrap().len(), 2);
        assert_eq!(tx.gates(kept.row, None, 9).unwrap().len(), 2);
        assert_eq!(tx.trim_gates(at(49), 9).unwrap(), 0);
        assert_eq!(tx.trim_gates(at(50), 9).unwrap(), 2);
    });
    assert_eq!((row_counts(&path)["gates"], row_counts(&path)["passages"]), (0, 0));
}

#[test]
fn a_key_of_what_was_spent_has_no_id() {
    let spent = |key: &str| Key {
        namespace: QUEUE.namespace,
        key: key.into(),
        of: KeyOf::Spend,
        fingerprint: [3; 16],
        expires_at: Some(at(9)),
    };
    let stores = &mut both(|tx| {
        Queue::add(tx);
        tx.put_key(&spent("s")).unwrap();
        let of = KeyOf::Flow(FlowId(Uuid::from_u128(9)));
        tx.put_key(&Key { of, ..spent("f") }).unwrap();
    });
    same(stores, |read| read.keys(QUEUE.namespace, &["s", "f", "none"]));
    let keys = stores.1.read().unwrap().keys(QUEUE.namespace, &["s"]).unwrap();
    assert_eq!(keys, [Some(spent("s"))]);
}

#[test]
fn a_store_takes_note_of_limits_that_another_one_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let (mut here, mut there) = (in_file(&path), in_file(&path));
    let limit = commit(&mut here, |tx| {
        Queue::add(tx);
        let limit = budget(tx.new_limit_row().unwrap(), QUEUE.namespace, "b");
        tx.put_limit(&limit).unwrap();
        limit
    });
    let terms = quota(limit.row, limit.namespace, "").terms;
    commit(&mut there, |tx| {
        assert_eq!(*tx.limit_by_row(limit.row).unwrap(), limit);
        tx.put_limit(&Limit { terms: terms.clone(), ..limit.clone() }).unwrap();
    });
    commit(&mut here, |tx| {
        assert_eq!(tx.limit_by_row(limit.row).unwrap().terms, terms);
        assert_eq!(tx.limit(QUEUE.namespace, LimitSort::Budget, "b").unwrap(), None);
        tx.drop_limit(&limit).unwrap();
    });
    assert!(there.begin().unwrap().limit_by_row(limit.row).is_err());
}

#[test]
fn the_database_itself_refuses_what_contradicts_itself_in_limits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    commit(&mut store, |tx| {
        Queue::add(tx);
        for name in ["a", "b"] {
            let row = tx.new_limit_row().unwrap();
            tx.put_limit(&quota(row, QUEUE.namespace, name)).unwrap();
            let gate = tx.gate(QUEUE.namespace, row, name).unwrap().row;
            tx.put_passage(gate, &Passage { first: 1, last: 2, at: at(1) }).unwrap();
            let execution = add_limited(tx, QUEUE, gate);
            tx.put_use(&open_use(execution.row, row)).unwrap();
        }
        tx.put_key(&Key {
            namespace: QUEUE.namespace,
            key: "s".into(),
            of: KeyOf::Spend,
            fingerprint: [3; 16],
            expires_at: None,
        })
        .unwrap();
    });
    let status = store.read().unwrap().execution(RowId(1)).unwrap().unwrap().status();
    assert_eq!(status, Status::RateLimited);
    let conn = Connection::open(&path).unwrap();
    for change in [
        "executions SET gate = NULL",
        "executions SET state = 0",
        "executions SET detail = NULL",
        "executions SET until = 5",
        "executions SET worker = 'w'",
        "limits SET sort = 2",
        "limits SET name = 'a'",
        "limits SET id = 0 WHERE id = 1",
        "gates SET limit_id = 1, key = ''",
        "gates SET course = NULL",
        "passages SET first = last + 1",
        "uses SET open = 2",
        "keys SET execution = zeroblob(16), flow = zeroblob(16)",
    ] {
        assert!(conn.execute(&format!("UPDATE {change}"), []).is_err(), "{change}");
    }
}
