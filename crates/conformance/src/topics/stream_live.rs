//! Frames only for those who watch: kept about as long as these need to catch up.

use std::time::Duration;

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::stream_lab::*;
use crate::walk::random::Random;

const BRIEF: Liveness = Liveness { ttl: secs(1), floor: 10, ceiling: 100 };

/// Appends live frames one by one, so far apart.
#[track_caller]
fn trickle(lab: &mut Lab, lease: &Leased, count: usize, every: Duration, keep: Liveness) {
    for _ in 0..count {
        lab.pass(every);
        lab.ok(renew(lease));
        lab.ok(append(lease, live_frames(1, keep)));
    }
}

pub fn slow_frames_are_kept_down_to_the_floor(lab: &mut Lab) {
    let lease = lab.lease(work());
    trickle(lab, &lease, 9, secs(5), BRIEF);
    assert_eq!(lab.kept_live(lease.id()), 9);
    trickle(lab, &lease, 50, secs(5), BRIEF);
    assert_eq!(lab.kept_live(lease.id()), 10);
    assert_eq!(lab.kept(lease.id()), (50..=59).collect::<Vec<_>>());
    let lease = lab.lease(work());
    trickle(lab, &lease, 200, secs(5), Liveness::default());
    assert_eq!(lab.kept_live(lease.id()), 64);
}

pub fn fast_frames_are_kept_up_to_the_ceiling(lab: &mut Lab) {
    let lease = lab.lease(work());
    trickle(lab, &lease, 300, ms(1), BRIEF);
    assert_eq!(lab.kept_live(lease.id()), 100);
    assert_eq!(lab.kept(lease.id()), (201..=300).collect::<Vec<_>>());
}

pub fn as_many_are_kept_as_come_in_twice_the_time(lab: &mut Lab) {
    for (every, about) in [(10, 200), (20, 100), (100, 20)] {
        let lease = lab.lease(work());
        trickle(lab, &lease, 500, ms(every), Liveness { ceiling: 1000, ..BRIEF });
        let kept = lab.kept_live(lease.id());
        assert!((about * 9 / 10..=about * 11 / 10).contains(&kept), "{kept} of {about}");
    }
}

pub fn what_is_kept_follows_the_rate(lab: &mut Lab) {
    let lease = lab.lease(work());
    let keep = Liveness { ceiling: 1000, ..BRIEF };
    trickle(lab, &lease, 400, ms(10), keep);
    let fast = lab.kept_live(lease.id());
    trickle(lab, &lease, 100, ms(1000), keep);
    assert_eq!(lab.kept_live(lease.id()), 10);
    trickle(lab, &lease, 400, ms(10), keep);
    assert_eq!(lab.kept_live(lease.id()), fast);
}

pub fn many_frames_in_one_millisecond_are_kept_for_those_who_watch(lab: &mut Lab) {
    let lease = lab.lease(work());
    trickle(lab, &lease, 20, secs(5), Liveness { ceiling: 5000, ..BRIEF });
    let first = lab.see(read(lease.id())).last + 1;
    for _ in 0..1000 {
        lab.ok(append(&lease, live_frames(2, Liveness { ceiling: 5000, ..BRIEF })));
    }
    let kept = lab.kept(lease.id());
    assert!(kept.ends_with(&(first..first + 2000).collect::<Vec<_>>()), "{}", kept.len());
}

pub fn frames_appended_together_go_together(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, live_frames(150, BRIEF)));
    assert_eq!(lab.kept_live(lease.id()), 150, "the last ones stay");
    lab.pass(secs(5));
    lab.ok(append(&lease, live_frames(9, BRIEF)));
    assert_eq!(lab.kept_live(lease.id()), 159, "without the first ones there were too few");
    lab.pass(secs(5));
    trickle(lab, &lease, 50, secs(5), BRIEF);
    assert_eq!(lab.kept_live(lease.id()), 10);
}

pub fn live_frames_are_not_kept_at_the_cost_of_durable_ones(lab: &mut Lab) {
    let lease = lab.lease(work());
    for _ in 0..100 {
        lab.pass(secs(1));
        lab.ok(renew(&lease));
        let new = [frame("d")].into_iter().chain(live_frames(5, BRIEF)).chain([frame("d")]);
        assert_eq!(lab.ok(append(&lease, new)).last % 7, 0);
    }
    let seen = lab.frames(read(lease.id()));
    assert_eq!(seen.iter().filter(|frame| !frame.live).count(), 200);
    let lives = seen.iter().filter(|frame| frame.live).count();
    assert!((10..=100).contains(&lives), "{lives}");
    let durable = lab.frames(ReadStream { durable_only: true, ..read(lease.id()) });
    let expected: Vec<_> = (1..=700).filter(|seq| matches!(seq % 7, 0 | 1)).collect();
    assert_eq!(seqs(&durable), expected);
}

pub fn the_retention_of_durable_frames_leaves_live_ones_alone(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "stream_retention": 1 }))));
    lab.ok(append(&lease, [frame("d")]));
    trickle(lab, &lease, 10, secs(1), BRIEF);
    for _ in 0..20 {
        lab.ok(append(&lease, live_frames(1, BRIEF)));
    }
    assert_eq!(lab.ok(append(&lease, [frame("d")])).kept, 1);
    lab.ok(append(&lease, live_frames(3, BRIEF)));
    let page = lab.see(read(lease.id()));
    assert_eq!(seqs(&page.frames), (2..=35).collect::<Vec<_>>());
}

pub fn a_cursor_among_live_frames_that_are_gone_goes_on(lab: &mut Lab) {
    let lease = lab.lease(work());
    trickle(lab, &lease, 50, secs(5), BRIEF);
    let page = lab.see(read_after(lease.id(), 3));
    assert_eq!(seqs(&page.frames), (41..=50).collect::<Vec<_>>());
    assert_eq!(lab.kept(lease.id()), (41..=50).collect::<Vec<_>>());
}

pub fn settings_of_live_frames_out_of_range_are_refused(lab: &mut Lab) {
    let lease = lab.lease(work());
    let most = u32::try_from(Limits::LIVE_FRAMES).expect("it fits");
    for (keep, field) in [
        (Liveness { ttl: secs(0), ..BRIEF }, "keep.ttl_ms"),
        (Liveness { ttl: Limits::LIVE_TTL_MAX + ms(1), ..BRIEF }, "keep.ttl_ms"),
        (Liveness { floor: 0, ..BRIEF }, "keep.floor"),
        (Liveness { floor: 101, ..BRIEF }, "keep.floor"),
        (Liveness { ceiling: most + 1, ..BRIEF }, "keep.ceiling"),
    ] {
        let new = [frame("good")].into_iter().chain(live_frames(1, keep));
        let error = lab.refused(append(&lease, new));
        let field = format!("frames[1].{field}");
        assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some(field.as_str())));
    }
    let widest = Liveness { ttl: Limits::LIVE_TTL_MAX, floor: 1, ceiling: most };
    lab.ok(append(&lease, live_frames(1, widest)));
    assert_eq!(lab.kept(lease.id()), [1]);
}

pub fn the_same_frames_are_kept_on_every_store(lab: &mut Lab) {
    let mut memory = Lab::new(Box::new(MemoryStore::new()));
    let seed = std::env::var("EVERLOOM_SEED").ok().and_then(|text| text.parse().ok());
    let mut random = Random::new(seed.unwrap_or(1));
    let keep = Liveness { ttl: ms(700), floor: 1, ceiling: 10_000 };
    let leases = [&mut *lab, &mut memory].map(|lab| lab.lease(work()));
    for step in 0..300 {
        let (time, count) = (ms(random.below(50)), 1 + random.index(4));
        let kept = [(&mut *lab, &leases[0]), (&mut memory, &leases[1])].map(|(lab, lease)| {
            lab.pass(time);
            lab.ok(renew(lease));
            lab.ok(append(lease, live_frames(count, keep)));
            if step % 50 == 0 {
                lab.reopen();
            }
            lab.kept(lease.id())
        });
        assert_eq!(kept[0], kept[1], "after {step} appends");
    }
}
