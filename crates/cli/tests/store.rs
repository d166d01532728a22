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

#[test]
fn migrating_creates_what_is_missing_once_and_a_dry_run_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.db");
    let store = file.to_str().unwrap();
    assert!(said(&everloom(&["migrate", "--store", store, "--dry-run"])).contains("would be"));
    assert!(!file.exists());
    assert!(said(&everloom(&["migrate", "--store", store])).contains("was migrated"));
    assert!(said(&everloom(&["migrate", "--store", store])).contains("up to date"));
}

#[test]
fn the_doctor_shows_lanes_and_finds_nothing_to_fix_after_a_demo() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    said(&everloom(&["demo", "--executions", "50", "--folder", place]));
    let file = folder.path().join("demo.db");
    let text = said(&everloom(&["doctor", "--store", file.to_str().unwrap(), "--json"]));
    let findings: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(findings["advice"], Value::Array(vec![]));
    assert_eq!(findings["lanes"].as_array().unwrap().len(), 3);
    assert_eq!(findings["store"]["store"], "sqlite");
}

#[test]
fn the_doctor_does_not_create_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.db");
    assert!(!everloom(&["doctor", "--store", file.to_str().unwrap()]).status.success());
    assert!(!file.exists());
}
