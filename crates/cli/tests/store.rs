//! Looking after a database from the command line.

use std::process::{Command, Output};

use serde_json::Value;

fn everloom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everloom")).args(arguments).output().expect("it starts")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A schema of its own on the server that the tests are given.
fn postgres(schema: &str) -> String {
    let server = std::env::var("EVERLOOM_TEST_POSTGRES")
        .expect("EVERLOOM_TEST_POSTGRES names a server: run this with scripts/with-postgres");
    format!("{server}?schema=cli_{schema}_{}", std::process::id())
}

fn findings(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("the findings are JSON")
}

/// What must be fixed.
fn problems(findings: &Value) -> Vec<&str> {
    let findings = findings["findings"].as_array().expect("a list").iter();
    let problems = findings.filter(|finding| finding["level"] == "problem");
    problems.map(|finding| finding["about"].as_str().expect("a text")).collect()
}

fn migrate_step_by_step(store: &str) {
    let listed = said(&everloom(&["migrate", "--store", store, "--dry-run"]));
    assert!(listed.contains("has schema 0"), "{listed}");
    assert!(listed.contains("\n  1 executions\n"), "{listed}");
    // It was not done: it is still to be done.
    assert_eq!(said(&everloom(&["migrate", "--store", store, "--dry-run"])), listed);
    assert!(said(&everloom(&["migrate", "--store", store])).contains("was migrated"));
    for arguments in
        [&["migrate", "--store", store][..], &["migrate", "--dry-run", "--store", store]]
    {
        assert!(said(&everloom(arguments)).contains("up to date"));
    }
}

#[test]
fn migrating_a_file_creates_what_is_missing_once_and_a_dry_run_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.db");
    let store = file.to_str().unwrap();
    said(&everloom(&["migrate", "--store", store, "--dry-run"]));
    assert!(!file.exists());
    migrate_step_by_step(store);
}

#[test]
fn migrating_a_schema_creates_what_is_missing_once_and_a_dry_run_creates_nothing() {
    migrate_step_by_step(&postgres("migrate"));
}

#[test]
fn the_doctor_shows_lanes_and_finds_nothing_to_fix_after_a_demo() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    said(&everloom(&["demo", "--executions", "50", "--folder", place]));
    let file = folder.path().join("demo.db");
    let store = file.to_str().unwrap();
    let output = everloom(&["doctor", "--store", store, "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let findings = findings(&output);
    assert_eq!(findings["must_fix"], false);
    assert_eq!(findings["lanes"].as_array().unwrap().len(), 3);
    assert_eq!(findings["store"]["store"], "sqlite");
    let text = said(&everloom(&["doctor", "--store", store]));
    assert!(text.contains("journal_mode") && text.contains("billing"), "{text}");
}

#[test]
fn the_doctor_finds_out_about_a_server_that_would_lose_data() {
    let store = postgres("doctor");
    said(&everloom(&["migrate", "--store", &store]));
    let output = everloom(&["doctor", "--store", &store, "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let findings = findings(&output);
    assert_eq!(findings["store"]["store"], "postgres");
    assert!(findings["clock_skew_ms"].is_i64());
    // The server of the tests does not wait for its disk.
    assert_eq!(problems(&findings), ["fsync"]);
    let text = String::from_utf8(everloom(&["doctor", "--store", &store]).stdout).unwrap();
    assert!(text.contains("✗ fsync: ") && text.contains("set fsync = on."), "{text}");
}

#[test]
fn the_doctor_counts_what_is_in_the_inbox() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inbox.db");
    let store = file.to_str().unwrap();
    said(&everloom(&["migrate", "--store", store]));
    let conn = everloom::sqlite::rusqlite::Connection::open(&file).unwrap();
    conn.execute_batch(
        "INSERT INTO inbox (kind) VALUES ('work'), ('work');
         INSERT INTO inbox (kind, refused_at, code, message)
         VALUES ('work', 1, 'invalid_input', 'no')",
    )
    .unwrap();
    let findings = findings(&everloom(&["doctor", "--store", store, "--json"]));
    assert_eq!(findings["inbox"], serde_json::json!({ "waiting": 2, "refused": 1 }));
    let found = findings["findings"].as_array().unwrap();
    let inbox = found.iter().find(|one| one["about"] == "inbox").unwrap();
    assert_eq!(inbox["level"], "warning");
    assert!(said(&everloom(&["doctor", "--store", store])).contains("2 waiting, 1 refused"));
}

#[test]
fn the_doctor_asks_for_a_migration_and_does_not_migrate() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.db");
    for store in [file.to_str().unwrap(), &postgres("absent")] {
        for _ in 0..2 {
            let output = everloom(&["doctor", "--store", store, "--json"]);
            assert_eq!(output.status.code(), Some(3));
            let findings = findings(&output);
            assert!(problems(&findings).contains(&"schema"));
            assert_eq!(findings["pending"][0], "executions");
        }
    }
    assert!(!file.exists());
}

#[test]
fn what_can_not_be_looked_at_is_an_error() {
    for store in ["postgres://nobody@127.0.0.1:1/none", "redis://here"] {
        for command in ["doctor", "migrate"] {
            let output = everloom(&[command, "--store", store]);
            assert_eq!(output.status.code(), Some(1));
            assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "));
        }
    }
}
