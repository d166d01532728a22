use super::*;
use crate::model::Status;
use crate::store::{Count, ListScan};

#[test]
fn a_list_goes_down_from_the_newest_and_says_where_to_go_on() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        for lane in [LANE, OTHER_LANE, LANE, LANE, OTHER_LANE] {
            insert(tx, State::Waiting, |execution| execution.lane = lane);
        }
    });
    let mut read = store.read().unwrap();
    let all = ListScan { namespace: SPACE, ..ListScan::default() };
    let some = ListScan { lane: Some(LANE), ..all.clone() };
    let mut page = |filter, below: Option<i64>, limit, scan| {
        let slice = read.list(filter, below.map(RowId), limit, scan).unwrap();
        (rows(&slice.executions), slice.next.map(|row| row.0))
    };
    assert_eq!(page(&all, None, 9, 9), (vec![5, 4, 3, 2, 1], None));
    assert_eq!(page(&all, None, 2, 9), (vec![5, 4], Some(4)));
    assert_eq!(page(&all, Some(4), 3, 9), (vec![3, 2, 1], None));
    assert_eq!(page(&some, None, 9, 2), (vec![4], Some(4)));
    assert_eq!(page(&some, Some(4), 1, 9), (vec![3], Some(3)));
    assert_eq!(page(&some, Some(1), 9, 9), (vec![], None));
}

#[test]
fn a_list_is_narrowed_by_every_part_of_its_filter() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        insert(tx, failed("Disk FULL at 3"), |execution| execution.tags = tags("team", "a"));
        insert(tx, leased("w", at(9000)), |execution| execution.created_by = Some("ann".into()));
        insert(tx, State::Waiting, |execution| {
            execution.held = true;
            execution.route = ROUTES[1];
            execution.created_at = at(2000);
        });
    });
    let mut read = store.read().unwrap();
    let all = ListScan { namespace: SPACE, ..ListScan::default() };
    let filters = [
        (ListScan { text: Some("disk full".into()), ..all.clone() }, vec![1]),
        (ListScan { text: Some("disk empty".into()), ..all.clone() }, vec![]),
        (ListScan { tags: (*tags("team", "a")).clone(), ..all.clone() }, vec![1]),
        (ListScan { tags: (*tags("team", "b")).clone(), ..all.clone() }, vec![]),
        (ListScan { worker: Some("w".into()), ..all.clone() }, vec![2]),
        (ListScan { created_by: Some("ann".into()), ..all.clone() }, vec![2]),
        (ListScan { statuses: vec![Status::Active, Status::Waiting], ..all.clone() }, vec![3, 2]),
        (ListScan { held: Some(true), ..all.clone() }, vec![3]),
        (ListScan { routes: Some(vec![ROUTES[1]]), ..all.clone() }, vec![3]),
        (ListScan { routes: Some(vec![]), ..all.clone() }, vec![]),
        (ListScan { created_from: Some(at(2000)), ..all.clone() }, vec![3]),
        (ListScan { created_before: Some(at(2000)), ..all.clone() }, vec![2, 1]),
        (ListScan { namespace: NamespaceId(9), ..all.clone() }, vec![]),
    ];
    for (filter, expected) in filters {
        let slice = read.list(&filter, None, 9, 9).unwrap();
        assert_eq!(rows(&slice.executions), expected, "{filter:?}");
    }
}

#[test]
fn counts_tell_held_apart_in_the_order_of_states() {
    let mut store = empty_store();
    change(&mut store, |tx| {
        insert(tx, failed("x"), |_| ());
        insert(tx, State::Waiting, |execution| execution.held = true);
        insert(tx, State::Waiting, |_| ());
        insert(tx, State::Waiting, |execution| execution.lane = OTHER_LANE);
    });
    let count = |status, held, count| Count { status, held, count };
    let mut read = store.read().unwrap();
    assert_eq!(
        read.counts(SPACE, None).unwrap(),
        [
            count(Status::Waiting, false, 2),
            count(Status::Waiting, true, 1),
            count(Status::Failed, false, 1)
        ]
    );
    assert_eq!(read.counts(SPACE, Some(OTHER_LANE)).unwrap(), [count(Status::Waiting, false, 1)]);
}
