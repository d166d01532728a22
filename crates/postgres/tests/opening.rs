//! How a schema is opened, and what is said when it can not be.

mod common;

use std::path::Path;

use common::{Admin, Schema, complete, run, submit, up_to};
use everloom_core::*;
use everloom_postgres::{Options, PgStore, SCHEMA_VERSION};

fn refused(url: &str, options: &Options) -> everloom_core::Error {
    PgStore::open(url, options).err().expect("it is refused")
}

#[test]
fn two_processes_may_migrate_at_once() {
    let schema = Schema::new("migrate");
    std::thread::scope(|scope| {
        let opening: Vec<_> = (0..4).map(|_| scope.spawn(|| schema.open())).collect();
        for opened in opening {
            let mut store = opened.join().expect("it opens");
            run(&mut store, submit(1)).expect("it works");
            assert_eq!(store.info().schema, SCHEMA_VERSION);
        }
    });
    let applied = Admin::new().number(&format!("SELECT count(*) FROM {}.migrations", schema.name));
    assert_eq!(applied, i64::from(SCHEMA_VERSION));
}

#[test]
fn a_schema_of_the_first_version_is_migrated_and_keeps_its_rows() {
    let schema = Schema::new("first");
    let name = &schema.name;
    let first = include_str!("../migrations/0001_executions.sql");
    Admin::new().run(&format!(
        "CREATE SCHEMA {name}; SET search_path TO {name}; {first};
         CREATE TABLE migrations (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
         INSERT INTO migrations (version, name) VALUES (1, 'executions');
         INSERT INTO namespaces (name) VALUES ('kept')"
    ));
    let careful = Options { migrate: false, ..Options::default() };
    assert_eq!(refused(&schema.url, &careful).code(), Code::MigrationNeeded);
    let mut store = schema.open();
    let mut read = store.read().unwrap();
    assert!(read.namespace("kept").unwrap().is_some());
    assert!(read.requests(1).unwrap().is_empty());
}

/// A schema as the second version left it: a waiting, a held, an active and a failed execution.
fn second_version(schema: &Schema) {
    let name = &schema.name;
    let first = include_str!("../migrations/0001_executions.sql");
    let second = include_str!("../migrations/0002_inbox.sql");
    let rows = include_str!("second_version.sql");
    Admin::new().run(&format!(
        "CREATE SCHEMA {name}; SET search_path TO {name}; {first}; {second};
         CREATE TABLE migrations (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
         INSERT INTO migrations (version, name) VALUES (1, 'executions'), (2, 'inbox');
         {rows}"
    ));
}

#[test]
fn a_schema_of_the_second_version_keeps_its_executions_and_goes_on() {
    let schema = Schema::new("second");
    second_version(&schema);
    let mut store = schema.open();
    let id = |number| ExecutionId(uuid::Uuid::from_u128(number));
    let at = Timestamp::from_millis;
    let mut read = store.read().unwrap();
    let (lane, route, namespace) = (LaneId(1), RouteId(1), NamespaceId(1));
    let claimable = read.claimable(lane, &[route], 9).unwrap();
    assert_eq!(claimable.iter().map(|one| one.id).collect::<Vec<_>>(), [id(1)]);
    assert!(
        !claimable[0].gated
            && claimable[0].beside == Beside::default()
            && claimable[0].member.is_none()
    );
    assert!(read.execution(RowId(2)).unwrap().unwrap().held);
    assert_eq!(read.due(at(900), 9).unwrap()[0].id, id(3));
    assert_eq!(read.retired(at(950), 9).unwrap()[0].status(), Status::Failed);
    let key = read.keys(namespace, &["once"]).unwrap().pop().flatten().unwrap();
    assert_eq!(key.of, KeyOf::Execution(id(1)));
    let events = read.events(Cursor(0), &EventScan::default(), 9, 9).unwrap().events;
    assert_eq!((events[0].execution, events[0].flow), (Some(id(1)), None));
    assert_eq!(read.chores(at(600), 9).unwrap()[0].kind, ChoreKind::Retention);
    drop(read);
    let flow = NewFlow::new().node(NewNode::new("only", NewExecution::new("mail")));
    run(&mut store, SubmitFlow { namespace: "default".into(), flow }).expect("a flow");
    let claim = run(&mut store, up_to(9)).expect("a claim");
    assert_eq!(claim.leases.len(), 2);
    for leased in &claim.leases {
        run(&mut store, complete(leased)).expect("it is done");
    }
}

#[test]
fn a_schema_of_the_third_version_still_knows_who_has_children() {
    let schema = Schema::new("third");
    second_version(&schema);
    let name = &schema.name;
    let third = include_str!("../migrations/0003_flows.sql");
    Admin::new().run(&format!(
        "SET search_path TO {name}; {third};
         INSERT INTO migrations (version, name) VALUES (3, 'flows');
         UPDATE executions SET spawned = true WHERE id = 3"
    ));
    let mut store = schema.open();
    let mut read = store.read().unwrap();
    let children = Beside { children: true, ..Beside::default() };
    let beside = [1, 2, 3, 4].map(|row| read.execution(RowId(row)).unwrap().unwrap().beside);
    assert_eq!(beside, [Beside::default(), Beside::default(), children, Beside::default()]);
    drop(read);
    let leased = run(&mut store, up_to(1)).expect("a claim").leases.remove(0);
    let suspend = Suspend::new(leased.lease, Condition::at("go"));
    run(&mut store, suspend).expect("it waits");
}

#[test]
fn a_newer_schema_is_refused() {
    let schema = Schema::new("newer");
    drop(schema.open());
    Admin::new()
        .run(&format!("INSERT INTO {}.migrations (version, name) VALUES (99, 'x')", schema.name));
    assert_eq!(refused(&schema.url, &Options::default()).code(), Code::SchemaTooNew);
}

#[test]
fn without_migrating_an_empty_database_is_refused_and_stays_empty() {
    let schema = Schema::new("off");
    let options = Options { migrate: false, ..Options::default() };
    assert_eq!(refused(&schema.url, &options).code(), Code::MigrationNeeded);
    let there = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{}'", schema.name);
    assert_eq!(Admin::new().number(&there), 0);
}

#[test]
fn a_server_that_is_down_is_unavailable() {
    let error = refused("postgres://ann@127.0.0.1:1/app", &Options::default());
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_database_that_does_not_exist_is_named() {
    let url = common::server();
    let (address, _) = url.rsplit_once('/').expect("a database");
    let error = refused(&format!("{address}/no_such_database"), &Options::default());
    assert_eq!(error.code(), Code::InvalidInput);
    assert_eq!(error.field(), Some("url"));
    assert!(error.message().contains("no_such_database"), "{error}");
}

#[test]
fn a_user_without_rights_is_told_so() {
    let role = format!("r_{}", std::process::id());
    let schema = Schema::new("rights");
    drop(schema.open());
    Admin::new().run(&format!("CREATE ROLE {role} LOGIN PASSWORD 'pw'"));
    let (_, host) = schema.url.split_once('@').expect("a user");
    let url = format!("postgres://{role}:pw@{host}");
    let existing = refused(&url, &Options::default());
    let new = refused(&url.replace("schema=t_rights", "schema=t_rightless"), &Options::default());
    Admin::new().run(&format!("DROP ROLE {role}"));
    for error in [existing, new] {
        assert_eq!(error.code(), Code::ReadOnly, "{error}");
    }
}

/// The dump as a person would read it: tables with their columns, constraints, indexes.
const DUMP: &str = "
    SELECT string_agg(line, chr(10) ORDER BY relation, sort, line) FROM (
        SELECT c.relname AS relation, 0 AS sort, CASE c.relkind WHEN 'S' THEN 'sequence ' ELSE 'table ' END || c.relname AS line
        FROM pg_class c WHERE c.relnamespace = to_regnamespace($1::text) AND c.relkind IN ('r', 'S')
        UNION ALL
        SELECT c.relname, a.attnum, '    ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
            || CASE WHEN a.attcollation = 950 THEN ' COLLATE \"C\"' ELSE '' END
            || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
            || CASE WHEN a.attidentity <> '' THEN ' IDENTITY' ELSE '' END
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = to_regnamespace($1::text) AND c.relkind = 'r'
        UNION ALL
        SELECT c.relname, 1000, '    ' || pg_get_constraintdef(k.oid, true)
        FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'c'
        WHERE c.relnamespace = to_regnamespace($1::text)
        UNION ALL
        SELECT i.tablename, 2000, '    ' || replace(i.indexdef, i.schemaname || '.', '')
        FROM pg_indexes i WHERE i.schemaname = $1
        UNION ALL
        SELECT c.relname, 3000, '    trigger ' || t.tgname
        FROM pg_class c JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal
        WHERE c.relnamespace = to_regnamespace($1::text)
        UNION ALL
        SELECT '~', 0, 'function ' || p.proname || '(' || pg_get_function_arguments(p.oid) || ') RETURNS ' || pg_get_function_result(p.oid)
        FROM pg_proc p WHERE p.pronamespace = to_regnamespace($1::text)
    ) AS lines";

/// `UPDATE_SCHEMA=1 cargo test` rewrites the dump.
#[test]
fn the_checked_in_schema_is_what_the_migrations_make() {
    let schema = Schema::new("dump");
    drop(schema.open());
    let made = Admin::new().text(DUMP, &schema.name) + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema.sql");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &made).expect("it can be written");
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), made);
}
