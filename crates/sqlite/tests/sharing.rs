//! Several connections to one file, commits, and a disk that is full.

mod common;

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use common::{Queue, about, at, commit, in_file, in_memory, leased, open_as};
use everloom_core::{
    Code, Cursor, End, EndReason, Epoch, EventKind, EventScan, LeaseEnd, Outcome, PastLease,
    Payload, Secret, Source, State, Store,
};
use everloom_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

#[test]
fn two_writers_on_one_file_take_turns_and_see_each_others_rows() {
    const EACH: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let path = Arc::new(dir.path().join("a.db"));
    let queue = commit(&mut in_file(&path), |tx| Queue::add(tx));
    let start = Arc::new(Barrier::new(2));
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let (path, start) = (Arc::clone(&path), Arc::clone(&start));
            thread::spawn(move || {
                let mut store = in_file(&path);
                start.wait();
                for _ in 0..EACH {
                    commit(&mut store, |tx| queue.submit(tx));
                }
                // One may have been through before the other began.
                start.wait();
                store.changed_elsewhere().unwrap()
            })
        })
        .collect();
    let noticed = writers.into_iter().map(|writer| writer.join().unwrap());
    assert_eq!(noticed.filter(|noticed| !noticed).count(), 0);
    let mut store = in_file(&path);
    let mut read = store.read().unwrap();
    let ready = read.claimable(queue.lane, &[queue.route], 2 * EACH + 1).unwrap();
    let rows: Vec<_> = ready.iter().map(|execution| execution.row.0).collect();
    assert_eq!(rows, (1..=2 * EACH as i64).collect::<Vec<_>>());
    assert_eq!(read.event_span().unwrap().last, Cursor(2 * EACH as i64));
}

#[test]
fn another_connections_commit_is_noticed_once_and_drops_what_was_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let (mut here, mut there) = (in_file(&path), in_file(&path));
    let queue = commit(&mut here, |tx| Queue::add(tx));
    let claimable = |store: &mut SqliteStore| {
        let mut read = store.read().unwrap();
        read.claimable(queue.lane, &[queue.route], 10).unwrap().len()
    };
    assert!(!here.changed_elsewhere().unwrap(), "its own commit");
    assert_eq!(claimable(&mut here), 0);
    commit(&mut there, |tx| queue.submit(tx));
    assert!(here.changed_elsewhere().unwrap());
    assert!(!here.changed_elsewhere().unwrap());
    assert_eq!(claimable(&mut here), 1);
    commit(&mut there, |tx| {
        queue.submit(tx);
        tx.add_route(queue.namespace, "render", &["gpu".into()]).unwrap();
    });
    assert_eq!(claimable(&mut here), 2);
    assert_eq!(here.read().unwrap().routes(queue.namespace).unwrap().routes().len(), 2);
    assert!(here.changed_elsewhere().unwrap(), "seen by a read, and still to be told");
    assert_eq!(commit(&mut here, |tx| queue.submit(tx)).row.0, 3);
}

#[test]
fn a_reader_sees_commits_whole_and_only_from_its_next_view_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = in_file(&dir.path().join("a.db"));
    let queue = commit(&mut store, |tx| Queue::add(tx));
    let mut reader = store.reader().unwrap().unwrap();
    let first = commit(&mut store, |tx| queue.submit(tx));
    {
        let mut view = reader.read().unwrap();
        assert_eq!(view.event_span().unwrap().last, Cursor(1));
        let second = commit(&mut store, |tx| queue.submit(tx));
        let found = view.find(queue.namespace, &[second.id, first.id]).unwrap();
        assert_eq!(found, [None, Some(first)]);
    }
    assert_eq!(reader.read().unwrap().event_span().unwrap().last, Cursor(2));
}

#[test]
fn a_writer_that_waits_too_long_is_told_so_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut first = in_file(&path);
    let options = Options { busy_timeout: Duration::from_millis(20), ..Default::default() };
    let mut second = open_as(path.to_str().unwrap(), &options).unwrap();
    let held = first.begin().unwrap();
    let Err(error) = second.begin() else { panic!("two at once") };
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    drop(held);
    commit(&mut second, |tx| Queue::add(tx));
}

#[test]
fn every_commit_is_counted_and_the_time_never_runs_backwards() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    for now in [5, 9, 7] {
        let mut tx = store.begin().unwrap();
        tx.new_row().unwrap();
        tx.commit(at(now)).unwrap();
    }
    assert_eq!(store.begin().unwrap().last_now().unwrap(), at(9));
    let meta: (i64, i64, i64) = Connection::open(&path)
        .unwrap()
        .query_row("SELECT last_now, last_row, commits FROM meta", [], |row| row.try_into())
        .unwrap();
    assert_eq!(meta, (9, 3, 3));
}

#[test]
fn the_database_itself_refuses_a_state_that_contradicts_its_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    let queue = commit(&mut store, |tx| Queue::add(tx));
    commit(&mut store, |tx| queue.submit(tx));
    let conn = Connection::open(&path).unwrap();
    for change in [
        "state = 4",
        "state = 2",
        "state = 5",
        "state = 6",
        "state = 6, detail = '{}', worker = 'w'",
        "state = 7, detail = '{}'",
        "state = 15, detail = '{}'",
        "state = 10",
        "worker = 'w'",
        "state = 3, until = 1, worker = 'w'",
        "state = 3, until = 1, worker = 'w', secret = x'00'",
        "state = 3, until = 1, worker = 'w', secret = zeroblob(16), ttl_ms = 1",
        "priority = 9001",
        "held = 4",
        "beside = -1",
        "flow = 1, node = 'a'",
        "flow = 1, flow_uuid = zeroblob(16)",
        "flow = 1, node = 'a', flow_uuid = zeroblob(15)",
        "uuid = x'00'",
    ] {
        let result = conn.execute(&format!("UPDATE executions SET {change}"), []);
        assert!(result.is_err(), "{change}");
    }
    for change in [
        "state = 6, detail = '{}'",
        "state = 6, detail = '{}', until = 1",
        "state = 4, until = 1, worker = 'w', secret = zeroblob(16), ttl_ms = 1",
    ] {
        conn.execute(&format!("UPDATE executions SET {change}"), []).unwrap();
    }
}

#[test]
fn a_full_disk_refuses_the_transaction_and_the_store_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let options = Options { max_pages: Some(100), ..Default::default() };
    let mut store = open_as(path.to_str().unwrap(), &options).unwrap();
    let queue = commit(&mut store, |tx| Queue::add(tx));
    let kept = commit(&mut store, |tx| queue.submit(tx));

    let mut tx = store.begin().unwrap();
    let execution = queue.waiting(tx.new_row().unwrap());
    let error = tx.insert(&execution, &Payload::bytes(vec![1; 1 << 20]), None).unwrap_err();
    assert_eq!(error.code(), Code::StorageFull, "{error}");
    // SQLite may have ended the transaction: nothing must get in beside it.
    let later = tx.add_event(&about(&kept, EventKind::Held));
    let committed = tx.commit(at(50));
    assert!(later.is_err() && committed.is_err());

    let mut read = store.read().unwrap();
    assert_eq!(read.find(queue.namespace, &[execution.id]).unwrap(), [None]);
    assert_eq!(read.event_span().unwrap().last, Cursor(1));
    drop(read);
    assert_eq!(commit(&mut store, |tx| queue.submit(tx)).row, execution.row);
}

#[test]
fn no_statement_is_prepared_twice() {
    let mut store = in_memory();
    let queue = commit(&mut store, |tx| Queue::add(tx));
    for round in 0..250 {
        commit(&mut store, |tx| {
            queue.submit(tx);
            let ready = tx.claimable(queue.lane, &[queue.route], 1).unwrap().remove(0);
            let mut execution = leased(ready, "w", at(round));
            tx.save(&execution).unwrap();
            tx.add_event(&about(&execution, EventKind::Claimed)).unwrap();
            assert_eq!(tx.inputs(&[execution.row]).unwrap()[0].bytes, b"input");
            assert_eq!(tx.due(at(round), 5).unwrap().len(), 1);
            assert!(tx.find(queue.namespace, &[execution.id]).unwrap()[0].is_some());
            tx.put_result(execution.row, &Payload::bytes(*b"result")).unwrap();
            tx.add_past_lease(&PastLease {
                execution: execution.row,
                epoch: execution.epoch,
                attempt: 1,
                run: 1,
                worker: "w".into(),
                secret: Secret::new([7; 16]),
                claimed_at: at(round),
                ended_at: at(round),
                end: LeaseEnd::Completed,
            })
            .unwrap();
            execution.state = State::Ended(End {
                outcome: Outcome::Completed,
                reason: EndReason::Completed,
                message: None,
                by: None,
            });
            tx.save(&execution).unwrap();
            let past = tx.past_lease(execution.row, Epoch(1)).unwrap().unwrap();
            assert_eq!(past.end, LeaseEnd::Completed);
            tx.events(Cursor(0), &EventScan::default(), 10, 10).unwrap();
        });
    }
    let counters = store.statement_counters();
    assert!(counters.vm_steps > 0);
    assert_eq!(counters.reprepares, 0);
}
