//! What a look at a server and a schema finds.

mod common;

use common::{Admin, Schema, submit};
use everloom_conformance::Cluster;
use everloom_core::{Code, Examination, Level};
use everloom_postgres::{Options, PgStore, SCHEMA_VERSION, examine};

fn look(url: &str) -> Examination {
    examine(url, &Options::default()).expect("it can be looked at")
}

fn level(found: &Examination, about: &str) -> Level {
    let finding = found.findings.iter().find(|finding| finding.about == about);
    finding.unwrap_or_else(|| panic!("nothing about {about}: {found:?}")).level
}

#[test]
fn a_schema_that_is_not_there_is_not_made() {
    let schema = Schema::new("look");
    for _ in 0..2 {
        let found = look(&schema.url);
        assert_eq!((found.store.schema, found.pending.len()), (0, SCHEMA_VERSION as usize));
        assert_eq!(level(&found, "schema"), Level::Problem);
    }
}

#[test]
fn a_schema_of_today_is_fine_and_a_newer_one_a_problem() {
    let schema = Schema::new("today");
    let mut store = schema.open();
    common::run(&mut store, submit(1)).expect("it is submitted");
    let found = look(&schema.url);
    assert_eq!((found.store.schema, found.pending.len()), (SCHEMA_VERSION, 0));
    for about in ["schema", "role", "server_encoding", "synchronous_commit", "rights", "dead rows"]
    {
        assert_eq!(level(&found, about), Level::Fine, "{about}");
    }
    let name = &schema.name;
    Admin::new().run(&format!("INSERT INTO {name}.migrations (version, name) VALUES (99, 'x')"));
    assert_eq!(level(&look(&schema.url), "schema"), Level::Problem);
}

#[test]
fn settings_that_lose_what_was_acknowledged_are_problems() {
    let schema = Schema::new("settings");
    let careless = format!("{}&options=-c%20synchronous_commit%3Doff", schema.url);
    assert_eq!(level(&look(&careless), "synchronous_commit"), Level::Problem);
}

#[test]
fn a_user_with_few_connections_is_warned_about() {
    let schema = Schema::new("few");
    let role = format!("few_{}", std::process::id());
    let admin = Admin::new();
    admin.run(&format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 3"));
    let (_, host) = schema.url.split_once('@').expect("a user");
    let found = look(&format!("postgres://{role}@{host}"));
    admin.run(&format!("DROP ROLE {role}"));
    assert_eq!(level(&found, "connections left"), Level::Warning);
}

#[test]
fn rights_that_are_missing_are_a_problem() {
    let schema = Schema::new("reader");
    drop(schema.open());
    let (role, name) = (format!("reader_{}", std::process::id()), &schema.name);
    let admin = Admin::new();
    admin.run(&format!(
        "CREATE ROLE {role} LOGIN;
         GRANT USAGE ON SCHEMA {name} TO {role};
         GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {role}"
    ));
    let (_, host) = schema.url.split_once('@').expect("a user");
    let found = look(&format!("postgres://{role}@{host}"));
    admin.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    assert_eq!(level(&found, "rights"), Level::Problem);
}

#[test]
fn tables_that_nobody_vacuums_are_warned_about() {
    let schema = Schema::new("dust");
    drop(schema.open());
    let name = &schema.name;
    Admin::new().run(&format!("ALTER TABLE {name}.events SET (autovacuum_enabled = false)"));
    assert_eq!(level(&look(&schema.url), "dead rows"), Level::Warning);
}

#[test]
fn events_that_nobody_numbers_are_a_problem() {
    let schema = Schema::new("mute");
    drop(schema.open());
    assert_eq!(level(&look(&schema.url), "events without a number"), Level::Fine);
    let name = &schema.name;
    Admin::new().run(&format!("INSERT INTO {name}.batches (size, at, source) VALUES (1, 0, 0)"));
    assert_eq!(level(&look(&schema.url), "events without a number"), Level::Problem);
}

#[test]
fn a_standby_is_a_problem_and_no_place_to_open() {
    let mut server = Cluster::start();
    drop(PgStore::open(server.url(), &Options::default()).expect("it opens"));
    Admin::at(server.url()).write_file("standby.signal", "");
    server.ctl("restart -m fast");
    assert_eq!(level(&look(server.url()), "role"), Level::Problem);
    let error = PgStore::open(server.url(), &Options::default()).err().expect("it is refused");
    assert_eq!(error.code(), Code::ReadOnly);
    assert!(error.message().contains("connect to the primary"), "{error}");
}
