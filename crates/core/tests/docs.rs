//! The documentation says what the code does. `UPDATE_DOCS=1 cargo test -p everloom-core --test docs`
//! rewrites the parts that are derived.

use std::path::PathBuf;

use everloom_core::{Class, Code, Status, TRANSITIONS};

fn check(page: &str, begin: &str, end: &str, derived: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(begin).expect("the page has the place to begin");
    let (written, tail) = rest.split_once(end).expect("the page has the place to end");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{head}{begin}{derived}{end}{tail}")).unwrap();
        return;
    }
    assert_eq!(written, derived, "docs/{page} is not what the code says; see UPDATE_DOCS");
}

#[test]
fn the_state_diagram_lists_every_transition_the_code_has() {
    let mut diagram = String::from("\n");
    for edge in TRANSITIONS {
        diagram += &format!("    {edge}\n");
    }
    for status in Status::ALL.into_iter().filter(|status| status.is_terminal()) {
        diagram += &format!("    {status} --> [*]: retention\n");
    }
    check("states.md", "stateDiagram-v2", "```", &diagram);
}

#[test]
fn every_error_code_is_listed_with_its_class_and_status() {
    let mut rows = String::from("\n");
    for code in Code::ALL {
        let class = match code.class() {
            Class::Retryable => "retryable",
            Class::Conflict => "conflict",
            Class::Invalid => "invalid",
            Class::Gone => "gone",
            Class::Bug => "bug",
        };
        rows += &format!("| [`{code}`](#{code}) | {class} | {} |\n", code.http_status());
    }
    check("errors.md", "|---|---|---|", "\n## ", &rows);
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let text = std::fs::read_to_string(page).unwrap();
    for code in Code::ALL {
        assert!(text.contains(&format!("\n## {code}\n")), "docs/errors.md does not explain {code}");
    }
}
