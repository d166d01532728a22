use super::*;
use crate::command::{Context, Query, Seed};
use crate::event::{From, ReadEvents};
use crate::model::{Cursor, Settings};
use crate::store::EventScan;

/// Six events; the second and the fifth are about execution 1, the fourth about 2.
fn store_with_events() -> MemoryStore {
    let mut store = empty_store();
    change(&mut store, |tx| {
        for (when, row) in [None, Some(1), None, Some(2), Some(1), None].iter().enumerate() {
            let when = at(i64::try_from(when).unwrap() + 1);
            tx.add_event(&event(EventKind::Submitted, when, *row)).unwrap();
        }
    });
    store
}

fn scan(
    store: &mut MemoryStore,
    after: i64,
    filter: &EventScan,
    limit: usize,
    budget: usize,
) -> (Vec<i64>, i64) {
    let slice = store.read().unwrap().events(Cursor(after), filter, limit, budget).unwrap();
    (slice.events.iter().map(|event| event.cursor.0).collect(), slice.scanned_to.0)
}

fn span(store: &mut MemoryStore) -> (i64, i64) {
    let span = store.read().unwrap().event_span().unwrap();
    (span.first.0, span.last.0)
}

#[test]
fn a_scan_of_the_log_says_how_far_it_looked() {
    let mut store = store_with_events();
    let all = EventScan::default();
    let about = EventScan { execution: Some(id(1)), ..EventScan::default() };
    assert_eq!(scan(&mut store, 0, &all, 9, 9), (vec![1, 2, 3, 4, 5, 6], 6));
    assert_eq!(scan(&mut store, 2, &all, 2, 9), (vec![3, 4], 4), "the limit");
    assert_eq!(scan(&mut store, 0, &about, 9, 3), (vec![2], 3), "the budget");
    assert_eq!(scan(&mut store, 3, &about, 9, 9), (vec![5], 6), "the end");
    assert_eq!(scan(&mut store, 5, &about, 9, 9), (vec![], 6), "nothing that matches");
    assert_eq!(scan(&mut store, 6, &all, 9, 9), (vec![], 6), "nothing at all");
    assert_eq!(scan(&mut store, 1, &all, 0, 9), (vec![], 1), "nothing asked for");
}

#[test]
fn a_scan_along_one_execution_says_how_far_it_looked() {
    let mut store = store_with_events();
    let about = EventScan { execution: Some(id(1)), row: Some(RowId(1)), ..EventScan::default() };
    assert_eq!(scan(&mut store, 0, &about, 9, 9), (vec![2, 5], 6), "the end");
    assert_eq!(scan(&mut store, 0, &about, 1, 9), (vec![2], 2), "the limit");
    assert_eq!(scan(&mut store, 0, &about, 2, 9), (vec![2, 5], 5), "the limit at the end");
    assert_eq!(scan(&mut store, 2, &about, 9, 9), (vec![5], 6));
    let other_kind = EventScan { kinds: vec![EventKind::Failed], ..about };
    assert_eq!(scan(&mut store, 0, &other_kind, 9, 1), (vec![], 2), "the budget");
    assert_eq!(scan(&mut store, 2, &other_kind, 9, 9), (vec![], 6));
}

#[test]
fn events_carry_names_and_what_was_true_at_the_time() {
    let mut store = empty_store();
    let written = NewEvent {
        worker: Some("w".into()),
        attempt: Some(2),
        epoch: Some(Epoch(3)),
        tags: tags("team", "a"),
        data: Some(serde_json::json!({ "n": 1 })),
        ..event(EventKind::Claimed, NOW, Some(1))
    };
    change(&mut store, |tx| tx.add_event(&written).unwrap());
    let filter = EventScan {
        namespace: Some(SPACE),
        lane: Some(LANE),
        tags: (*written.tags).clone(),
        ..EventScan::default()
    };
    let slice = store.read().unwrap().events(Cursor(0), &filter, 9, 9).unwrap();
    let [event] = &slice.events[..] else { panic!("{slice:?}") };
    assert_eq!((event.namespace.as_str(), event.lane.as_deref()), ("space", Some("lane")));
    assert_eq!((event.execution, event.attempt), (Some(id(1)), Some(2)));
    assert_eq!((event.epoch, event.worker.as_deref()), (Some(Epoch(3)), Some("w")));
    assert_eq!((&event.tags, &event.data), (&*written.tags, &written.data));
    let elsewhere = EventScan { lane: Some(OTHER_LANE), ..filter };
    assert_eq!(scan(&mut store, 0, &elsewhere, 9, 9), (vec![], 1));
}

#[test]
fn the_span_of_the_log_is_what_is_kept() {
    let mut store = empty_store();
    assert_eq!(span(&mut store), (1, 0));
    let mut store = store_with_events();
    assert_eq!(span(&mut store), (1, 6));
}

#[test]
fn trimming_takes_the_oldest_and_never_the_newest() {
    let mut store = store_with_events();
    let mut trim = |before, limit| {
        change(&mut store, |tx| {
            let count = tx.trim_events(at(before), limit).unwrap();
            let span = tx.event_span().unwrap();
            (count, span.first.0, span.last.0)
        })
    };
    assert_eq!(trim(4, 2), (2, 3, 6));
    assert_eq!(trim(4, 9), (1, 4, 6));
    assert_eq!(trim(4, 9), (0, 4, 6));
    assert_eq!(trim(9000, 9), (2, 6, 6));
    assert_eq!(trim(9000, 9), (0, 6, 6));
    let about = EventScan { row: Some(RowId(1)), ..EventScan::default() };
    assert_eq!(scan(&mut store, 0, &about, 9, 9), (vec![], 6));
}

#[test]
fn a_cursor_is_never_used_again() {
    let mut store = store_with_events();
    let mut tx = store.begin().unwrap();
    tx.add_event(&event(EventKind::Failed, NOW, None)).unwrap();
    assert_eq!(tx.event_span().unwrap().last, Cursor(7));
    drop(tx);
    assert_eq!(span(&mut store), (1, 6));
    change(&mut store, |tx| tx.add_event(&event(EventKind::Failed, NOW, None)).unwrap());
    assert_eq!(scan(&mut store, 6, &EventScan::default(), 9, 9), (vec![8], 8));
}

#[test]
fn a_follower_is_not_told_that_it_missed_what_was_rolled_back() {
    let mut store = empty_store();
    let settings = Settings::default();
    let follow = |store: &mut MemoryStore, from| {
        let cx = Context::new(NOW, &settings, Seed::from_number(0));
        let page = ReadEvents { from, ..ReadEvents::default() };
        page.run(&mut *store.read().unwrap(), &cx).unwrap()
    };
    let log = |tx: &mut dyn Tx| tx.add_event(&event(EventKind::Failed, at(1), None)).unwrap();
    let start = follow(&mut store, From::Now).next;
    log(&mut *store.begin().unwrap());
    change(&mut store, log);
    let first = follow(&mut store, From::After(start));
    assert_eq!(first.events.len(), 1);

    log(&mut *store.begin().unwrap());
    change(&mut store, log);
    change(&mut store, |tx| tx.trim_events(at(2), 9).unwrap());
    let second = follow(&mut store, From::After(first.next));
    assert_eq!(second.events.len(), 1);
}
