use super::*;
use crate::chore::ChoreKind;
use crate::model::{Code, Key, KeyOf, Result};
use crate::store::Read;

fn claimable(store: &mut MemoryStore, routes: &[RouteId], limit: usize) -> Vec<i64> {
    let mut read = store.read().unwrap();
    rows(&read.claimable(LANE, routes, limit).unwrap())
}

#[test]
fn claims_go_by_priority_then_rank_across_routes() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        for (route, priority, rank) in
            [(0, 10, 1), (0, 10, 4), (1, 10, 2), (1, 90, 9), (2, 10, 3), (2, 10, 2)]
        {
            insert(tx, State::Waiting, |execution| {
                execution.route = ROUTES[route];
                execution.priority = priority;
                execution.rank = rank;
            });
        }
    });
    assert_eq!(claimable(&mut store, &ROUTES, 9), [4, 1, 3, 6, 5, 2]);
    assert_eq!(claimable(&mut store, &ROUTES, 3), [4, 1, 3]);
    assert_eq!(claimable(&mut store, &ROUTES, 0), [0; 0]);
}

#[test]
fn a_claim_sees_no_other_route_or_lane_and_nothing_held() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        insert(tx, State::Waiting, |execution| execution.route = ROUTES[1]);
        insert(tx, State::Resumable, |execution| execution.route = ROUTES[2]);
        insert(tx, State::Waiting, |execution| execution.held = true);
        insert(tx, State::Waiting, |execution| execution.lane = OTHER_LANE);
        insert(tx, leased("w", at(9000)), |_| ());
    });
    assert_eq!(claimable(&mut store, &ROUTES, 9), [1, 2]);
    assert_eq!(claimable(&mut store, &[ROUTES[0], ROUTES[2]], 9), [2]);
    assert_eq!(claimable(&mut store, &[ROUTES[0], RouteId(99)], 9), [0; 0]);
    assert_eq!(claimable(&mut store, &[], 9), [0; 0]);
}

#[test]
fn live_rows_are_due_and_ended_ones_retire() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        insert(tx, delayed(at(3000)), |_| ());
        insert(tx, failed("no"), |_| ());
        insert(tx, leased("w", at(2000)), |_| ());
        insert(tx, State::Waiting, |execution| execution.deadline_at = Some(at(2500)));
        insert(tx, State::Waiting, |_| ());
    });
    let mut read = store.read().unwrap();
    assert_eq!(rows(&read.due(at(9000), 9).unwrap()), [3, 4, 1]);
    assert_eq!(rows(&read.due(at(9000), 2).unwrap()), [3, 4]);
    assert_eq!(rows(&read.due(at(2500), 9).unwrap()), [3, 4]);
    assert_eq!(rows(&read.retired(at(1500), 9).unwrap()), [2]);
    assert_eq!(rows(&read.retired(at(1499), 9).unwrap()), [0; 0]);
    assert_eq!(read.next_due().unwrap(), Some(at(2000)));
}

#[test]
fn a_row_that_changes_is_due_once_and_where_it_is_now() {
    let mut store = empty_store();
    let mut moved = change(&mut store, |tx| insert(tx, delayed(at(2000)), |_| ()));
    for state in [leased("w", at(4000)), leased("w", at(5000)), delayed(at(3000))] {
        moved.state = state;
        change(&mut store, |tx| tx.save(&moved).unwrap());
        let mut read = store.read().unwrap();
        assert_eq!(rows(&read.due(at(9000), 9).unwrap()), [1]);
        assert_eq!(read.next_due().unwrap(), moved.due_at());
    }
    moved.state = failed("no");
    change(&mut store, |tx| tx.save(&moved).unwrap());
    let mut read = store.read().unwrap();
    assert_eq!(rows(&read.due(at(9000), 9).unwrap()), [0; 0]);
    assert_eq!(rows(&read.retired(at(9000), 9).unwrap()), [1]);
    assert_eq!(read.next_due().unwrap(), None);
}

#[test]
fn workers_and_chores_are_due_too() {
    let mut store = empty_store();
    let worker = worker("w");
    let kind = ChoreKind::Retention;
    change(&mut store, |tx| {
        tx.put_worker(&worker).unwrap();
        tx.add_chore(&kind, at(1200)).unwrap();
    });
    let seen = WorkerRow { seen_at: at(1300), ..worker.clone() };
    let mut read = store.read().unwrap();
    assert_eq!(read.next_due().unwrap(), Some(at(1100)));
    assert_eq!(read.lapsed_workers(at(1099), 9).unwrap(), []);
    assert_eq!(read.lapsed_workers(at(1100), 9).unwrap(), [worker]);
    drop(read);
    change(&mut store, |tx| tx.put_worker(&seen).unwrap());
    let mut read = store.read().unwrap();
    assert_eq!(read.next_due().unwrap(), Some(at(1200)));
    assert_eq!(read.lapsed_workers(at(9000), 9).unwrap(), [seen]);
    assert_eq!(read.chores(at(1199), 9).unwrap(), []);
    assert_eq!(read.chores(at(1200), 9).unwrap().len(), 1);
    assert!(read.find_chore(&kind).unwrap().is_some());
}

#[test]
fn what_a_worker_owns_is_told_apart_by_when_it_came_to_it() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        insert(tx, leased("w", at(9000)), |execution| execution.since = at(10));
        insert(tx, granted("w", at(9000)), |execution| execution.since = at(20));
        insert(tx, leased("other", at(9000)), |execution| execution.since = at(10));
        insert(tx, leased("w", at(9000)), |execution| execution.since = at(30));
    });
    let mut read = store.read().unwrap();
    assert_eq!(rows(&read.owned_by(SPACE, "w", at(20), 9).unwrap()), [1, 2]);
    assert_eq!(rows(&read.owned_by(SPACE, "w", at(99), 1).unwrap()), [1]);
    assert_eq!(read.count_owned(LANE).unwrap(), 4);
    assert_eq!(read.count_owned(OTHER_LANE).unwrap(), 0);
}

#[test]
fn expired_leases_are_paged_strictly_by_their_end_and_id() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        insert(tx, leased("w", at(2000)), |_| ());
        insert(tx, leased("w", at(1500)), |_| ());
        insert(tx, leased("w", at(1500)), |_| ());
        insert(tx, leased("w", at(2001)), |execution| execution.deadline_at = Some(at(1100)));
        insert(tx, granted("w", at(1500)), |_| ());
    });
    let mut read = store.read().unwrap();
    let mut page =
        |after, limit| rows(&read.expired_leases(SPACE, at(2000), after, limit).unwrap());
    assert_eq!(page(None, 9), [2, 3, 1]);
    assert_eq!(page(None, 1), [2]);
    assert_eq!(page(Some((at(1500), id(2))), 9), [3, 1]);
    assert_eq!(page(Some((at(2000), id(1))), 9), [0; 0]);
}

#[test]
fn the_longest_wait_of_a_lane_counts_only_what_is_claimable() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        insert(tx, State::Waiting, |execution| execution.since = at(30));
        insert(tx, State::Resumable, |execution| {
            execution.since = at(20);
            execution.route = ROUTES[2];
        });
        insert(tx, State::Waiting, |execution| {
            execution.since = at(10);
            execution.held = true;
        });
    });
    let mut read = store.read().unwrap();
    assert_eq!(read.oldest_ready(LANE).unwrap(), Some(at(20)));
    assert_eq!(read.oldest_ready(OTHER_LANE).unwrap(), None);
}

#[test]
fn saving_leaves_tags_and_what_is_fixed_at_submission_alone() {
    let mut store = empty_store();
    let saved = change(&mut store, |tx| {
        insert(tx, State::Waiting, |execution| execution.tags = tags("team", "a"))
    });
    let changed = Execution {
        priority: 7,
        lane: OTHER_LANE,
        tags: tags("team", "b"),
        created_by: Some("eve".into()),
        ..saved.clone()
    };
    let find = |read: &mut dyn Read| read.find(SPACE, &[saved.id]).unwrap().pop().flatten();
    change(&mut store, |tx| tx.save(&changed).unwrap());
    let expected = Execution { priority: 7, ..saved.clone() };
    assert_eq!(find(&mut *store.read().unwrap()), Some(expected.clone()));

    change(&mut store, |tx| {
        tx.save_tags(&Execution { priority: 9, ..changed.clone() }).unwrap();
    });
    let expected = Execution { tags: tags("team", "b"), ..expected };
    assert_eq!(find(&mut *store.read().unwrap()), Some(expected));
}

#[test]
fn removing_an_execution_takes_all_that_belongs_to_it() {
    let mut store = empty_store();
    let [gone, kept] = change(&mut store, |tx| {
        [(); 2].map(|()| {
            let execution = insert(tx, failed("x"), |_| ());
            tx.put_result(execution.row, &Payload::bytes(*b"r")).unwrap();
            for epoch in [1, 2] {
                tx.add_past_lease(&past_lease(execution.row.0, epoch)).unwrap();
            }
            execution
        })
    });
    change(&mut store, |tx| tx.remove(&gone).unwrap());
    let mut read = store.read().unwrap();
    let found = read.find(SPACE, &[kept.id, gone.id]).unwrap();
    assert_eq!(found, [Some(kept.clone()), None]);
    assert!(read.inputs(&[gone.row]).is_err());
    assert_eq!(read.result(gone.row).unwrap(), None);
    assert_eq!(read.past_leases(gone.row, Epoch(0), 9).unwrap(), []);
    assert_eq!(rows(&read.retired(at(9000), 9).unwrap()), [2]);
    assert_eq!(read.past_leases(kept.row, Epoch(1), 9).unwrap(), [past_lease(2, 2)]);
    assert_eq!(read.past_lease(kept.row, Epoch(1)).unwrap(), Some(past_lease(2, 1)));
    assert_eq!(read.inputs(&[kept.row]).unwrap(), [Payload::bytes(*b"input")]);
}

#[test]
fn a_row_is_never_used_again() {
    let mut store = empty_store();
    let mut tx = store.begin().unwrap();
    assert_eq!(tx.new_row().unwrap(), RowId(1));
    drop(tx);
    let second = change(&mut store, |tx| insert(tx, State::Waiting, |_| ()));
    assert_eq!(second.row, RowId(2));
    change(&mut store, |tx| tx.remove(&second).unwrap());
    change(&mut store, |tx| assert_eq!(tx.new_row().unwrap(), RowId(3)));
}

#[test]
fn a_write_that_no_right_rule_makes_is_a_bug_and_changes_nothing() {
    let mut store = empty_store();
    let known = change(&mut store, |tx| {
        let known = insert(tx, State::Waiting, |_| ());
        tx.add_past_lease(&past_lease(1, 1)).unwrap();
        known
    });
    let unknown = execution(77, State::Waiting);
    let input = Payload::default();
    let same_id = Execution { row: RowId(78), ..known.clone() };
    let other_id = Execution { id: unknown.id, ..known.clone() };
    let mut tx = store.begin().unwrap();
    let refused: [Result<()>; 13] = [
        tx.insert(&known, &input, None),
        tx.insert(&same_id, &input, None),
        tx.save(&unknown),
        tx.save(&other_id),
        tx.save_tags(&unknown),
        tx.remove(&unknown),
        tx.put_result(unknown.row, &input),
        tx.add_past_lease(&past_lease(77, 1)),
        tx.add_past_lease(&past_lease(1, 1)),
        tx.add_lane(SPACE, "lane").map(drop),
        tx.add_lane(NamespaceId(9), "lane").map(drop),
        tx.add_route(SPACE, "mail", &[]).map(drop),
        tx.inputs(&[unknown.row]).map(drop),
    ];
    for (index, result) in refused.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().code(), Code::Internal, "{index}");
    }
    tx.commit(NOW).unwrap();
    let found = store.read().unwrap().find(SPACE, &[known.id, unknown.id]).unwrap();
    assert_eq!(found, [Some(known), None]);
}

#[test]
fn keys_that_expired_are_trimmed_oldest_first() {
    let mut store = empty_store();
    let key = |name: &str, expires_at| Key {
        namespace: SPACE,
        key: name.into(),
        of: KeyOf::Execution(id(1)),
        fingerprint: [0; 16],
        expires_at,
    };
    change(&mut store, |tx| {
        for (name, expires_at) in
            [("a", Some(at(30))), ("b", Some(at(10))), ("c", None), ("d", Some(at(20)))]
        {
            tx.put_key(&key(name, expires_at)).unwrap();
        }
    });
    assert_eq!(change(&mut store, |tx| tx.trim_keys(at(30), 2).unwrap()), 2);
    let found = store.read().unwrap().keys(SPACE, &["d", "c", "b", "a"]).unwrap();
    let expected = [None, Some(key("c", None)), None, Some(key("a", Some(at(30))))];
    assert_eq!(found, expected);
    assert_eq!(change(&mut store, |tx| tx.trim_keys(at(29), 9).unwrap()), 0);
}
