//! Submitting within a transaction of one's own, and by plain SQL.

mod common;

use std::path::PathBuf;

use common::{at, in_file};
use everloom_core::*;
use everloom_sqlite::{SCHEMA_VERSION, SqliteStore, Submitter, submit};
use rusqlite::types::Value;
use rusqlite::{Connection, TransactionBehavior};

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        at(0)
    }
}

/// A file with an engine's store on it and a connection of a program beside it.
struct Shop {
    store: SqliteStore,
    conn: Connection,
    _folder: tempfile::TempDir,
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shop.db");
        let store = in_file(&file);
        let conn = Connection::open(&file).unwrap();
        conn.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
        Self { store, conn, _folder: folder }
    }

    fn begin(&mut self) -> rusqlite::Transaction<'_> {
        self.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
    }

    fn apply<C: Command>(&mut self, command: C) -> Result<C::Output> {
        let mut call = Call::new(command, Seed::random());
        run_batch(&mut self.store, &mut [&mut call], &Settings::default(), &Stopped);
        call.into_answer()
    }

    fn claim(&mut self, max: usize) -> Vec<Leased> {
        self.apply(Claim { max, ..Claim::new("w") }).unwrap().leases
    }

    fn engine_submits(&mut self, new: NewExecution) -> Result<Submission> {
        let submit = Submit { namespace: DEFAULT_NAME.into(), executions: vec![new] };
        Ok(self.apply(submit)?.executions[0])
    }

    fn orders(&self) -> i64 {
        self.conn.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
    }
}

/// Every row of every table.
fn dump(conn: &Connection) -> Vec<(String, Vec<Value>)> {
    let mut names = conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let names: Vec<String> =
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut rows = Vec::new();
    for name in names {
        let mut statement = conn.prepare(&format!("SELECT * FROM \"{name}\"")).unwrap();
        let columns = statement.column_count();
        let mut found = statement.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let values = (0..columns).map(|column| row.get(column).unwrap()).collect();
            rows.push((name.clone(), values));
        }
    }
    rows
}

fn work() -> NewExecution {
    NewExecution::new("work")
}

#[test]
fn a_submission_is_there_with_the_rows_of_its_transaction() {
    let mut shop = Shop::open();
    assert!(shop.claim(1).is_empty());
    let tx = shop.begin();
    tx.execute("INSERT INTO orders (id) VALUES (17)", []).unwrap();
    let Submission::Created { id, status } =
        submit(&tx, work().input(Payload::bytes("hello"))).unwrap()
    else {
        panic!("it is new")
    };
    assert_eq!(status, Status::Waiting);
    tx.commit().unwrap();
    assert!(shop.store.changed_elsewhere().unwrap());
    let leased = shop.claim(9);
    assert_eq!(leased.len(), 1);
    assert_eq!((leased[0].id(), &leased[0].input), (id, &Some(Payload::bytes("hello"))));
}

#[test]
fn a_rolled_back_submission_leaves_nothing() {
    let mut shop = Shop::open();
    shop.engine_submits(work()).unwrap();
    let before = dump(&shop.conn);
    let tx = shop.begin();
    let tagged = work().key("k").lane("new").tag("a", "b").input(Payload::bytes("x"));
    Submitter::default().namespace("new").submit(&tx, tagged).unwrap();
    assert_ne!(dump(&tx), before);
    tx.rollback().unwrap();
    assert_eq!(dump(&shop.conn), before);
    assert_eq!(shop.claim(9).len(), 1);
}

#[test]
fn a_refused_submission_leaves_the_transaction_as_it_was_and_usable() {
    let mut shop = Shop::open();
    shop.engine_submits(work().key("k")).unwrap();
    let tx = shop.begin();
    tx.execute("INSERT INTO orders (id) VALUES (17)", []).unwrap();
    let before = dump(&tx);
    let refused = [
        (vec![work().priority(-1)], Code::InvalidInput),
        (vec![work(), work().priority(1).key("k")], Code::IdempotencyConflict),
        (vec![], Code::InvalidInput),
    ];
    for (executions, code) in refused {
        let error = Submitter::default().submit_batch(&tx, executions).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(dump(&tx), before);
    }
    let small = Limits { payload_bytes: 3, ..Limits::default() };
    let large = work().input(Payload::bytes("four"));
    let error = Submitter::default().limits(small).submit(&tx, large).unwrap_err();
    assert_eq!(error.code(), Code::TooLarge);
    submit(&tx, work()).unwrap();
    tx.commit().unwrap();
    assert_eq!(shop.orders(), 1);
    assert_eq!(shop.claim(9).len(), 2);
}

#[test]
fn a_key_is_shared_within_and_across_transactions() {
    let mut shop = Shop::open();
    let tx = shop.begin();
    let first = submit(&tx, work().key("k")).unwrap();
    let again = submit(&tx, work().key("k")).unwrap();
    assert!(again.is_duplicate() && again.id() == first.id());
    tx.commit().unwrap();
    let by_engine = shop.engine_submits(work().key("k")).unwrap();
    assert!(by_engine.is_duplicate() && by_engine.id() == first.id());
    let tx = shop.begin();
    let later = submit(&tx, work().key("k")).unwrap();
    assert!(later.is_duplicate() && later.id() == first.id());
}

#[test]
fn submissions_of_both_sides_keep_their_order() {
    let mut shop = Shop::open();
    let mut submitted = Vec::new();
    for _ in 0..3 {
        submitted.push(shop.engine_submits(work()).unwrap().id());
        let tx = shop.begin();
        submitted.push(submit(&tx, work()).unwrap().id());
        submitted.push(submit(&tx, work()).unwrap().id());
        tx.commit().unwrap();
    }
    let claimed: Vec<_> = shop.claim(99).iter().map(Leased::id).collect();
    assert_eq!(claimed, submitted);
}

#[test]
fn a_file_without_the_current_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| -> PathBuf { folder.path().join(name) };
    let refusal = |mut conn: Connection| {
        let tx = conn.transaction().unwrap();
        submit(&tx, work()).unwrap_err().code()
    };
    assert_eq!(refusal(Connection::open(file("blank.db")).unwrap()), Code::MigrationNeeded);
    let other = Connection::open(file("other.db")).unwrap();
    other.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
    assert_eq!(refusal(other), Code::NotADatabase);
    for (version, code) in
        [(SCHEMA_VERSION - 1, Code::MigrationNeeded), (SCHEMA_VERSION + 1, Code::SchemaTooNew)]
    {
        let path = file(&format!("{version}.db"));
        drop(in_file(&path));
        let conn = Connection::open(path).unwrap();
        conn.execute_batch(&format!("PRAGMA user_version = {version}")).unwrap();
        assert_eq!(refusal(conn), code);
    }
}

#[test]
fn plain_sql_asks_for_executions_through_the_inbox() {
    let mut shop = Shop::open();
    let tx = shop.begin();
    tx.execute_batch(
        r#"INSERT INTO inbox (kind, input, options)
           VALUES ('json', '{"order": 17}', '{"priority": 5}');
           INSERT INTO inbox (kind, input) VALUES ('bytes', x'00ff');
           INSERT INTO inbox (kind, input, content_type) VALUES ('text', 'hello', 'text/plain');
           INSERT INTO inbox (kind) VALUES ('nothing');
           INSERT INTO inbox (kind, input) VALUES ('number', 7);"#,
    )
    .unwrap();
    tx.commit().unwrap();
    assert!(shop.store.changed_elsewhere().unwrap());
    let done = shop.apply(ApplyInbox::default()).unwrap();
    assert_eq!((done.applied, done.refused), (5, 0));
    let claimed = shop.claim(9);
    let input = |kind: &str| {
        let leased = claimed.iter().find(|leased| leased.kind == kind).unwrap();
        let input = leased.input.as_ref().unwrap();
        (input.content_type.as_ref(), input.bytes.as_slice())
    };
    assert_eq!(input("json"), (Payload::JSON, br#"{"order": 17}"#.as_slice()));
    assert_eq!(input("bytes"), (Payload::BYTES, [0, 255].as_slice()));
    assert_eq!(input("text"), ("text/plain", b"hello".as_slice()));
    assert_eq!(input("nothing"), (Payload::BYTES, b"".as_slice()));
    assert_eq!(input("number"), (Payload::JSON, b"7".as_slice()));
}

#[test]
fn a_rolled_back_request_leaves_nothing() {
    let mut shop = Shop::open();
    let tx = shop.begin();
    tx.execute("INSERT INTO inbox (kind) VALUES ('work')", []).unwrap();
    tx.rollback().unwrap();
    assert_eq!(shop.apply(ApplyInbox::default()).unwrap().applied, 0);
}

#[test]
fn a_request_that_is_not_even_text_is_refused_and_holds_up_nobody() {
    let mut shop = Shop::open();
    shop.conn
        .execute_batch(
            "INSERT INTO inbox (kind, options) VALUES (CAST(x'ff' AS TEXT), CAST(x'fe' AS TEXT));
             INSERT INTO inbox (kind, content_type) VALUES ('work', CAST(x'00ff' AS TEXT));
             INSERT INTO inbox (kind) VALUES ('work');",
        )
        .unwrap();
    let done = shop.apply(ApplyInbox::default()).unwrap();
    assert_eq!((done.applied, done.refused), (1, 2));
}

#[test]
fn a_submission_that_fails_half_way_is_taken_back_alone() {
    let mut shop = Shop::open();
    shop.conn
        .execute_batch(
            "CREATE TRIGGER fault BEFORE INSERT ON keys BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .unwrap();
    let tx = shop.begin();
    tx.execute("INSERT INTO orders (id) VALUES (17)", []).unwrap();
    let before = dump(&tx);
    // The execution is written before its key.
    assert_eq!(submit(&tx, work().key("k")).unwrap_err().code(), Code::Internal);
    assert_eq!(dump(&tx), before);
    tx.commit().unwrap();
    assert_eq!(shop.orders(), 1);
    assert!(shop.claim(9).is_empty());
}
