use std::collections::BTreeSet;

use everloom_core::{Cursor, EventFilter, From};

use super::*;
use crate::follow::Follow;

async fn follow(bench: &Bench, from: From) -> Result<Follow> {
    Follow::begin(bench.driver.clone(), EventFilter::default(), from).await
}

async fn next(follow: &mut Follow) -> everloom_core::Event {
    soon(follow.next()).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_sees_every_event_once_and_in_order() {
    let bench = Bench::start(Options::default());
    for n in 0..700 {
        bench.driver.apply(put(format!("before{n}"))).await.unwrap();
    }
    let mut events = follow(&bench, From::Oldest).await.unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let driver = bench.driver.clone();
            tokio::spawn(async move {
                for n in 0..200 {
                    driver.apply(put(format!("w{writer}-{n}"))).await.unwrap();
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    for _ in 0..1_500 {
        let event = next(&mut events).await;
        seen.push((event.cursor, event.namespace));
        assert_eq!(events.cursor(), seen.last().unwrap().0);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(seen.iter().map(|(_, name)| name).collect::<BTreeSet<_>>().len(), 1_500);
}

#[tokio::test]
async fn a_follower_from_now_sees_only_what_comes() {
    let bench = Bench::start(Options::default());
    bench.driver.apply(put("before")).await.unwrap();
    let mut events = follow(&bench, From::Now).await.unwrap();
    bench.driver.apply(put("one")).await.unwrap();
    assert_eq!(next(&mut events).await.namespace, "one");
}

#[tokio::test]
async fn a_follower_can_go_on_where_another_stopped() {
    let bench = Bench::start(Options::default());
    for n in 0..10 {
        bench.driver.apply(put(format!("n{n}"))).await.unwrap();
    }
    let mut events = follow(&bench, From::Oldest).await.unwrap();
    for n in 0..4 {
        assert_eq!(next(&mut events).await.namespace, format!("n{n}"));
    }
    let mut events = follow(&bench, From::After(events.cursor())).await.unwrap();
    assert_eq!(next(&mut events).await.namespace, "n4");
}

#[tokio::test]
async fn the_cursor_moves_on_past_events_that_do_not_match() {
    let bench = Bench::start(Options::default());
    bench.driver.apply(put("mine")).await.unwrap();
    let filter = EventFilter { namespace: Some("mine".into()), ..EventFilter::default() };
    let mut events = Follow::begin(bench.driver.clone(), filter, From::Now).await.unwrap();
    for n in 0..5 {
        bench.driver.apply(put(format!("n{n}"))).await.unwrap();
    }
    let reads_on = async {
        while events.cursor() < Cursor(6) {
            tokio::select! {
                biased;
                _ = events.next() => panic!("nothing matches"),
                () = yield_now() => {}
            }
        }
    };
    soon(reads_on).await;
    bench.driver.apply(put("mine")).await.unwrap();
    assert_eq!(next(&mut events).await.cursor, Cursor(7));
    assert_eq!(events.cursor(), Cursor(7));
}

#[tokio::test]
async fn a_follower_that_fell_behind_what_is_kept_is_told_and_ended() {
    let bench = Bench::start(Options::default());
    for n in 0..600 {
        bench.driver.apply(put(format!("n{n}"))).await.unwrap();
    }
    let mut events = follow(&bench, From::Oldest).await.unwrap();
    bench.driver.apply(Act::Trim(590)).await.unwrap();
    for _ in 0..500 {
        next(&mut events).await;
    }
    let expired = soon(events.next()).await.unwrap().unwrap_err();
    assert_eq!(expired.code(), Code::CursorExpired);
    assert!(soon(events.next()).await.is_none());
    assert_eq!(events.cursor(), Cursor(500));
    let refused = follow(&bench, From::After(Cursor(500))).await.unwrap_err();
    assert_eq!(refused.code(), Code::CursorExpired);
}

#[tokio::test]
async fn a_follower_can_be_dropped_while_it_waits() {
    let bench = Bench::start(Options::default());
    let mut events = follow(&bench, From::Now).await.unwrap();
    for n in 0..20 {
        tokio::select! {
            biased;
            _ = events.next() => panic!("nothing was written"),
            () = yield_now() => {}
        }
        bench.driver.apply(put(format!("n{n}"))).await.unwrap();
        assert_eq!(next(&mut events).await.namespace, format!("n{n}"));
    }
}

#[tokio::test]
async fn closing_ends_a_follower() {
    let bench = Bench::start(Options::default());
    let mut events = follow(&bench, From::Now).await.unwrap();
    let following = tokio::spawn(async move { events.next().await });
    yield_now().await;
    bench.driver.close(PATIENCE).await;
    let last = soon(following).await.unwrap().unwrap();
    assert_eq!(last.unwrap_err().code(), Code::Unavailable);
}
