//! Files of older schemas, with data.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::limits::{before, open_use, quota};
use common::mail::{suspended, suspension};
use common::streams::{chunk, stream, summary};
use common::{Queue, at, commit, in_file};
use everloom_core::{
    Beside, Blocked, ChoreKind, Epoch, Execution, ExecutionId, FlowId, FlowRow, KeyOf, Lane,
    LaneId, LimitRow, ListScan, Member, NamespaceId, Payload, Policy, Progress, Ready, RouteId,
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

/// A file as the first release with flows left it: a member that has made others and waits for
/// them, one of these that is active, and one that was skipped.
fn third_schema(path: &Path) {
    let conn = Connection::open(path).unwrap();
    for migration in [
        include_str!("../migrations/0001_executions.sql"),
        include_str!("../migrations/0002_inbox.sql"),
        include_str!("../migrations/0003_flows.sql"),
    ] {
        conn.execute_batch(migration).unwrap();
    }
    conn.execute_batch(
        r#"
        PRAGMA application_id = 1163283533;
        PRAGMA user_version = 3;
        UPDATE meta SET last_now = 500, last_row = 3, last_flow = 1, commits = 7;
        INSERT INTO namespaces (id, name) VALUES (1, 'default');
        INSERT INTO lanes (id, namespace, name, mode, active) VALUES (1, 1, 'default', 0, 1);
        INSERT INTO routes (id, namespace, kind, capabilities) VALUES (1, 1, 'mail', '[]');
        INSERT INTO executions (
            id, uuid, namespace, lane, route, priority, rank, state, held, due_at, since, until,
            deadline_at, created_at, started_at, epoch, attempt, retries, reclaims, run, worker,
            secret, ttl_ms, detail, policy, tags, created_by, progress, key, spawned, parent, flow,
            flow_uuid, node
        )
        VALUES
            (1, x'00000000000000000000000000000001', 1, 1, 1, 5, 6, 5, 2, 800, 10, NULL, 800, 11,
                12, 7, 3, 1, 2, 4, NULL, NULL, NULL, '{"then":"resumable"}',
                '{"max_reclaims":2}', '{"team":"a"}', 'ann', '{"percent":5,"at":"1970-01-01T00:00:00.009Z"}', 'once', 1,
                NULL, 1, x'00000000000000000000000000000009', 'first'),
            (2, x'00000000000000000000000000000002', 1, 1, 1, 1000, 2, 4, 0, 900, 12, 900, NULL,
                12, 12, 1, 1, 0, 0, 1, 'w', zeroblob(16), 30000, NULL, NULL, NULL, NULL, NULL,
                NULL, 0, 1, 1, x'00000000000000000000000000000009', 'second'),
            (3, x'00000000000000000000000000000003', 1, 1, 1, 1000, 3, 14, 0, NULL, 13, NULL,
                NULL, 13, NULL, 2, 0, 0, 0, 1, NULL, NULL, NULL, '{"reason":"unreachable"}', NULL,
                NULL, NULL, NULL, NULL, 0, NULL, 1, x'00000000000000000000000000000009', 'third');
        INSERT INTO edges (source, target, ordinal, flow, condition, applied)
        VALUES (2, 1, 0, 1, 0, 1);
        "#,
    )
    .unwrap();
}

/// A file as the first release with suspensions left it: an execution that has waited and recorded a
/// step, and is active.
fn fourth_schema(path: &Path) {
    let conn = Connection::open(path).unwrap();
    for migration in [
        include_str!("../migrations/0001_executions.sql"),
        include_str!("../migrations/0002_inbox.sql"),
        include_str!("../migrations/0003_flows.sql"),
        include_str!("../migrations/0004_suspension.sql"),
    ] {
        conn.execute_batch(migration).unwrap();
    }
    conn.execute_batch(
        r#"
        PRAGMA application_id = 1163283533;
        PRAGMA user_version = 4;
        UPDATE meta SET last_now = 500, last_row = 1, commits = 7;
        INSERT INTO namespaces (id, name) VALUES (1, 'default');
        INSERT INTO lanes (id, namespace, name, mode, active) VALUES (1, 1, 'default', 0, 1);
        INSERT INTO routes (id, namespace, kind, capabilities) VALUES (1, 1, 'mail', '[]');
        INSERT INTO executions (
            id, uuid, namespace, lane, route, priority, rank, state, held, due_at, since, until,
            created_at, started_at, epoch, attempt, retries, reclaims, run, worker, secret, ttl_ms,
            beside
        )
        VALUES
            (1, x'00000000000000000000000000000001', 1, 1, 1, 1000, 1, 4, 0, 900, 12, 900, 12, 12,
                1, 1, 0, 0, 1, 'w', zeroblob(16), 30000, 6);
        INSERT INTO payloads (id, content_type, bytes) VALUES (1, 1, x'31');
        INSERT INTO steps (execution, seq, name, occurrence, result, facts)
        VALUES (1, 1, 's', 0, 1, '{"kind":"run","at":"1970-01-01T00:00:00.007Z","attempt":1,"run":1,"size":1}');
        "#,
    )
    .unwrap();
}

/// A file as the first release with streams left it: an execution with a stream, a key of a flow and
/// one of an execution.
fn fifth_schema(path: &Path) {
    fourth_schema(path);
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(include_str!("../migrations/0005_streams.sql")).unwrap();
    conn.execute_batch(
        r#"
        PRAGMA user_version = 5;
        UPDATE namespaces SET defaults = '{"priority":5}';
        UPDATE executions SET beside = 14;
        INSERT INTO keys (namespace, key, execution, flow, fingerprint, expires_at)
        VALUES
            (1, 'e', x'00000000000000000000000000000001', NULL, zeroblob(16), 600),
            (1, 'f', NULL, x'00000000000000000000000000000002', zeroblob(16), NULL);
        INSERT INTO streams (execution, state) VALUES (1, '{"last":2}');
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

#[test]
fn members_keep_all_that_is_known_of_them_and_can_be_suspended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    third_schema(&path);
    let mut store = in_file(&path);
    let member = |node: &str| {
        let flow_id = FlowId(Uuid::from_u128(9));
        Some(Arc::new(Member { flow: FlowRow(1), flow_id, node: node.into() }))
    };
    let first = Execution {
        priority: 5,
        rank: 6,
        state: State::WaitingChildren(Blocked {
            then: Ready::Resumable,
            delay: None,
            start_at: None,
        }),
        gated: true,
        since: at(10),
        deadline_at: Some(at(800)),
        created_at: at(11),
        started_at: Some(at(12)),
        epoch: Epoch(7),
        attempt: 3,
        retries: 1,
        reclaims: 2,
        run: 4,
        policy: Arc::new(Policy { max_reclaims: Some(2), ..Default::default() }),
        tags: Arc::new(common::tags(&[("team", "a")])),
        created_by: Some("ann".into()),
        progress: Some(Progress { percent: Some(5), message: None, at: at(9) }),
        key: Some("once".into()),
        beside: Beside { children: true, ..Default::default() },
        member: member("first"),
        ..QUEUE.waiting(RowId(1))
    };
    commit(&mut store, |tx| {
        assert_eq!(tx.execution(RowId(1)).unwrap().unwrap(), first);
        let second = tx.member(FlowRow(1), "second").unwrap().unwrap();
        assert_eq!((second.id, &second.member), (id(2), &member("second")));
        assert_eq!((second.beside, second.parent), (Beside::default(), Some(RowId(1))));
        assert_eq!(tx.children(RowId(1), None, 9).unwrap(), std::slice::from_ref(&second));
        assert_eq!(tx.due(at(900), 9).unwrap(), [first.clone(), second.clone()]);
        assert_eq!(tx.execution(RowId(3)).unwrap().unwrap().status(), Status::Skipped);
        let statuses = vec![Status::Skipped];
        let filter = ListScan { namespace: QUEUE.namespace, statuses, ..Default::default() };
        assert_eq!(tx.list(&filter, None, 9, 9).unwrap().executions[0].id, id(3));

        let state = suspended(QUEUE, RowId(2), Some(at(70))).state;
        let waiting = Execution { state, beside: Beside::from_code(7), ..second };
        tx.save(&waiting).unwrap();
        tx.add_suspension(&suspension(RowId(2), 1)).unwrap();
        assert_eq!(tx.due(at(70), 9).unwrap(), [waiting]);
        tx.remove(&first).unwrap();
        assert_eq!(tx.edges_into(RowId(1), false).unwrap(), []);
    });
}

#[test]
fn what_lies_beside_an_execution_stays_there_and_a_stream_comes_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    fourth_schema(&path);
    let mut store = in_file(&path);
    let mut execution = store.read().unwrap().execution(RowId(1)).unwrap().unwrap();
    let before = Beside { mail: true, steps: true, ..Default::default() };
    assert_eq!((execution.status(), execution.beside), (Status::Active, before));
    execution.beside.stream = true;
    commit(&mut store, |tx| {
        assert_eq!(tx.stream(RowId(1)).unwrap(), None);
        tx.save(&execution).unwrap();
        tx.add_chunk(&chunk(RowId(1), 1, false, 2)).unwrap();
        tx.put_stream(&execution, &stream(RowId(1), 2)).unwrap();
        tx.put_summary(&summary(RowId(1), b"{}")).unwrap();
    });
    let mut read = store.read().unwrap();
    assert_eq!(read.execution(RowId(1)).unwrap(), Some(execution));
    assert_eq!(read.step_results(RowId(1), &[1]).unwrap(), [Payload::json(&1).unwrap()]);
    assert_eq!(read.chunks(RowId(1), 0, 2, true, 9, 99).unwrap(), [chunk(RowId(1), 1, false, 2)]);
    assert_eq!(read.stream(RowId(1)).unwrap(), Some(stream(RowId(1), 2)));
    assert_eq!(read.summary(RowId(1)).unwrap(), Some(summary(RowId(1), b"{}")));
}

#[test]
fn what_was_there_is_under_no_limits_and_comes_under_some() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    fifth_schema(&path);
    let mut store = in_file(&path);
    let mut execution = store.read().unwrap().execution(RowId(1)).unwrap().unwrap();
    assert_eq!(execution.status(), Status::Active);
    assert!(execution.beside.stream && !execution.beside.limits);
    commit(&mut store, |tx| {
        let namespace = tx.namespace("default").unwrap().unwrap();
        assert_eq!((namespace.defaults.priority, namespace.limits.is_empty()), (Some(5), true));
        let lane = tx.lane_by_id(QUEUE.lane).unwrap();
        assert_eq!(*lane, Lane { active: 1, ..Lane::new(QUEUE.lane, QUEUE.namespace, "default") });
        let keys = tx.keys(QUEUE.namespace, &["e", "f"]).unwrap();
        let of = keys.into_iter().flatten().map(|key| key.of).collect::<Vec<_>>();
        assert_eq!(of, [KeyOf::Execution(id(1)), KeyOf::Flow(FlowId(Uuid::from_u128(2)))]);
        assert_eq!(tx.trim_keys(at(600), 9).unwrap(), 1);

        let limit = tx.new_limit_row().unwrap();
        assert_eq!(limit, LimitRow(1));
        tx.put_limit(&quota(limit, QUEUE.namespace, "q")).unwrap();
        let gate = tx.gate(QUEUE.namespace, limit, "").unwrap().row;
        execution.state = before(gate);
        execution.beside.limits = true;
        tx.save(&execution).unwrap();
        tx.put_use(&open_use(execution.row, limit)).unwrap();
        assert_eq!(tx.limited(gate, 9).unwrap(), std::slice::from_ref(&execution));
    });
    assert_eq!(store.read().unwrap().execution(RowId(1)).unwrap(), Some(execution));
}

/// An id is never used again, also not that of the last one that went before the migration.
fn next_chore(tx: &mut dyn Tx) -> i64 {
    tx.add_chore(&ChoreKind::RemoveFlow { flow: FlowRow(1) }, at(1)).unwrap().0
}

#[test]
fn a_migrated_file_and_a_new_one_have_the_same_schema() {
    let dir = tempfile::tempdir().unwrap();
    let [first, third, fourth, fifth, new] =
        ["1.db", "3.db", "4.db", "5.db", "new.db"].map(|name| dir.path().join(name));
    first_schema(&first);
    third_schema(&third);
    fourth_schema(&fourth);
    fifth_schema(&fifth);
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
    let new = schema(&new);
    assert_eq!(schema(&first), new);
    assert_eq!(schema(&third), new);
    assert_eq!(schema(&fourth), new);
    assert_eq!(schema(&fifth), new);
}
