//! Submitting within a transaction of one's own, and by plain SQL.

mod common;

use std::sync::{Arc, mpsc};

use common::{Admin, Schema, complete, run, server, submit, up_to};
use everloom_core::*;
use everloom_postgres::tokio_postgres::{Client, NoTls, Transaction};
use everloom_postgres::{Options, PgStore, Submitter};
use tokio::runtime::Runtime;
use uuid::Uuid;

/// A program with a connection of its own.
struct Program {
    runtime: Runtime,
    client: Client,
    pid: i32,
    schema: String,
}

impl Program {
    fn new(schema: &Schema) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let connecting =
            everloom_postgres::tokio_postgres::connect(&server(), NoTls).await_on(&runtime);
        let (client, connection) = connecting.expect("the server lets us in");
        runtime.spawn(connection);
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await_on(&runtime).unwrap();
        Self { runtime, client, pid: row.get(0), schema: schema.name.clone() }
    }

    fn begin(&mut self) -> Open<'_> {
        let tx = self.client.transaction().await_on(&self.runtime).unwrap();
        let submitter = Submitter::default().schema(&self.schema);
        Open { tx, runtime: &self.runtime, submitter }
    }
}

trait AwaitOn: Future + Sized {
    fn await_on(self, runtime: &Runtime) -> Self::Output {
        runtime.block_on(self)
    }
}

impl<F: Future> AwaitOn for F {}

/// A transaction of a program.
struct Open<'a> {
    tx: Transaction<'a>,
    runtime: &'a Runtime,
    submitter: Submitter,
}

impl Open<'_> {
    fn submit(&mut self, new: NewExecution) -> Result<Submission> {
        self.submitter.submit(&mut self.tx, new).await_on(self.runtime)
    }

    fn submit_batch(&mut self, new: Vec<NewExecution>) -> Result<Vec<Submission>> {
        self.submitter.submit_batch(&mut self.tx, new).await_on(self.runtime)
    }

    fn execute(&self, sql: &str) {
        self.tx.batch_execute(sql).await_on(self.runtime).expect("a statement runs");
    }

    fn text(&self, sql: &str) -> String {
        self.tx.query_one(sql, &[]).await_on(self.runtime).expect("a row").get(0)
    }

    fn commit(self) {
        self.tx.commit().await_on(self.runtime).unwrap();
    }

    fn rollback(self) {
        self.tx.rollback().await_on(self.runtime).unwrap();
    }
}

fn work() -> NewExecution {
    NewExecution::new("work")
}

/// Every row of every table, as one text.
fn contents(schema: &Schema) -> String {
    let admin = Admin::new();
    let tables = admin.text(
        "SELECT string_agg(format('SELECT %L, t::text FROM %I.%I AS t', relname, $1::text, relname), ' UNION ALL ')
         FROM pg_class WHERE relnamespace = to_regnamespace($1::text) AND relkind = 'r'",
        &schema.name,
    );
    let rows = format!(
        "SELECT coalesce(string_agg(a || ': ' || b, chr(10) ORDER BY a, b), '') FROM ({tables}) AS all_rows (a, b) WHERE $1::text <> ''"
    );
    admin.text(&rows, "x")
}

/// A store with one execution of the kind `work` gone through it, and nothing left to number.
fn settled(schema: &Schema) -> PgStore {
    let options = Options { number_at_commit: true, ..Options::default() };
    let mut store = PgStore::open(&schema.url, &options).unwrap();
    run(&mut store, submit(1)).unwrap();
    let leased = run(&mut store, up_to(1)).unwrap().leases.remove(0);
    run(&mut store, complete(&leased)).unwrap();
    store
}

/// Tells of every change the store hears of.
fn hear(store: &mut PgStore) -> mpsc::Receiver<()> {
    let (sender, heard) = mpsc::channel();
    let told = move |_: News| {
        // The test may have ended.
        let _ = sender.send(());
    };
    assert!(store.listen(Arc::new(told)).unwrap());
    heard
}

fn claim_when_told(store: &mut PgStore, heard: &mpsc::Receiver<()>) -> Leased {
    loop {
        if let Some(leased) = run(store, up_to(1)).unwrap().leases.pop() {
            return leased;
        }
        heard.recv().unwrap();
    }
}

/// Waits until every event has a number.
fn until_numbered(schema: &Schema) {
    let admin = Admin::new();
    let left = format!("SELECT count(*) FROM {}.batches WHERE base IS NULL", schema.name);
    while admin.number(&left) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_committed_submission_is_told_although_nobody_polls() {
    let schema = Schema::new("committed");
    let options = Options { poll: std::time::Duration::from_secs(3600), ..Options::default() };
    let mut store = PgStore::open(&schema.url, &options).unwrap();
    run(&mut store, submit(1)).unwrap();
    // From now on only a message makes the store look for events without a number.
    until_numbered(&schema);
    let mut program = Program::new(&schema);
    let mut open = program.begin();
    open.execute("CREATE TEMP TABLE orders (id int); INSERT INTO orders VALUES (17)");
    let new = work().input(Payload::bytes("hello")).tag("a", "b").key("k").lane("new");
    let Submission::Created { id, status } = open.submit(new).unwrap() else { panic!("it is new") };
    assert_eq!(status, Status::Waiting);
    assert_eq!(open.text("SELECT count(*)::text FROM orders"), "1");
    open.commit();
    until_numbered(&schema);
    let claim = Claim { lanes: vec!["new".into()], ..Claim::new("w") };
    let leased = run(&mut store, claim).unwrap().leases.remove(0);
    assert_eq!((leased.id(), leased.input), (id, Some(Payload::bytes("hello"))));
}

#[test]
fn a_rolled_back_submission_leaves_nothing() {
    let schema = Schema::new("rolled_back");
    let store = settled(&schema);
    let before = contents(&schema);
    let mut program = Program::new(&schema);
    let mut open = program.begin();
    let new = work().key("k").lane("new").tag("a", "b").input(Payload::bytes("x"));
    open.submit(new).unwrap();
    open.submitter = open.submitter.clone().namespace("new");
    open.submit(NewExecution::new("new").capability("gpu")).unwrap();
    open.rollback();
    assert_eq!(contents(&schema), before);
    drop(store);
}

#[test]
fn a_refused_submission_leaves_the_transaction_as_it_was_and_usable() {
    let schema = Schema::new("refused");
    let mut store = settled(&schema);
    let keyed = Submit { namespace: DEFAULT_NAME.into(), executions: vec![work().key("k")] };
    run(&mut store, keyed).unwrap();
    let mut program = Program::new(&schema);
    let mut open = program.begin();
    open.execute("SET LOCAL search_path TO pg_temp, \"odd 'name\"; CREATE TEMP TABLE orders (id int); INSERT INTO orders VALUES (17)");
    let path = open.text("SHOW search_path");
    for (new, code) in [
        (vec![work().priority(-1)], Code::InvalidInput),
        (vec![work().lane("new"), work().priority(1).key("k")], Code::IdempotencyConflict),
        (vec![], Code::InvalidInput),
    ] {
        assert_eq!(open.submit_batch(new).unwrap_err().code(), code);
        assert_eq!(open.text("SELECT count(*)::text FROM orders"), "1");
        assert_eq!(open.text("SHOW search_path"), path);
    }
    assert!(!open.submit(work()).unwrap().is_duplicate());
    assert_eq!(open.text("SHOW search_path"), path);
    assert!(open.submit(work().key("k")).unwrap().is_duplicate());
    assert_eq!(open.text("SHOW search_path"), path);
    open.commit();
    assert_eq!(run(&mut store, up_to(9)).unwrap().leases.len(), 2);
}

#[test]
fn a_submission_that_fails_half_way_is_taken_back_alone() {
    let schema = Schema::new("half_way");
    let mut store = settled(&schema);
    let name = &schema.name;
    Admin::new().run(&format!(
        "ALTER TABLE {name}.events ADD CHECK (tags IS NULL OR tags NOT LIKE '%fault%') NOT VALID"
    ));
    let mut program = Program::new(&schema);
    let mut open = program.begin();
    open.submit(work()).unwrap();
    // Events are written last.
    let error = open.submit(work().tag("fault", "x")).unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    open.commit();
    assert_eq!(run(&mut store, up_to(9)).unwrap().leases.len(), 1);
}

/// Lanes and kinds that exist, one of the lanes with a maximum.
fn furnished(schema: &Schema) -> PgStore {
    // Whoever has to wait for a lock gives up soon, and says so.
    let busy_timeout = std::time::Duration::from_millis(500);
    let options = Options { busy_timeout, ..Options::default() };
    let mut store = PgStore::open(&schema.url, &options).unwrap();
    let cap: PutLane =
        serde_json::from_value(serde_json::json!({ "lane": "capped", "max_active": 5 })).unwrap();
    run(&mut store, cap).unwrap();
    run(&mut store, in_lane("default", "known")).unwrap();
    run(&mut store, in_lane("capped", "capped-known")).unwrap();
    store
}

fn in_lane(lane: &str, key: &str) -> Submit {
    let executions = vec![work().lane(lane).key(key), work().lane(lane)];
    Submit { namespace: DEFAULT_NAME.into(), executions }
}

#[test]
fn a_transaction_that_stays_open_delays_nobody() {
    let schema = Schema::new("open");
    let mut store = furnished(&schema);
    let mut program = Program::new(&schema);
    let mut open = program.begin();
    for lane in ["default", "capped"] {
        open.submit(work().lane(lane).key(format!("{lane}-mine"))).unwrap();
    }
    // Duplicates of what exists, and names nobody has used yet.
    assert!(open.submit(work().lane("default").key("known")).unwrap().is_duplicate());
    open.submit(NewExecution::new("new").lane("new")).unwrap();

    for (lane, key) in [("default", "a"), ("capped", "b")] {
        run(&mut store, in_lane(lane, key)).expect("a submission does not wait");
        for _ in 0..4 {
            let claim = Claim { lanes: vec![lane.into()], ..Claim::new("w") };
            let leased = run(&mut store, claim).expect("a claim does not wait").leases.remove(0);
            run(&mut store, complete(&leased)).expect("a completion does not wait");
        }
        let lane = lane.to_owned();
        let pause = PauseLane { namespace: DEFAULT_NAME.into(), lane: lane.clone() };
        run(&mut store, pause).expect("an operator does not wait");
        run(&mut store, ResumeLane { namespace: DEFAULT_NAME.into(), lane }).unwrap();
    }
    run(&mut store, Tick::default()).expect("the clock does not wait");
    assert!(run(&mut store, up_to(9)).unwrap().leases.is_empty());
    open.commit();
    assert_eq!(run(&mut store, up_to(9)).unwrap().leases.len(), 1);
}

/// Waits until a connection waits for a lock.
fn until_blocked(pid: i32) {
    let admin = Admin::new();
    while admin.number(&format!("SELECT cardinality(pg_blocking_pids({pid}))::bigint")) == 0 {
        std::thread::yield_now();
    }
}

/// What a second transaction is told under the key of a first one that ends meanwhile.
fn second_under_the_same_key(test: &str, commit: bool) -> (Submission, Submission) {
    let schema = Schema::new(test);
    drop(settled(&schema));
    let (mut one, mut two) = (Program::new(&schema), Program::new(&schema));
    let mut open = one.begin();
    let first = open.submit(work().key("k")).unwrap();
    let again = open.submit(work().key("k")).unwrap();
    assert!(again.is_duplicate() && again.id() == first.id());
    let pid = two.pid;
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(move || {
            let mut open = two.begin();
            let second = open.submit(work().key("k")).unwrap();
            open.commit();
            second
        });
        until_blocked(pid);
        if commit {
            open.commit();
        } else {
            open.rollback();
        }
        second.join().unwrap()
    });
    (first, second)
}

#[test]
fn a_key_of_an_open_transaction_is_a_duplicate_once_that_is_committed() {
    let (first, second) = second_under_the_same_key("key_kept", true);
    assert!(second.is_duplicate());
    assert_eq!(second.id(), first.id());
}

#[test]
fn a_key_of_an_open_transaction_is_free_once_that_is_rolled_back() {
    let (first, second) = second_under_the_same_key("key_freed", false);
    assert!(!second.is_duplicate());
    assert_ne!(second.id(), first.id());
}

#[test]
fn a_schema_that_is_not_the_current_one_is_refused_and_the_transaction_stays_usable() {
    let schema = Schema::new("version");
    drop(settled(&schema));
    let mut program = Program::new(&schema);
    let mut open = program.begin();
    for (name, code) in [("no_such_schema", Code::MigrationNeeded), ("Bad", Code::InvalidInput)] {
        open.submitter = Submitter::default().schema(name);
        assert_eq!(open.submit(work()).unwrap_err().code(), code);
    }
    open.submitter = Submitter::default().schema(&schema.name);
    for (change, code) in [
        ("INSERT INTO {}.migrations VALUES (1000, 'later')", Code::SchemaTooNew),
        ("DELETE FROM {}.migrations", Code::MigrationNeeded),
    ] {
        open.execute(&format!("SAVEPOINT s; {}", change.replace("{}", &schema.name)));
        assert_eq!(open.submit(work()).unwrap_err().code(), code);
        open.execute("ROLLBACK TO s");
    }
    open.submit(work()).unwrap();
}

#[test]
fn a_submission_can_be_made_on_any_thread_of_a_runtime() {
    let schema = Schema::new("threads");
    let mut store = settled(&schema);
    let runtime = Runtime::new().unwrap();
    let name = schema.name.clone();
    runtime.block_on(async {
        let (mut client, connection) =
            everloom_postgres::tokio_postgres::connect(&server(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let task = tokio::spawn(async move {
            let mut tx = client.transaction().await.unwrap();
            Submitter::default().schema(&name).submit(&mut tx, work()).await.unwrap();
            tx.commit().await.unwrap();
        });
        task.await.unwrap();
    });
    assert_eq!(run(&mut store, up_to(9)).unwrap().leases.len(), 1);
}

fn inbox(store: &mut PgStore) -> InboxApplied {
    run(store, ApplyInbox::default()).unwrap()
}

#[test]
fn the_sql_function_asks_for_an_execution_and_tells_its_id() {
    let schema = Schema::new("function");
    let options = Options { poll: std::time::Duration::from_secs(3600), ..Options::default() };
    let mut store = PgStore::open(&schema.url, &options).unwrap();
    let heard = hear(&mut store);
    let mut program = Program::new(&schema);
    let open = program.begin();
    let name = &schema.name;
    let call = |arguments: &str| open.text(&format!("SELECT {name}.submit({arguments})::text"));
    let chosen = Uuid::from_u128(7).to_string();
    let ids = [
        call(r#"'work', '{"order": 17}', '{"tags": {"a": "b"}}'"#),
        call("'work', '\\x00ff'::bytea, 'image/png', '{}'"),
        call("'work'"),
        call(&format!(r#"'work', options => '{{"id": "{chosen}", "key": "k"}}'"#)),
    ];
    assert_eq!(ids[3], chosen);
    assert!(ids[..3].iter().all(|id| id.parse::<Uuid>().unwrap().get_version_num() == 7));
    open.commit();
    let done = loop {
        let done = inbox(&mut store);
        if done.applied > 0 {
            break done;
        }
        heard.recv().unwrap();
    };
    assert_eq!((done.applied, done.refused), (4, 0));
    let inputs = [
        (Payload::JSON, br#"{"order": 17}"#.to_vec()),
        ("image/png", vec![0, 255]),
        (Payload::BYTES, vec![]),
        (Payload::BYTES, vec![]),
    ];
    for (id, (content_type, bytes)) in ids.into_iter().zip(inputs) {
        let leased = claim_when_told(&mut store, &heard);
        assert_eq!(leased.id().to_string(), id);
        assert_eq!(leased.input, Some(Payload { content_type: content_type.into(), bytes }));
    }
}

#[test]
fn who_may_only_insert_into_the_inbox_may_call_the_sql_function() {
    let schema = Schema::new("function_role");
    let mut store = settled(&schema);
    let (name, role) = (&schema.name, format!("asks_{}", std::process::id()));
    let admin = Admin::new();
    admin.run(&format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {name} TO {role};
         GRANT INSERT ON {name}.inbox TO {role}; SET ROLE {role};
         SELECT {name}.submit('work', '{{}}'); RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}"
    ));
    assert_eq!(inbox(&mut store).applied, 1);
}

#[test]
fn a_rolled_back_call_of_the_sql_function_leaves_nothing() {
    let schema = Schema::new("function_back");
    let mut store = settled(&schema);
    let before = contents(&schema);
    let mut program = Program::new(&schema);
    let open = program.begin();
    open.text(&format!("SELECT {}.submit('work')::text", schema.name));
    assert_eq!(inbox(&mut store).applied, 0);
    open.rollback();
    assert_eq!(contents(&schema), before);
}

#[test]
fn what_the_rule_refuses_stays_in_the_inbox_with_its_error() {
    let schema = Schema::new("function_refused");
    let mut store = settled(&schema);
    let mut program = Program::new(&schema);
    let open = program.begin();
    open.text(&format!(r#"SELECT {}.submit('work', '1', '{{"lain": "x"}}')::text"#, schema.name));
    open.commit();
    assert_eq!(inbox(&mut store).refused, 1);
    let admin = Admin::new();
    let select =
        format!("SELECT code || ' ' || message FROM {}.inbox WHERE kind = $1", schema.name);
    let said = admin.text(&select, "work");
    assert!(said.starts_with("invalid_input options: unknown field `lain`"), "{said}");
}

#[test]
fn stores_that_apply_the_inbox_at_once_apply_each_request_once() {
    let schema = Schema::new("inbox_shared");
    let mut store = settled(&schema);
    let name = &schema.name;
    Admin::new().run(&format!("SELECT {name}.submit('work') FROM generate_series(1, 300)"));
    let applied: usize = std::thread::scope(|scope| {
        let appliers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut store = schema.open();
                    let mut applied = 0;
                    loop {
                        let done = run(&mut store, ApplyInbox { slice: 7 }).unwrap();
                        applied += done.applied;
                        if !done.more {
                            return applied;
                        }
                    }
                })
            })
            .collect();
        appliers.into_iter().map(|applier| applier.join().unwrap()).sum()
    });
    assert_eq!(applied + inbox(&mut store).applied, 300);
    assert_eq!(Admin::new().number(&format!("SELECT count(*) FROM {name}.executions")), 301);
}
