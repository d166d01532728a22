//! Copies of a live database.

mod common;

use common::{Queue, commit, in_file};
use everloom_core::{Code, Cursor, Payload, Source, Store};

#[test]
fn a_copy_made_between_transactions_has_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("copy.db");
    let mut store = in_file(&dir.path().join("a.db"));
    let queue = commit(&mut store, |tx| Queue::add(tx));
    for _ in 0..50 {
        commit(&mut store, |tx| queue.submit(tx));
    }
    let mut slices = 0;
    loop {
        let progress = store.backup(&to, 3).unwrap();
        slices += 1;
        if progress.is_complete() {
            assert_eq!(progress.done, progress.total);
            break;
        }
        commit(&mut store, |tx| queue.submit(tx));
    }
    assert!(slices > 3, "{slices}");
    let last = store.read().unwrap().event_span().unwrap().last;
    assert_eq!(last, Cursor(50 + slices - 1));

    // The file alone is the database.
    let moved = tempfile::tempdir().unwrap();
    let alone = moved.path().join("alone.db");
    std::fs::copy(&to, &alone).unwrap();
    let mut copy = in_file(&alone);
    let mut read = copy.read().unwrap();
    assert_eq!(read.event_span().unwrap().last, last);
    let ready = read.claimable(queue.lane, &[queue.route], 1000).unwrap();
    assert_eq!(ready.len() as i64, last.0);
    assert_eq!(read.inputs(&[ready[0].row]).unwrap(), [Payload::bytes(*b"input")]);
}

#[test]
fn a_copy_never_replaces_a_file_and_there_is_one_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("a.db");
    let mut store = in_file(&source);
    commit(&mut store, |tx| Queue::add(tx));
    let taken = dir.path().join("taken");
    std::fs::write(&taken, "precious").unwrap();
    for path in [&taken, &source, &dir.path().to_owned()] {
        let error = store.backup(path, 1).unwrap_err();
        assert_eq!(error.code(), Code::InUse, "{error}");
        assert!(error.message().contains("another path"), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "precious");

    let (first, second) = (dir.path().join("first.db"), dir.path().join("second.db"));
    assert!(!store.backup(&first, 1).unwrap().is_complete());
    assert_eq!(store.backup(&second, 1).unwrap_err().code(), Code::InUse);
    store.abandon_backup();
    assert!(!first.exists());
    assert!(store.backup(&second, 100_000).unwrap().is_complete());
    assert!(second.exists());
}

#[test]
fn a_copy_to_nowhere_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = in_file(&dir.path().join("a.db"));
    let to = dir.path().join("missing/copy.db");
    let error = store.backup(&to, 1).unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(error.message().contains("missing"), "{error}");
    commit(&mut store, |tx| Queue::add(tx));
}

#[test]
fn a_store_dropped_during_a_copy_removes_the_partial_file() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("copy.db");
    let mut store = in_file(&dir.path().join("a.db"));
    store.backup(&to, 1).unwrap();
    drop(store);
    assert!(!to.exists());
}
