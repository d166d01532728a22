//! Behaviour of the store, with a small fixture: one namespace, two lanes, three routes.

mod events;
mod executions;
mod lists;
mod rollback;
mod truth;

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::MemoryStore;
use crate::event::{EventKind, NewEvent};
use crate::model::{
    Beside, Defaults, DelayCause, End, EndReason, Epoch, Execution, ExecutionId, Grant, LaneId,
    Lease, LeaseEnd, NamespaceId, Outcome, PastLease, Payload, Policy, Ready, RouteId, RowId,
    Secret, State, Tags, Timer, Timestamp, WorkerRow,
};
use crate::store::{Source, Store, Tx};

const NOW: Timestamp = at(1000);
const SPACE: NamespaceId = NamespaceId(1);
const LANE: LaneId = LaneId(1);
const OTHER_LANE: LaneId = LaneId(2);
const ROUTES: [RouteId; 3] = [RouteId(1), RouteId(2), RouteId(3)];

const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn empty_store() -> MemoryStore {
    let mut store = MemoryStore::new();
    change(&mut store, |tx| {
        tx.put_namespace("space", &Defaults::default()).unwrap();
        tx.add_lane(SPACE, "lane").unwrap();
        tx.add_lane(SPACE, "other").unwrap();
        for kind in ["mail", "render", "sleep"] {
            tx.add_route(SPACE, kind, &[]).unwrap();
        }
    });
    store
}

fn change<T>(store: &mut MemoryStore, write: impl FnOnce(&mut dyn Tx) -> T) -> T {
    let mut tx = store.begin().unwrap();
    let answer = write(&mut *tx);
    tx.commit(NOW).unwrap();
    answer
}

fn id(number: i64) -> ExecutionId {
    ExecutionId(Uuid::from_u128(u128::try_from(number).unwrap()))
}

fn execution(row: i64, state: State) -> Execution {
    Execution {
        row: RowId(row),
        id: id(row),
        namespace: SPACE,
        lane: LANE,
        route: ROUTES[0],
        priority: 1000,
        rank: row,
        state,
        since: NOW,
        held: false,
        gated: false,
        deadline_at: None,
        created_at: NOW,
        started_at: None,
        epoch: Epoch(0),
        attempt: 0,
        retries: 0,
        reclaims: 0,
        run: 1,
        policy: Arc::new(Policy {
            retention: Some(Duration::from_millis(500)),
            ..Policy::default()
        }),
        tags: Arc::default(),
        created_by: None,
        progress: None,
        key: None,
        member: None,
        parent: None,
        beside: Beside::default(),
    }
}

/// Inserts an execution in the next row.
fn insert(tx: &mut dyn Tx, state: State, adjust: impl FnOnce(&mut Execution)) -> Execution {
    let mut execution = execution(tx.new_row().unwrap().0, state);
    adjust(&mut execution);
    tx.insert(&execution, &Payload::bytes(*b"input"), None).unwrap();
    execution
}

fn delayed(until: Timestamp) -> State {
    State::Delayed(Timer { until, cause: DelayCause::Start, then: Ready::Waiting })
}

fn granted(worker: &str, until: Timestamp) -> State {
    State::Granted(Grant {
        worker: worker.into(),
        secret: Secret::new([1; 16]),
        until,
        back: Ready::Waiting,
    })
}

fn leased(worker: &str, until: Timestamp) -> State {
    State::Active(Lease {
        worker: worker.into(),
        secret: Secret::new([2; 16]),
        until,
        ttl: Duration::from_secs(30),
        cancel: None,
        pause: None,
    })
}

fn failed(message: &str) -> State {
    State::Ended(End {
        outcome: Outcome::Failed,
        reason: EndReason::Permanent,
        message: Some(message.into()),
        by: None,
    })
}

fn past_lease(row: i64, epoch: u64) -> PastLease {
    PastLease {
        execution: RowId(row),
        epoch: Epoch(epoch),
        attempt: 1,
        run: 1,
        worker: "w".into(),
        secret: Secret::new([3; 16]),
        claimed_at: NOW,
        ended_at: NOW,
        end: LeaseEnd::Expired,
    }
}

fn worker(instance: &str) -> WorkerRow {
    WorkerRow {
        namespace: SPACE,
        instance: instance.into(),
        name: "pool".into(),
        lanes: vec![],
        kinds: vec![],
        capabilities: vec![],
        ttl: Duration::from_millis(100),
        registered_at: NOW,
        seen_at: NOW,
    }
}

fn tags(name: &str, value: &str) -> Arc<Tags> {
    Arc::new(Tags::from([(name.into(), value.into())]))
}

/// An event about an execution, or about none.
fn event(kind: EventKind, when: Timestamp, execution: Option<i64>) -> NewEvent {
    NewEvent {
        execution: execution.map(|row| (RowId(row), id(row))),
        lane: execution.map(|_| LANE),
        ..NewEvent::new(kind, when, SPACE)
    }
}

fn rows(executions: &[Execution]) -> Vec<i64> {
    executions.iter().map(|execution| execution.row.0).collect()
}

#[test]
fn it_says_what_it_is_and_is_its_own_only_reader() {
    let mut store = MemoryStore::new();
    assert_eq!(store.info().store, "memory");
    assert!(store.reader().unwrap().is_none());
    assert!(!store.changed_elsewhere().unwrap());
}

#[test]
fn a_commit_keeps_its_time() {
    let mut store = MemoryStore::new();
    assert_eq!(store.read().unwrap().last_now().unwrap(), Timestamp::default());
    store.begin().unwrap().commit(at(7)).unwrap();
    drop(store.begin().unwrap());
    assert_eq!(store.read().unwrap().last_now().unwrap(), at(7));
}

#[test]
fn the_table_of_routes_is_shared_until_a_route_comes_or_goes() {
    let mut store = empty_store();
    let table = |store: &mut MemoryStore| store.read().unwrap().routes(SPACE).unwrap();
    let before = table(&mut store);
    change(&mut store, |tx| {
        insert(tx, State::Waiting, |_| ());
    });
    assert!(Arc::ptr_eq(&before, &table(&mut store)));

    let mut tx = store.begin().unwrap();
    let added = tx.add_route(SPACE, "new", &["gpu".into()]).unwrap();
    assert!(tx.routes(SPACE).unwrap().get(added).is_some());
    drop(tx);
    assert_eq!(table(&mut store).routes(), before.routes());

    let again = change(&mut store, |tx| tx.add_route(SPACE, "new", &["gpu".into()]).unwrap());
    assert!(again > added, "a rolled back id is not used again");
    assert_eq!(table(&mut store).find("new", &["gpu".into()]), Some(again));
}

#[test]
fn names_are_paged_in_their_order_and_stay_in_their_namespace() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        let neighbour = tx.put_namespace("neighbour", &Defaults::default()).unwrap();
        tx.add_lane(neighbour.id, "mine").unwrap();
        tx.add_lane(SPACE, "extra").unwrap();
    });
    let mut read = store.read().unwrap();
    let mut lanes = |after, limit| {
        let lanes = read.lanes(SPACE, after, limit).unwrap();
        lanes.iter().map(|lane| lane.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(lanes(None, 2), ["extra", "lane"]);
    assert_eq!(lanes(Some("lane"), 2), ["other"]);
    assert_eq!(lanes(Some("f"), 9), ["lane", "other"]);
    let spaces = read.namespaces(Some("neighbour"), 9).unwrap();
    assert_eq!(spaces.len(), 1);
    assert_eq!(spaces[0].name, "space");
}
