//! The program from the outside.

use std::process::{Command, Output};

use serde_json::Value;

fn everloom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_everloom")).args(arguments).output().expect("it starts")
}

#[test]
fn the_demo_ends_well_and_says_where_the_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let output = everloom(&["demo", "--executions", "200", "--json", "--folder", folder]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["problems"], Value::Array(vec![]));
    assert_eq!(report["leases_left_behind"], 10);
    assert_eq!(report["leases_expired"], 10);
    assert!(report["attempts_failed"].as_u64().unwrap() > 0);
    let found = report["states"].as_array().unwrap().iter();
    assert_eq!(found.map(|row| row["found"].as_u64().unwrap()).sum::<u64>(), 200);
    assert!(std::path::Path::new(report["file"].as_str().unwrap()).exists());
}

#[test]
fn the_demo_prints_tables_for_people() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let output = everloom(&["demo", "--executions", "50", "--folder", folder]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["completed", "cancelled", "expired", "charge_card", "demo.db"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!everloom(&["demo", "--folder", folder]).status.success(), "it took an existing file");
}
