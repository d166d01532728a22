//! Rows to test a store with.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod limits;
pub(crate) mod mail;
pub(crate) mod streams;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everloom_core::{
    Beside, Defaults, Epoch, EventKind, Execution, ExecutionId, Lane, LaneId, Lease, MemoryStore,
    NamespaceId, NewEvent, Payload, Read, RouteId, RowId, Secret, Source, State, Store, Tags,
    Timestamp, Transaction,
};
use everloom_sqlite::{Location, Options, SqliteStore};
use rusqlite::Connection;

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn in_memory() -> SqliteStore {
    open_as(":memory:", &Options::default()).unwrap()
}

pub(crate) fn in_file(path: &Path) -> SqliteStore {
    open_as(path.to_str().unwrap(), &Options::default()).unwrap()
}

pub(crate) fn open_as(location: &str, options: &Options) -> everloom_core::Result<SqliteStore> {
    SqliteStore::open(&Location::parse(location)?, options)
}

/// Runs changes in a transaction of their own.
pub(crate) fn commit<T>(
    store: &mut SqliteStore,
    change: impl FnOnce(&mut dyn Transaction) -> T,
) -> T {
    let mut tx = store.begin().unwrap();
    let now = tx.last_now().unwrap();
    let value = change(&mut *tx);
    tx.commit(Timestamp::from_millis(now.as_millis() + 1)).unwrap();
    value
}

/// A namespace, one of its lanes and one of its routes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(crate) namespace: NamespaceId,
    pub(crate) lane: LaneId,
    pub(crate) route: RouteId,
}

impl Queue {
    pub(crate) fn add(tx: &mut dyn Transaction) -> Self {
        let namespace = tx.put_namespace("default", &Defaults::default()).unwrap().id;
        let lane: Arc<Lane> = tx.add_lane(namespace, "default").unwrap();
        let route = tx.add_route(namespace, "mail", &[]).unwrap();
        Self { namespace, lane: lane.id, route }
    }

    /// A waiting execution, not yet inserted.
    pub(crate) fn waiting(self, row: RowId) -> Execution {
        Execution {
            row,
            id: ExecutionId(uuid::Uuid::from_u128(row.0.unsigned_abs().into())),
            namespace: self.namespace,
            lane: self.lane,
            route: self.route,
            priority: 1000,
            rank: row.0,
            state: State::Waiting,
            since: at(row.0),
            held: false,
            deadline_at: None,
            created_at: at(row.0),
            started_at: None,
            epoch: Epoch(0),
            attempt: 0,
            retries: 0,
            reclaims: 0,
            run: 1,
            policy: Arc::default(),
            tags: Arc::default(),
            created_by: None,
            progress: None,
            key: None,
            gated: false,
            member: None,
            parent: None,
            beside: Beside::default(),
        }
    }

    /// Inserts a waiting execution with an event.
    pub(crate) fn submit(self, tx: &mut dyn Transaction) -> Execution {
        let execution = self.waiting(tx.new_row().unwrap());
        tx.insert(&execution, &Payload::bytes(*b"input"), None).unwrap();
        tx.add_event(&about(&execution, EventKind::Submitted)).unwrap();
        execution
    }
}

pub(crate) fn about(execution: &Execution, kind: EventKind) -> NewEvent {
    NewEvent {
        execution: Some((execution.row, execution.id)),
        lane: Some(execution.lane),
        epoch: Some(execution.epoch),
        tags: Arc::clone(&execution.tags),
        ..NewEvent::new(kind, execution.since, execution.namespace)
    }
}

pub(crate) fn leased(mut execution: Execution, worker: &str, until: Timestamp) -> Execution {
    execution.state = State::Active(Lease {
        worker: worker.into(),
        secret: Secret::new([7; 16]),
        until,
        ttl: Duration::from_secs(30),
        cancel: None,
        pause: None,
    });
    execution.epoch.0 += 1;
    execution
}

pub(crate) fn tags(pairs: &[(&str, &str)]) -> Tags {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The in-memory store and this one with the same rows.
pub(crate) fn both(fill: impl Fn(&mut dyn Transaction)) -> (MemoryStore, SqliteStore) {
    let mut stores = (MemoryStore::new(), in_memory());
    for store in [&mut stores.0 as &mut dyn Store, &mut stores.1] {
        let mut tx = store.begin().unwrap();
        fill(&mut *tx);
        tx.commit(at(1000)).unwrap();
    }
    stores
}

/// Expects the same answer of both stores to a question.
#[track_caller]
pub(crate) fn same<T: Debug>(
    stores: &mut (MemoryStore, SqliteStore),
    ask: impl Fn(&mut dyn Read) -> everloom_core::Result<T>,
) {
    let expected = ask(&mut *stores.0.read().unwrap());
    let found = ask(&mut *stores.1.read().unwrap());
    // Bugs are worded differently.
    if expected.is_err() && found.is_err() {
        return;
    }
    assert_eq!(format!("{found:#?}"), format!("{expected:#?}"));
}

/// How many rows each table has.
pub(crate) fn row_counts(path: &Path) -> BTreeMap<String, i64> {
    let conn = Connection::open(path).unwrap();
    let mut tables =
        conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let count = |table: String| {
        let sql = format!("SELECT count(*) FROM {table}");
        let count = conn.query_row(&sql, [], |row| row.get(0)).unwrap();
        (table, count)
    };
    tables.map(|table| count(table.unwrap())).collect()
}
