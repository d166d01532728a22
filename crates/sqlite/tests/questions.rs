//! Every question, asked of this store and of the in-memory one over the same rows.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Queue, about, at, both, leased, same, tags};
use everloom_core::{
    ChoreKind, Cursor, Defaults, End, EndReason, Epoch, EventKind, EventScan, Execution,
    ExecutionId, FlowId, Grant, Key, KeyOf, LaneMode, LeaseEnd, ListScan, MemoryStore, Outcome,
    PastLease, Payload, Policy, Progress, Read, Ready, RouteId, RowId, Secret, State, Status,
    Store, Timestamp, Transaction, WorkerRow,
};
use everloom_sqlite::SqliteStore;
use uuid::Uuid;

fn ended(outcome: Outcome, message: Option<&str>) -> State {
    let reason = EndReason::Permanent;
    State::Ended(End { outcome, reason, message: message.map(Into::into), by: Some("w1".into()) })
}

/// Rows of every kind: two namespaces, two lanes, three routes, sixty executions.
fn fill(tx: &mut dyn Transaction) {
    let queue = Queue::add(tx);
    let defaults = Defaults { priority: Some(5), ..Default::default() };
    let other = tx.put_namespace("other", &defaults).unwrap().id;
    tx.put_namespace("default", &defaults).unwrap();
    let mut slow = (*tx.add_lane(queue.namespace, "slow").unwrap()).clone();
    (slow.mode, slow.max_active, slow.active) = (LaneMode::Draining, Some(3), 1);
    tx.save_lane(&slow).unwrap();
    tx.add_lane(other, "default").unwrap();
    tx.add_route(queue.namespace, "render", &["gpu".into()]).unwrap();
    tx.add_route(other, "mail", &[]).unwrap();
    for number in 0..60 {
        let mut execution = queue.waiting(tx.new_row().unwrap());
        execution.route = RouteId(1 + number % 2);
        execution.lane = if number % 5 == 0 { slow.id } else { queue.lane };
        if number % 11 == 0 {
            execution.namespace = other;
        }
        decorate(&mut execution, number);
        let fingerprint = (number % 3 == 0).then_some([number as u8; 16]);
        tx.insert(&execution, &input(number), fingerprint.as_ref()).unwrap();
        tx.add_event(&about(&execution, EventKind::Submitted)).unwrap();
        change(tx, &mut execution, number);
    }
    fill_small_tables(tx, queue);
}

fn input(number: i64) -> Payload {
    match number % 4 {
        0 => Payload::default(),
        1 => Payload::json(&number).unwrap(),
        2 => Payload { content_type: "image/png".into(), bytes: vec![1, 2, 3] },
        _ => Payload::bytes(*b"bytes"),
    }
}

fn decorate(execution: &mut Execution, number: i64) {
    execution.held = number % 13 == 0;
    execution.created_by = (number % 4 == 0).then(|| "ann".into());
    execution.key = (number % 6 == 0).then(|| format!("key{number}"));
    execution.deadline_at = (number % 8 == 0).then(|| at(500 + number));
    if number % 3 == 0 {
        execution.tags = Arc::new(tags(&[("team", "a"), ("n", &(number % 2).to_string())]));
    }
    if number % 7 == 0 {
        execution.policy = Arc::new(Policy { max_reclaims: Some(2), ..Default::default() });
    }
}

fn change(tx: &mut dyn Transaction, execution: &mut Execution, number: i64) {
    execution.state = match number % 9 {
        0 | 1 => return,
        2 => leased(execution.clone(), "w1", at(100 - number)).state,
        3 => leased(execution.clone(), "w2", at(90)).state,
        4 => State::Granted(Grant {
            worker: "w1".into(),
            secret: Secret::new([1; 16]),
            until: at(300),
            back: Ready::Resumable,
        }),
        5 => ended(Outcome::Failed, Some("Out of PAPER")),
        6 => ended(Outcome::Cancelled, None),
        7 => ended(Outcome::Completed, None),
        _ => ended(Outcome::Expired, Some("too late")),
    };
    execution.since = at(200 + number);
    execution.epoch.0 += 1;
    execution.attempt = 1;
    execution.started_at = Some(at(150));
    execution.progress =
        (number % 2 == 0).then(|| Progress { percent: Some(5), message: None, at: at(9) });
    tx.save(execution).unwrap();
    tx.add_event(&about(execution, EventKind::Claimed)).unwrap();
    if execution.status().is_terminal() {
        tx.put_result(execution.row, &input(number)).unwrap();
        for (epoch, end) in [
            (1, LeaseEnd::Completed),
            (2, LeaseEnd::Revoked { reason: None, by: "ops".into() }),
            (5, LeaseEnd::Expired),
        ] {
            tx.add_past_lease(&past(execution.row, epoch, end)).unwrap();
        }
    }
    if number % 10 == 8 {
        execution.tags = Arc::new(tags(&[("team", "b")]));
        tx.save_tags(execution).unwrap();
    }
    if number % 15 == 14 {
        tx.remove(execution).unwrap();
    }
    if number % 16 == 15 {
        tx.drop_result(execution.row).unwrap();
    }
}

fn past(execution: RowId, epoch: u64, end: LeaseEnd) -> PastLease {
    PastLease {
        execution,
        epoch: Epoch(epoch),
        attempt: 1,
        run: 1,
        worker: "w".into(),
        secret: Secret::new([2; 16]),
        claimed_at: at(1),
        ended_at: at(2),
        end,
    }
}

fn fill_small_tables(tx: &mut dyn Transaction, queue: Queue) {
    for number in 0..6 {
        let key = Key {
            namespace: queue.namespace,
            key: format!("key{number}"),
            of: match number {
                1 => KeyOf::Flow(FlowId(Uuid::from_u128(7))),
                _ => KeyOf::Execution(ExecutionId(Uuid::from_u128(7))),
            },
            fingerprint: [3; 16],
            expires_at: (number % 2 == 0).then(|| at(number)),
        };
        tx.put_key(&key).unwrap();
        tx.put_key(&Key { fingerprint: [4; 16], ..key }).unwrap();
        let worker = WorkerRow {
            namespace: queue.namespace,
            instance: format!("w{number}"),
            name: "pool".into(),
            lanes: vec!["default".into()],
            kinds: vec![],
            capabilities: vec!["gpu".into()],
            ttl: Duration::from_millis(50),
            registered_at: at(1),
            seen_at: at(10 * number),
        };
        tx.put_worker(&worker).unwrap();
        tx.put_worker(&WorkerRow { name: "other".into(), ..worker }).unwrap();
    }
    tx.drop_worker(queue.namespace, "w3").unwrap();
    tx.drop_key(queue.namespace, "key5").unwrap();
    let retention = tx.add_chore(&ChoreKind::Retention, at(70)).unwrap();
    let id = tx.add_chore(&gone("w1"), at(60)).unwrap();
    let mut chore = tx.find_chore(&gone("w1")).unwrap().unwrap();
    assert_eq!(chore.id, id);
    (chore.kind, chore.due_at) = (gone("w2"), at(80));
    tx.save_chore(&chore).unwrap();
    tx.drop_chore(retention).unwrap();
    tx.add_chore(&gone("w3"), at(65)).unwrap();
    assert_eq!(tx.trim_keys(at(2), 10).unwrap(), 2);
    assert_eq!(tx.trim_events(at(4), 2).unwrap(), 2);
}

fn gone(instance: &str) -> ChoreKind {
    ChoreKind::WorkerGone {
        namespace: everloom_core::NamespaceId(1),
        instance: instance.into(),
        by: at(1),
    }
}

fn filled() -> (MemoryStore, SqliteStore) {
    both(fill)
}

const FIRST: everloom_core::NamespaceId = everloom_core::NamespaceId(1);
const LANE: everloom_core::LaneId = everloom_core::LaneId(1);

#[test]
fn rows_are_found_by_what_names_them() {
    let stores = &mut filled();
    same(stores, |read| read.last_now());
    for name in ["default", "other", "none"] {
        same(stores, |read| read.namespace(name));
        same(stores, |read| read.lane(FIRST, name));
        same(stores, |read| read.worker(FIRST, name));
        same(stores, |read| read.namespaces(Some(name), 5));
        same(stores, |read| read.lanes(FIRST, Some(name), 5));
    }
    same(stores, |read| read.namespaces(None, 1));
    same(stores, |read| read.lanes(FIRST, None, 5));
    same(stores, |read| read.namespace_by_id(FIRST));
    same(stores, |read| read.lane_by_id(LANE));
    same(stores, |read| Ok(read.routes(FIRST)?.routes().to_vec()));
    same(stores, |read| read.workers(FIRST, Some("w1"), 3));
    same(stores, |read| read.workers(FIRST, None, 10));
    same(stores, |read| read.keys(FIRST, &["key1", "key0", "key4", "key5"]));
    for row in 1..=60 {
        let id = ExecutionId(Uuid::from_u128(row as u128));
        let exists = stores.0.begin().unwrap().find(FIRST, &[id]).unwrap()[0].is_some();
        same(stores, |read| read.find(FIRST, &[id, id]));
        same(stores, |read| read.result(RowId(row)));
        same(stores, |read| read.fingerprint(RowId(row)));
        same(stores, |read| read.past_lease(RowId(row), Epoch(2)));
        same(stores, |read| read.past_leases(RowId(row), Epoch(1), 5));
        if exists {
            same(stores, |read| read.inputs(&[RowId(row)]));
        }
    }
}

#[test]
fn what_time_and_workers_ask_for_is_found() {
    let stores = &mut filled();
    for time in [0, 50, 89, 90, 95, 250, 300, 520, 700_000_000, i64::MAX / 2] {
        let time: Timestamp = at(time);
        for limit in [1, 7, 100] {
            same(stores, |read| read.due(time, limit));
            same(stores, |read| read.retired(time, limit));
            same(stores, |read| read.owned_by(FIRST, "w1", time, limit));
            same(stores, |read| read.lapsed_workers(time, limit));
            same(stores, |read| read.chores(time, limit));
            same(stores, |read| read.expired_leases(FIRST, time, None, limit));
        }
        let first = stores.0.begin().unwrap().expired_leases(FIRST, time, None, 3).unwrap();
        if let Some(State::Active(lease)) = first.last().map(|execution| &execution.state) {
            let after = (lease.until, first[first.len() - 1].id);
            same(stores, |read| read.expired_leases(FIRST, time, Some(after), 4));
        }
    }
    same(stores, |read| read.next_due());
    same(stores, |read| read.count_owned(LANE));
    same(stores, |read| read.oldest_ready(LANE));
    same(stores, |read| read.counts(FIRST, None));
    same(stores, |read| read.counts(FIRST, Some(LANE)));
    same(stores, |read| read.find_chore(&gone("w2")));
    same(stores, |read| read.find_chore(&ChoreKind::Retention));
    for routes in [&[RouteId(1)][..], &[RouteId(1), RouteId(2)], &[RouteId(3)]] {
        same(stores, |read| read.claimable(LANE, routes, 20));
    }
}

#[test]
fn the_log_is_read_by_any_filter() {
    let stores = &mut filled();
    let id = ExecutionId(Uuid::from_u128(12));
    let all = EventScan::default();
    let filters = [
        all.clone(),
        EventScan { namespace: Some(FIRST), ..all.clone() },
        EventScan { kinds: vec![EventKind::Claimed], ..all.clone() },
        EventScan { execution: Some(id), ..all.clone() },
        EventScan { execution: Some(id), row: Some(RowId(12)), ..all.clone() },
        EventScan { lane: Some(LANE), ..all.clone() },
        EventScan { tags: tags(&[("team", "a"), ("n", "1")]), ..all },
    ];
    same(stores, |read| read.event_span());
    for filter in &filters {
        for after in [2, 9, 60, 500] {
            for (limit, scan) in [(3, 1000), (1000, 5), (1000, 1000), (2, 2)] {
                same(stores, |read| read.events(Cursor(after), filter, limit, scan));
            }
        }
    }
}

/// Every page of a list, down to the end.
fn whole_list(
    read: &mut dyn Read,
    filter: &ListScan,
    limit: usize,
    scan: usize,
) -> everloom_core::Result<Vec<Execution>> {
    let mut found = Vec::new();
    let mut below = None;
    loop {
        let slice = read.list(filter, below, limit, scan)?;
        assert!(slice.executions.len() <= limit);
        found.extend(slice.executions);
        match slice.next {
            Some(next) => below = Some(next),
            None => return Ok(found),
        }
    }
}

#[test]
fn executions_are_listed_by_any_filter() {
    let stores = &mut filled();
    let all = ListScan { namespace: FIRST, ..Default::default() };
    let filters = [
        all.clone(),
        ListScan { statuses: vec![Status::Waiting, Status::Failed], ..all.clone() },
        ListScan { statuses: vec![Status::Failed], ..all.clone() },
        ListScan { statuses: vec![Status::Expired, Status::Cancelled], ..all.clone() },
        ListScan { statuses: vec![Status::Completed], ..all.clone() },
        ListScan { held: Some(true), ..all.clone() },
        ListScan { routes: Some(vec![RouteId(2)]), ..all.clone() },
        ListScan { routes: Some(vec![]), ..all.clone() },
        ListScan { lane: Some(LANE), ..all.clone() },
        ListScan { tags: tags(&[("team", "a")]), ..all.clone() },
        ListScan { tags: tags(&[("team", "b")]), ..all.clone() },
        ListScan { tags: tags(&[("team", "a"), ("n", "1")]), ..all.clone() },
        ListScan { worker: Some("w1".into()), ..all.clone() },
        ListScan { created_by: Some("ann".into()), ..all.clone() },
        ListScan { created_from: Some(at(20)), created_before: Some(at(30)), ..all.clone() },
        ListScan { text: Some("of paper".into()), ..all.clone() },
        ListScan {
            worker: Some("w1".into()),
            tags: tags(&[("team", "a")]),
            statuses: vec![Status::Active],
            ..all
        },
    ];
    for filter in &filters {
        for (limit, scan) in [(1000, 1000), (3, 1000), (1000, 7), (2, 3)] {
            same(stores, |read| whole_list(read, filter, limit, scan));
        }
        same(stores, |read| Ok(read.list(filter, Some(RowId(30)), 1000, 1000)?.executions));
    }
}
