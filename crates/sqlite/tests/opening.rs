//! What opening does to a file, and which files it refuses.

mod common;

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;

use common::{Queue, commit, in_file, open_as};
use everloom_core::{Code, Source, Store};
use everloom_sqlite::{Durability, Options, SCHEMA_VERSION};
use rusqlite::Connection;

/// Opens what must be refused.
fn refused(path: &Path, options: &Options) -> everloom_core::Error {
    match open_as(path.to_str().unwrap(), options) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

fn pragma(path: &Path, name: &str) -> String {
    let conn = Connection::open(path).unwrap();
    conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0))
        .map(|value| format!("{value:?}"))
        .unwrap()
}

#[test]
fn a_file_of_the_first_schema_is_migrated_and_keeps_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(include_str!("../migrations/0001_executions.sql")).unwrap();
    conn.execute_batch(
        "INSERT INTO namespaces (name) VALUES ('kept');
         PRAGMA application_id = 0x45564c4d; PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(conn);
    let careful = Options { migrate: false, ..Options::default() };
    assert_eq!(refused(&path, &careful).code(), Code::MigrationNeeded);
    let mut store = in_file(&path);
    let mut read = store.read().unwrap();
    assert!(read.namespace("kept").unwrap().is_some());
    assert!(read.requests(1).unwrap().is_empty());
}

#[test]
fn a_new_file_is_created_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    let info = store.info();
    assert_eq!((info.store.as_str(), info.schema), ("sqlite", SCHEMA_VERSION));
    commit(&mut store, |tx| Queue::add(tx));
    drop(store);
    assert_eq!(pragma(&path, "journal_mode"), r#"Text("wal")"#);
    assert_eq!(pragma(&path, "application_id"), format!("Integer({})", 0x4556_4c4d));
    let options = Options { migrate: false, durability: Durability::Normal, ..Default::default() };
    let mut store = open_as(path.to_str().unwrap(), &options).unwrap();
    assert!(store.read().unwrap().namespace("default").unwrap().is_some());
}

#[test]
fn a_file_of_anything_else_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in
        [("short", vec![b'x']), ("text", b"hello ".repeat(10)), ("long", b"garbage ".repeat(4096))]
    {
        let path = dir.path().join(name);
        std::fs::write(&path, &content).unwrap();
        let error = refused(&path, &Options::default());
        assert_eq!(error.code(), Code::NotADatabase, "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), content, "{name}");
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for (name, sql) in [
        ("tables", "CREATE TABLE customers (id INTEGER)"),
        ("id", "PRAGMA application_id = 7"),
        ("version", "PRAGMA user_version = 1"),
    ] {
        let path = dir.path().join(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = refused(&path, &Options::default());
        assert_eq!(error.code(), Code::NotADatabase, "{error}");
        assert!(error.message().contains("another program"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{name}");
    }
}

#[test]
fn a_newer_schema_is_refused_by_naming_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    drop(in_file(&path));
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 4711").unwrap();
    let error = refused(&path, &Options::default());
    assert_eq!(error.code(), Code::SchemaTooNew, "{error}");
    for part in ["4711", &format!("knows {SCHEMA_VERSION}"), "upgrade"] {
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn an_old_schema_is_refused_when_migrating_is_off() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { migrate: false, ..Default::default() };
    let empty = dir.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    assert_eq!(refused(&empty, &options).code(), Code::MigrationNeeded);
    assert_eq!(std::fs::read(&empty).unwrap(), b"");
    let missing = dir.path().join("missing.db");
    assert_eq!(refused(&missing, &options).code(), Code::MigrationNeeded);
    assert!(!missing.exists());
}

#[test]
fn a_path_that_can_hold_no_file_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("missing/a.db")] {
        let error = refused(&path, &Options::default());
        assert_eq!(error.code(), Code::InvalidInput, "{error}");
        let parent = path.parent().unwrap().to_str().unwrap();
        assert!(error.message().contains(parent), "{error}");
    }
}

#[test]
fn a_file_that_can_not_be_written_is_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    drop(in_file(&path));
    let uri = format!("file:{}?mode=ro", path.display());
    let Err(error) = open_as(&uri, &Options::default()) else { panic!("it was opened") };
    assert_eq!(error.code(), Code::ReadOnly, "{error}");
}

#[cfg(unix)]
#[test]
fn a_directory_that_can_not_be_written_is_read_only() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    drop(in_file(&path));
    set_permissions(dir.path(), Permissions::from_mode(0o500)).unwrap();
    // Permissions do not bind the superuser.
    let binds = std::fs::write(dir.path().join("probe"), "").is_err();
    for path in [&path, &dir.path().join("b.db")].into_iter().filter(|_| binds) {
        let error = refused(path, &Options::default());
        assert_eq!(error.code(), Code::ReadOnly, "{error}");
    }
    set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn many_may_create_and_migrate_one_file_at_the_same_moment() {
    for _ in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let path = Arc::new(dir.path().join("a.db"));
        let start = Arc::new(Barrier::new(4));
        let openers: Vec<_> = (0..4)
            .map(|_| {
                let (path, start) = (Arc::clone(&path), Arc::clone(&start));
                thread::spawn(move || {
                    start.wait();
                    drop(in_file(&path));
                })
            })
            .collect();
        for opener in openers {
            opener.join().unwrap();
        }
        assert_eq!(pragma(&path, "user_version"), format!("Integer({SCHEMA_VERSION})"));
    }
}

#[test]
fn a_memory_database_has_one_connection_and_a_file_has_more() {
    for location in [":memory:", "file:one?mode=memory&cache=shared"] {
        let mut store = open_as(location, &Options::default()).unwrap();
        assert!(store.reader().unwrap().is_none());
        commit(&mut store, |tx| Queue::add(tx));
        assert!(store.read().unwrap().namespace("default").unwrap().is_some());
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(in_file(&dir.path().join("a.db")).reader().unwrap().is_some());
}
