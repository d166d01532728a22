//! Flows, their members and what ties them together: every question, asked of this store and of the
//! in-memory one over the same rows, and what the questions cost.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Queue, about, at, both, commit, in_file, in_memory, same, tags};
use everloom_core::{
    Beginning, Blocked, CancelScope, ChoreKind, Closing, ClosingCause, Edge, EdgeId, End,
    EndReason, EventKind, EventScan, Execution, ExecutionId, Extent, Flow, FlowCounts, FlowEnd,
    FlowId, FlowOutcome, FlowRow, FlowScan, FlowState, FlowStatus, FlowTerms, Join, Key, KeyOf,
    LaneId, ListScan, Member, NamespaceId, Need, NewEvent, Otherwise, Outcome, Payload, Policy,
    Read, Ready, Rest, RouteId, RowId, Source, State, Status, Store, Transaction, Verdict, When,
};
use everloom_sqlite::SqliteStore;
use rusqlite::Connection;
use uuid::Uuid;

fn flow(queue: Queue, row: FlowRow) -> Flow {
    Flow {
        row,
        id: FlowId(Uuid::from_u128(1000 + u128::from(row.0.unsigned_abs()))),
        namespace: queue.namespace,
        kind: None,
        state: FlowState::Open,
        since: at(row.0),
        held: false,
        run: 1,
        counts: FlowCounts::default(),
        terms: Arc::default(),
        deadline_at: None,
        created_at: at(row.0),
        tags: Arc::default(),
        parent: None,
        fingerprint: [row.0 as u8; 16],
    }
}

fn member(queue: Queue, row: RowId, flow: &Flow, node: &str) -> Execution {
    let member = Member { flow: flow.row, flow_id: flow.id, node: node.to_owned() };
    Execution { member: Some(Arc::new(member)), ..queue.waiting(row) }
}

fn edge(flow: &Flow, source: RowId, target: RowId, ordinal: u32) -> Edge {
    let flow = flow.row;
    let (when, bind, id) = (When::default(), None, None);
    Edge { source, target, ordinal, flow, when, bind, id, applied: true }
}

fn join(target: RowId, sources: u32) -> Join {
    Join {
        target,
        need: Need::All,
        rest: Rest::Run,
        otherwise: Otherwise::Skip,
        sources,
        met: 0,
        unmet: 0,
        verdict: None,
    }
}

fn closing(cause: ClosingCause) -> Closing {
    Closing {
        cause,
        scope: CancelScope::Pending,
        reason: Some("enough".into()),
        by: "ops".into(),
        at: at(3),
        grace: Duration::from_millis(7),
        extent: Extent { stopped: 1, running: 2, finished: 3 },
    }
}

/// A flow in each state, among them one in another namespace, with six members each.
fn fill(tx: &mut dyn Transaction) {
    let queue = Queue::add(tx);
    let other = tx.put_namespace("other", &Default::default()).unwrap().id;
    let states = [
        FlowState::Open,
        FlowState::Open,
        FlowState::Closing(closing(ClosingCause::Deadline)),
        FlowState::Ended(FlowEnd { outcome: FlowOutcome::Completed, closing: None }),
        FlowState::Ended(FlowEnd {
            outcome: FlowOutcome::Failed,
            closing: Some(closing(ClosingCause::MemberFailure)),
        }),
        FlowState::Ended(FlowEnd {
            outcome: FlowOutcome::Cancelled,
            closing: Some(closing(ClosingCause::Cancel)),
        }),
        FlowState::Ended(FlowEnd { outcome: FlowOutcome::Expired, closing: None }),
        FlowState::Open,
    ];
    for (number, state) in states.into_iter().enumerate() {
        let mut flow = flow(queue, tx.new_flow_row().unwrap());
        if number == 7 {
            flow.namespace = other;
        }
        if number % 2 == 0 {
            flow.kind = Some("nightly".into());
            flow.tags = Arc::new(tags(&[("team", "a")]));
            let policy = Policy { max_reclaims: Some(2), ..Default::default() };
            flow.terms = Arc::new(FlowTerms { policy, ..Default::default() });
            flow.deadline_at = Some(at(77));
            flow.parent = Some(RowId(1));
        }
        tx.insert_flow(&flow).unwrap();
        fill_flow(tx, queue, &flow, number);
        (flow.state, flow.held, flow.run) = (state, number == 1, 2);
        flow.since = at(50);
        flow.deadline_at = (number == 3).then(|| at(99));
        flow.counts = FlowCounts { nodes: 6, edges: 5, unsettled: 1, ..Default::default() };
        if number > 4 {
            flow.tags = Arc::new(tags(&[("team", "b")]));
        }
        tx.save_flow(&flow).unwrap();
    }
    tx.put_key(&Key {
        namespace: queue.namespace,
        key: "once".into(),
        of: KeyOf::Execution(ExecutionId(Uuid::from_u128(1))),
        fingerprint: [1; 16],
        expires_at: None,
    })
    .unwrap();
    let gone = flow(queue, tx.new_flow_row().unwrap());
    tx.insert_flow(&gone).unwrap();
    tx.remove_flow(&gone).unwrap();
}

fn fill_flow(tx: &mut dyn Transaction, queue: Queue, flow: &Flow, number: usize) {
    let mut rows = Vec::new();
    for (place, node) in ["e", "b", "d", "a", "c", "f"].into_iter().enumerate() {
        let mut execution = member(queue, tx.new_row().unwrap(), flow, node);
        execution.namespace = flow.namespace;
        execution.gated = number == 1;
        execution.held = number == 2;
        execution.parent = (place < 4 && number > 2).then_some(RowId(number as i64));
        let place_in_flow = if place == 5 { execution.member.take() } else { None };
        tx.insert(&execution, &Payload::default(), None).unwrap();
        let event = about(&execution, EventKind::Submitted);
        tx.add_event(&NewEvent { flow: Some(flow.id), ..event }).unwrap();
        change(tx, &mut execution, place);
        if place == 5 {
            execution.member = place_in_flow;
            tx.save_member(&execution).unwrap();
        }
        rows.push(execution);
    }
    tie(tx, flow, &rows, number);
}

fn change(tx: &mut dyn Transaction, execution: &mut Execution, place: usize) {
    let end = |outcome| {
        State::Ended(End { outcome, reason: EndReason::Unreachable, message: None, by: None })
    };
    let blocked = Blocked { then: Ready::Waiting, delay: None, start_at: Some(at(5)) };
    execution.state = match place {
        0 => return,
        1 => State::WaitingChildren(blocked),
        2 => end(Outcome::Skipped),
        3 => end(Outcome::Failed),
        4 => State::Resumable,
        _ => end(Outcome::Completed),
    };
    execution.started_at = (place > 2).then(|| at(9));
    execution.beside.children = place == 1;
    execution.gated |= place == 4;
    tx.save(execution).unwrap();
}

fn tie(tx: &mut dyn Transaction, flow: &Flow, rows: &[Execution], number: usize) {
    let row = |place: usize| rows[place].row;
    let bound = Edge { bind: Some("x".into()), ..edge(flow, row(0), row(2), 0) };
    let failed = Edge { when: When::Failure, ..edge(flow, row(0), row(2), 1) };
    let done = Edge { when: When::Done, ..edge(flow, row(2), row(4), 0) };
    let id = Some(EdgeId(Uuid::from_u128(5)));
    let mut staged = Edge { id, applied: false, ..edge(flow, row(1), row(2), 0) };
    for edge in [&bound, &failed, &done, &staged, &edge(flow, row(4), row(3), 0)] {
        tx.add_edge(edge).unwrap();
    }
    let dropped = edge(flow, row(0), row(5), 0);
    tx.add_edge(&dropped).unwrap();
    tx.drop_edge(&dropped).unwrap();
    if number.is_multiple_of(2) {
        staged.applied = true;
        tx.save_edge(&staged).unwrap();
    }
    let need = [Need::All, Need::Any, Need::Count(2)][number % 3];
    let first = Join { need, rest: Rest::Cancel, ..join(row(2), 2) };
    tx.put_join(&first).unwrap();
    let verdict = [Verdict::Satisfied, Verdict::Impossible, Verdict::Moot][number % 3];
    tx.put_join(&Join { met: 1, unmet: 1, verdict: Some(verdict), ..first }).unwrap();
    let began = (number < 4).then_some(Beginning { need: Need::Any, rest: Rest::Cancel });
    tx.put_join(&Join { otherwise: Otherwise::Resume { began }, ..join(row(4), 1) }).unwrap();
    if number == 6 {
        tx.remove(&rows[2]).unwrap();
    }
}

const FIRST: NamespaceId = NamespaceId(1);

#[test]
fn flows_and_their_members_are_found() {
    let stores = &mut both(fill);
    for row in 1..=9 {
        let id = FlowId(Uuid::from_u128(1000 + row as u128));
        let row = FlowRow(row);
        for namespace in [FIRST, NamespaceId(2)] {
            same(stores, |read| read.flow(namespace, id));
        }
        same(stores, |read| read.flow_by_row(row));
        same(stores, |read| read.is_gated(row));
        same(stores, |read| read.count_members(row));
        for node in ["a", "e", "none"] {
            same(stores, |read| read.member(row, node));
            same(stores, |read| read.members(row, Some(node), 2));
        }
        same(stores, |read| read.members(row, None, 100));
    }
    for row in (0..=60).map(RowId) {
        same(stores, |read| read.execution(row));
        same(stores, |read| read.children(row, None, 100));
        same(stores, |read| read.children(row, Some(RowId(20)), 1));
    }
}

#[test]
fn what_ties_members_together_is_found() {
    let stores = &mut both(fill);
    for row in (0..=60).map(RowId) {
        same(stores, |read| read.join(row));
        for limit in [1, 2, 100] {
            same(stores, |read| read.edges_from(row, None, limit));
            same(stores, |read| read.edges_from(row, Some(RowId(row.0 + 2)), limit));
        }
        same(stores, |read| read.edges_into(row, false));
        same(stores, |read| read.edges_into(row, true));
        same(stores, |read| read.reach(&[row]));
        same(stores, |read| read.reach(&[row, RowId(1), RowId(1)]));
    }
    same(stores, |read| read.reach(&[]));
    for number in [5, 6] {
        let id = EdgeId(Uuid::from_u128(number));
        for row in 1..=9 {
            same(stores, |read| read.edge(FlowRow(row), id));
        }
    }
}

#[test]
fn members_wait_and_are_kept_as_their_flow_says() {
    let stores = &mut both(fill);
    let (lane, routes) = (LaneId(1), [RouteId(1)]);
    same(stores, |read| read.claimable(lane, &routes, 100));
    same(stores, |read| read.oldest_ready(lane));
    same(stores, |read| read.counts(FIRST, None));
    same(stores, |read| read.retired(at(i64::MAX / 2), 100));
    same(stores, |read| read.due(at(i64::MAX / 2), 100));
    let all = ListScan { namespace: FIRST, ..Default::default() };
    for filter in [
        ListScan { held: Some(true), ..all.clone() },
        ListScan { held: Some(false), ..all.clone() },
        ListScan { statuses: vec![Status::Skipped], ..all.clone() },
        ListScan { statuses: vec![Status::Skipped, Status::Failed], ..all.clone() },
        ListScan { statuses: vec![Status::WaitingChildren], ..all },
    ] {
        same(stores, |read| read.list(&filter, None, 1000, 1000));
    }
    let flow = Some(FlowId(Uuid::from_u128(1003)));
    same(stores, |read| {
        Ok(read
            .events(Default::default(), &EventScan { flow, ..Default::default() }, 99, 999)?
            .events)
    });
}

#[test]
fn flows_are_listed_by_any_filter() {
    let stores = &mut both(fill);
    let all = FlowScan { namespace: FIRST, ..Default::default() };
    for filter in [
        all.clone(),
        FlowScan { namespace: NamespaceId(2), ..all.clone() },
        FlowScan { statuses: vec![FlowStatus::Open], ..all.clone() },
        FlowScan { statuses: vec![FlowStatus::Held, FlowStatus::Cancelling], ..all.clone() },
        FlowScan { statuses: vec![FlowStatus::Expired], ..all.clone() },
        FlowScan { kind: Some("nightly".into()), ..all.clone() },
        FlowScan { tags: tags(&[("team", "b")]), ..all.clone() },
        FlowScan { created_from: Some(at(2)), created_before: Some(at(5)), ..all },
    ] {
        for below in [None, Some(FlowRow(5)), Some(FlowRow(1))] {
            for (limit, scan) in [(1000, 1000), (2, 1000), (1000, 3), (1, 1)] {
                same(stores, |read| read.list_flows(&filter, below, limit, scan));
            }
        }
    }
}

#[test]
fn a_flow_that_a_dropped_transaction_or_another_process_changed_is_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let (mut here, mut there) = (in_file(&path), in_file(&path));
    let queue = commit(&mut here, |tx| Queue::add(tx));
    let mut kept = commit(&mut here, |tx| {
        let flow = flow(queue, tx.new_flow_row().unwrap());
        tx.insert_flow(&flow).unwrap();
        flow
    });
    {
        let mut tx = here.begin().unwrap();
        tx.save_flow(&Flow { held: true, ..kept.clone() }).unwrap();
        assert!(tx.is_gated(kept.row).unwrap());
        assert_eq!(tx.new_flow_row().unwrap(), FlowRow(2));
    }
    assert!(!here.read().unwrap().is_gated(kept.row).unwrap());
    assert_eq!(here.read().unwrap().flow_by_row(kept.row).unwrap(), kept);
    (kept.held, kept.tags) = (true, Arc::new(tags(&[("team", "a")])));
    commit(&mut there, |tx| tx.save_flow(&kept).unwrap());
    assert!(here.read().unwrap().is_gated(kept.row).unwrap());
    assert_eq!(here.read().unwrap().flow_by_row(kept.row).unwrap(), kept);
    assert_eq!(commit(&mut here, |tx| tx.new_flow_row().unwrap()), FlowRow(2));
    assert!(here.begin().unwrap().insert_flow(&kept).is_err());
    commit(&mut here, |tx| tx.remove_flow(&kept).unwrap());
    assert!(here.read().unwrap().flow_by_row(kept.row).is_err());
    assert!(here.begin().unwrap().save_flow(&kept).is_err());
}

#[test]
fn the_database_itself_refuses_flows_edges_and_joins_that_contradict_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut store = in_file(&path);
    commit(&mut store, fill);
    let conn = Connection::open(&path).unwrap();
    for change in [
        "flows SET state = 0, held = 1, closing = NULL",
        "flows SET state = 1, held = 0, closing = NULL",
        "flows SET state = 0, held = 0, closing = '{}'",
        "flows SET state = 2, closing = NULL",
        "flows SET state = 3",
        "flows SET state = 14",
        "flows SET unhandled = -1",
        "edges SET condition = 3",
        "edges SET applied = 2",
        "joins SET met = sources + 1",
        "joins SET verdict = 4",
        "joins SET began_need = NULL, began_rest = 0",
        "joins SET otherwise = 0, began_need = 0, began_rest = 0",
        "keys SET flow = zeroblob(16)",
        "executions SET node = 'a' WHERE node = 'b'",
        "edges SET uuid = zeroblob(16) WHERE flow = 1",
    ] {
        assert!(conn.execute(&format!("UPDATE {change}"), []).is_err(), "{change}");
    }
}

#[test]
fn what_is_fixed_of_a_flow_is_not_changed_by_saving_it() {
    let mut store = in_memory();
    commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        let kept = flow(queue, tx.new_flow_row().unwrap());
        tx.insert_flow(&kept).unwrap();
        let other = Flow { kind: Some("other".into()), fingerprint: [9; 16], ..kept.clone() };
        tx.save_flow(&other).unwrap();
        assert_eq!(tx.flow_by_row(kept.row).unwrap(), kept);
        assert_eq!(tx.flow(queue.namespace, kept.id).unwrap(), Some(kept));
    });
}

#[test]
fn the_same_chore_may_be_left_twice_and_the_first_is_found_first() {
    let stores = &mut both(|tx| {
        let kind = ChoreKind::RemoveFlow { flow: FlowRow(1) };
        let first = tx.add_chore(&kind, at(5)).unwrap();
        assert!(tx.add_chore(&kind, at(4)).unwrap() > first);
    });
    same(stores, |read| read.chores(at(9), 9));
    same(stores, |read| read.find_chore(&ChoreKind::RemoveFlow { flow: FlowRow(1) }));
}

/// A store with some flows, each of a source, as many members that wait for it, and one that waits
/// for all of these.
fn with_flows(flows: usize, width: usize) -> (SqliteStore, Flow, RowId, RowId) {
    let mut store = in_memory();
    let mut last = None;
    commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        for _ in 0..flows {
            let flow = flow(queue, tx.new_flow_row().unwrap());
            tx.insert_flow(&flow).unwrap();
            let mut add = |node: &str, parent| {
                let row = tx.new_row().unwrap();
                let execution = Execution { parent, ..member(queue, row, &flow, node) };
                tx.insert(&execution, &Payload::default(), None).unwrap();
                row
            };
            let (source, target) = (add("source", None), add("target", None));
            let middle: Vec<_> =
                (0..width).map(|number| add(&format!("m{number}"), Some(source))).collect();
            for row in middle {
                tx.add_edge(&edge(&flow, source, row, 0)).unwrap();
                tx.put_join(&join(row, 1)).unwrap();
                let bind = Some(format!("b{}", row.0));
                tx.add_edge(&Edge { bind, ..edge(&flow, row, target, 0) }).unwrap();
            }
            tx.put_join(&join(target, width as u32)).unwrap();
            last.get_or_insert((flow, source, target));
        }
    });
    let (flow, source, target) = last.unwrap();
    (store, flow, source, target)
}

type Question = fn(&mut dyn Read, &Flow, RowId, RowId) -> usize;

const QUESTIONS: &[(&str, Question)] = &[
    ("flow", |read, flow, _, _| read.flow(flow.namespace, flow.id).iter().count()),
    ("flow_by_row", |read, flow, _, _| read.flow_by_row(flow.row).iter().count()),
    ("is_gated", |read, flow, _, _| read.is_gated(flow.row).iter().count()),
    ("execution", |read, _, source, _| read.execution(source).unwrap().iter().count()),
    ("member", |read, flow, _, _| read.member(flow.row, "m3").unwrap().iter().count()),
    ("members", |read, flow, _, _| read.members(flow.row, Some("m1"), 3).unwrap().len()),
    ("join", |read, _, _, target| read.join(target).unwrap().iter().count()),
    ("edges_from", |read, _, source, _| read.edges_from(source, Some(source), 5).unwrap().len()),
    ("edges_into", |read, _, source, _| read.edges_into(RowId(source.0 + 2), false).unwrap().len()),
    ("bound", |read, _, source, _| read.edges_into(RowId(source.0 + 2), true).unwrap().len() + 1),
    ("children", |read, _, source, _| read.children(source, Some(source), 5).unwrap().len()),
    ("reach", |read, _, _, target| read.reach(&[RowId(target.0 + 1)]).unwrap().len()),
    ("list_flows", |read, flow, _, _| {
        let filter = FlowScan { namespace: flow.namespace, ..Default::default() };
        read.list_flows(&filter, None, 1, 1).unwrap().flows.len()
    }),
];

#[test]
fn no_question_about_a_flow_costs_more_for_a_hundred_other_flows_or_a_wide_one() {
    let (mut small, flow, source, target) = with_flows(3, 10);
    let (mut large, ..) = with_flows(100, 100);
    for (name, ask) in QUESTIONS {
        let steps = |store: &mut SqliteStore| {
            // A transaction that has not happened leaves nothing that is remembered.
            store.begin().unwrap().new_row().unwrap();
            let before = store.statement_counters().vm_steps;
            let found = ask(&mut *store.read().unwrap(), &flow, source, target);
            assert!(found > 0, "{name} finds nothing");
            store.statement_counters().vm_steps - before
        };
        let (few, many) = (steps(&mut small), steps(&mut large));
        assert!(many <= few + few / 4, "{name}: {many} steps instead of {few}");
    }
    assert_eq!(large.statement_counters().reprepares, 0);
}

#[test]
fn a_member_costs_the_same_to_add_to_a_small_flow_and_to_a_large_one() {
    let steps = |width: usize| {
        let (mut store, flow, source, _) = with_flows(1, width);
        let queue = Queue { namespace: flow.namespace, lane: LaneId(1), route: RouteId(1) };
        let add = |tx: &mut dyn Transaction, number: u32| {
            let row = tx.new_row().unwrap();
            let node = format!("new{number}");
            tx.insert(&member(queue, row, &flow, &node), &Payload::default(), None).unwrap();
            tx.add_edge(&edge(&flow, source, row, 0)).unwrap();
            tx.put_join(&join(row, 1)).unwrap();
            tx.put_join(&Join { met: 1, ..join(row, 1) }).unwrap();
            tx.save_flow(&flow).unwrap();
        };
        commit(&mut store, |tx| add(tx, 0));
        let before = store.statement_counters().vm_steps;
        commit(&mut store, |tx| (1..=20).for_each(|number| add(tx, number)));
        store.statement_counters().vm_steps - before
    };
    let (small, large) = (steps(1), steps(2000));
    assert!(large <= small + small / 10, "{large} steps instead of {small}");
}
