//! Files of older schemas, with data.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{Queue, at, commit, in_file};
use everloom_core::{
    ChoreKind, Execution, ExecutionId, FlowRow, KeyOf, LaneId, NamespaceId, Payload, RouteId,
    RowId, Source, State, Status, Tx,
};
use everloom_sqlite::SCHEMA_VERSION;
use rusqlite::Connection;
use uuid::Uuid;

const QUEUE: Queue = Queue { namespace: NamespaceId(1), lane: LaneId(1), route: RouteId(1) };

/// A file as the first release left it: a waiting, a held, an active and a failed execution.
fn first_schema(path: &Path) {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(include_str!("../migrations/0001_executions.sql")).unwrap();
    conn.execute_batch(
        r#"
        PRAGMA application_id = 1163283533;
        PRAGMA user_version = 1;
        UPDATE meta SET last_now = 500, last_row = 4, commits = 7;
        INSERT INTO namespaces (id, name) VALUES (1, 'default');
        INSERT INTO lanes (id, namespace, name, mode, active) VALUES (1, 1, 'default', 0, 1);
        INSERT INTO routes (id, namespace, kind, capabilities) VALUES (1, 1, 'mail', '[]');
        INSERT INTO executions (
            id, uuid, namespace, lane, route, priority, rank, state, held, due_at, since, until,
            created_at, started_at, epoch, attempt, retries, reclaims, run, worker, secret, ttl_ms,
            detail, tags, key
        )
        VALUES
            (1, x'00000000000000000000000000000001', 1, 1, 1, 1000, 1, 0, 0, NULL, 10, NULL, 10, NULL, 0, 0, 0,
                0, 1, NULL, NULL, NULL, NULL, '{"team":"a"}', 'once'),
            (2, x'00000000000000000000000000000002', 1, 1, 1, 1000, 2, 0, 1, NULL, 11, NULL, 11, NULL, 0, 0, 0,
                0, 1, NULL, NULL, NULL, NULL, NULL, NULL),
            (3, x'00000000000000000000000000000003', 1, 1, 1, 1000, 3, 4, 0, 900, 12, 900, 12, 12, 1, 1, 0,
                0, 1, 'w', zeroblob(16), 30000, NULL, NULL, NULL),
            (4, x'00000000000000000000000000000004', 1, 1, 1, 1000, 4, 11, 0, 950, 13, NULL, 13, 13, 2, 1, 0,
                0, 1, NULL, NULL, NULL, '{"reason":"permanent","message":"no paper"}', NULL, NULL);
        INSERT INTO inputs (execution, bytes) VALUES (1, x'6f6e65'), (2, x''), (3, x''), (4, x'');
        INSERT INTO tags (namespace, key, value, execution) VALUES (1, 'team', 'a', 1);
        INSERT INTO events (cursor, kind, at, namespace, execution, uuid)
        VALUES (1, 1, 10, 1, 1, x'00000000000000000000000000000001');
        INSERT INTO keys (namespace, key, execution, fingerprint)
        VALUES (1, 'once', x'00000000000000000000000000000001', zeroblob(16));
        INSERT INTO chores (id, kind, due_at)
        VALUES (8, '{"chore":"retention"}', 600), (9, 'gone', 700);
        DELETE FROM chores WHERE id = 9;
        "#,
    )
    .unwrap();
}

fn id(number: u128) -> ExecutionId {
    ExecutionId(Uuid::from_u128(number))
}

#[test]
fn a_file_of_the_first_schema_keeps_its_rows_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    first_schema(&path);
    let mut store = in_file(&path);
    let mut read = store.read().unwrap();
    let first = Execution {
        tags: Arc::new(common::tags(&[("team", "a")])),
        key: Some("once".into()),
        since: at(10),
        created_at: at(10),
        ..QUEUE.waiting(RowId(1))
    };
    assert_eq!(read.find(QUEUE.namespace, &[id(1)]).unwrap(), [Some(first.clone())]);
    assert_eq!(read.inputs(&[RowId(1)]).unwrap(), [Payload::bytes(*b"one")]);
    assert_eq!(read.claimable(QUEUE.lane, &[QUEUE.route], 9).unwrap(), [first]);
    assert!(read.execution(RowId(2)).unwrap().unwrap().held);
    assert_eq!(read.due(at(900), 9).unwrap()[0].id, id(3));
    assert_eq!(read.retired(at(950), 9).unwrap()[0].id, id(4));
    assert_eq!(read.execution(RowId(4)).unwrap().unwrap().status(), Status::Failed);
    assert_eq!(read.owned_by(QUEUE.namespace, "w", at(99), 9).unwrap().len(), 1);
    let key = read.keys(QUEUE.namespace, &["once"]).unwrap().pop().flatten().unwrap();
    assert_eq!(key.of, KeyOf::Execution(id(1)));
    let events = read.events(Default::default(), &Default::default(), 9, 9).unwrap().events;
    assert_eq!((events[0].execution, events[0].flow), (Some(id(1)), None));
    assert_eq!(read.chores(at(600), 9).unwrap()[0].kind, ChoreKind::Retention);
    assert_eq!(read.last_now().unwrap(), at(500));
    drop(read);
    commit(&mut store, |tx| {
        assert_eq!(QUEUE.submit(tx).row, RowId(5));
        assert_eq!(tx.new_flow_row().unwrap(), FlowRow(1));
        assert_eq!(next_chore(tx), 10);
        let mut active = tx.execution(RowId(3)).unwrap().unwrap();
        active.state = State::Resumable;
        tx.save(&active).unwrap();
        assert_eq!(tx.claimable(QUEUE.lane, &[QUEUE.route], 9).unwrap().len(), 3);
    });
}

/// An id is never used again, also not that of the last one that went before the migration.
fn next_chore(tx: &mut dyn Tx) -> i64 {
    tx.add_chore(&ChoreKind::RemoveFlow { flow: FlowRow(1) }, at(1)).unwrap().0
}

#[test]
fn a_migrated_file_and_a_new_one_have_the_same_schema() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old.db"), dir.path().join("new.db"));
    first_schema(&old);
    let schema = |path: &Path| {
        drop(in_file(path));
        let conn = Connection::open(path).unwrap();
        let version: u32 = conn.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(version, SCHEMA_VERSION);
        let check: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        let mut all = conn.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
        let all = all.query_map([], |row| row.try_into()).unwrap();
        all.map(Result::unwrap).collect::<Vec<(String, Option<String>)>>()
    };
    assert_eq!(schema(&old), schema(&new));
}
