//! Streams of very many frames: read wherever a reader stands, and removed little by little.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use crate::stream_lab::*;
use crate::walk::random::Random;

/// Appends to a stream as often as that, so many frames at a time.
#[track_caller]
fn fill(lab: &mut Lab, lease: &Leased, times: usize, count: usize) {
    let mut left = times;
    while left > 0 {
        let some = left.min(100);
        let one = append(lease, frames(count));
        let mut calls: Vec<_> = (0..some).map(|_| lab.call(one.clone())).collect();
        lab.batch(&mut calls.iter_mut().map(|call| call as &mut dyn Job).collect::<Vec<_>>());
        assert!(calls.into_iter().all(|call| call.into_answer().is_ok()));
        left -= some;
    }
}

fn keeps_all() -> NewExecution {
    work().policy(policy(json!({ "stream_retention": 1_000_000, "retention_ms": 1000 })))
}

pub fn readers_at_random_cursors_see_every_frame_once(lab: &mut Lab) {
    let seed = std::env::var("EVERLOOM_SEED").ok().and_then(|text| text.parse().ok());
    let mut random = Random::new(seed.unwrap_or(1));
    let lease = lab.lease(keeps_all());
    fill(lab, &lease, 2_500, 20);
    let mut last = 50_000;
    for _ in 0..6 {
        let after = random.below(last);
        let mut read = read_after(lease.id(), after);
        let mut expected = after + 1;
        loop {
            read.limit = 500 + random.index(500);
            let page = lab.see(read.clone());
            for frame in page.frames {
                assert_eq!(frame.seq, expected, "read after {after}");
                expected += 1;
            }
            // More comes while someone reads.
            if random.percent(20) {
                last = lab.ok(append(&lease, [frame("x"), frame("y")])).last;
            } else if page.at_end {
                break;
            }
            read.from = StreamFrom::After(page.next);
        }
        assert_eq!(expected, last + 1, "read after {after}");
    }
}

/// How many ticks it takes until nothing is due.
#[track_caller]
fn ticks(lab: &mut Lab) -> usize {
    (1..100).find(|_| !lab.tick().more).expect("it comes to an end")
}

/// How many chunks of a stream a tick removes at most.
fn slice() -> usize {
    Tick::default().slice
}

pub fn the_frames_of_a_removed_execution_go_in_slices(lab: &mut Lab) {
    let lease = lab.lease(keeps_all());
    fill(lab, &lease, 2_500, 20);
    lab.ok(append(&lease, [live("l"), NewFrame::patch(&json!({ "a": 1 }))]));
    lab.ok(complete(&lease));
    lab.settle();
    lab.ok(delete(lease.id()));
    assert_eq!(lab.ask(read(lease.id())).expect_err("it is gone").code(), Code::NotFound);
    // Whoever takes its name has nothing of it.
    let other = lab.lease(keeps_all().id(lease.id()));
    assert_eq!(lab.ok(append(&other, [frame("mine")])).first, 1);
    lab.reopen();
    let ticks = ticks(lab);
    assert!(ticks > 2_500 / slice(), "{ticks} ticks");
    assert_eq!(texts(&lab.frames(read(other.id()))), "mine");
}

pub fn the_frames_of_executions_that_had_their_time_go_in_slices(lab: &mut Lab) {
    for _ in 0..4 {
        let lease = lab.lease(keeps_all());
        fill(lab, &lease, 500, 2);
        lab.ok(complete(&lease));
    }
    lab.pass(hours(1));
    let ticks = ticks(lab);
    assert!(ticks > 4 * 500 / slice(), "{ticks} ticks");
    assert_eq!(lab.counts().total(), 0);
}

pub fn the_frames_of_a_removed_flow_go_in_slices(lab: &mut Lab) {
    let graph = lab.plant(flow([node("a"), node("b")]));
    for name in ["a", "b"] {
        let lease = lab.take(graph[name]);
        fill(lab, &lease, 500, 2);
        lab.ok(complete(&lease));
    }
    lab.ok(delete_flow(graph.id));
    let ticks = ticks(lab);
    assert!(ticks > 1_000 / slice(), "{ticks} ticks");
    assert_eq!(lab.counts().total(), 0);
}
