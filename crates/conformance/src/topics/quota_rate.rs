//! How many may begin in a window, wherever that begins.

use std::collections::VecDeque;

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::complete_with;
use crate::limit_lab::*;
use crate::walk::random::Random;

/// When the next thing is due.
#[track_caller]
fn next_due(lab: &mut Lab) -> Option<Timestamp> {
    lab.tick().next_due
}

/// Claims all there is and completes it; tells how much that was.
#[track_caller]
fn drain(lab: &mut Lab) -> usize {
    let leases = lab.claims(up_to(1000));
    for lease in &leases {
        lab.ok(complete(lease));
    }
    leases.len()
}

pub fn a_rate_lets_only_so_many_begin_in_a_window(lab: &mut Lab) {
    lab.ok(make(in_each(3, secs(60))));
    lab.submit_all((0..7).map(|_| limited()));
    assert_eq!(drain(lab), 3);
    lab.advance(ms(59_999));
    assert_eq!(drain(lab), 0);
    lab.advance(ms(1));
    assert_eq!(drain(lab), 3);
    lab.advance(secs(60));
    assert_eq!(drain(lab), 1);
}

pub fn what_a_lease_gives_back_is_not_a_beginning(lab: &mut Lab) {
    lab.ok(make(in_each(1, secs(60))));
    let lease = lab.lease(limited());
    lab.ok(release(&lease));
    assert!(lab.nothing_to_claim(), "it has begun in this window");
    lab.advance(secs(60));
    assert_eq!(lab.claim("w").id(), lease.id());
}

pub fn work_returns_at_the_exact_time_it_may_run(lab: &mut Lab) {
    lab.ok(make(in_each(2, secs(60))));
    lab.submit_all((0..4).map(|_| limited()));
    let start = lab.now();
    let first = lab.claim("w");
    lab.ok(complete(&first));
    lab.pass(secs(10));
    assert_eq!(drain(lab), 1);
    let key = lab.quota("q").keys.remove(0);
    assert_eq!(key.opens_at, Some(start + secs(60)));
    lab.set_clock(start + secs(59));
    lab.tick();
    assert_eq!(next_due(lab), Some(start + secs(60)));
    lab.set_clock(start + secs(60));
    lab.tick();
    assert_eq!(drain(lab), 1);
    assert_eq!(drain(lab), 0, "the second one began ten seconds later");
    lab.set_clock(start + secs(70));
    lab.tick();
    assert_eq!(drain(lab), 1);
}

pub fn many_may_begin_in_one_millisecond(lab: &mut Lab) {
    lab.ok(make(in_each(500, ms(10))));
    lab.submit_all((0..700).map(|_| limited()));
    assert_eq!(drain(lab), 500);
    lab.advance(ms(9));
    assert_eq!(drain(lab), 0);
    lab.advance(ms(1));
    assert_eq!(drain(lab), 200);
}

pub fn the_limit_is_reached_also_where_it_is_high(lab: &mut Lab) {
    lab.ok(make(in_each(2500, secs(60))));
    for _ in 0..6 {
        lab.submit_all((0..1000).map(|_| limited()));
    }
    let all = |lab: &mut Lab| (0..10).map(|_| drain(lab)).sum::<usize>();
    assert_eq!(all(lab), 2500);
    lab.advance(secs(60));
    assert_eq!(all(lab), 2500);
    lab.advance(secs(60));
    assert_eq!(all(lab), 1000);
}

pub fn no_window_ever_has_more_than_the_limit_and_the_limit_is_reached(lab: &mut Lab) {
    const LIMIT: usize = 7;
    const WINDOW: u64 = 1000;
    let mut random = Random::new(11);
    lab.ok(make(in_each(LIMIT as u64, ms(WINDOW))));
    let mut begun = VecDeque::new();
    let mut all = 0;
    for _ in 0..1500 {
        let waiting = lab.counts().open();
        if waiting < 20 {
            lab.submit_all((0..30).map(|_| limited()));
        }
        let longest = random.one_of(&[2, 40, 400]);
        lab.advance(ms(random.below(longest)));
        let now = lab.now();
        while begun.front().is_some_and(|at: &Timestamp| *at + ms(WINDOW) <= now) {
            begun.pop_front();
        }
        let leases = lab.claims(up_to(1 + random.index(10)));
        let asked_all = random.percent(50);
        let mut got = leases.len();
        if asked_all {
            let more = lab.claims(up_to(1000));
            got += more.len();
            for lease in more {
                lab.ok(complete(&lease));
            }
        }
        for lease in leases {
            lab.ok(complete_with(&lease, "done"));
        }
        begun.extend(std::iter::repeat_n(now, got));
        all += got;
        assert!(begun.len() <= LIMIT, "{} began within a window", begun.len());
        assert!(
            !asked_all || begun.len() == LIMIT,
            "only {} began although there is work",
            begun.len()
        );
    }
    assert!(all > 10 * LIMIT);
}

pub fn a_raised_rate_lets_the_next_ones_begin_at_once(lab: &mut Lab) {
    lab.ok(make(in_each(2, secs(60))));
    lab.submit_all((0..9).map(|_| limited()));
    assert_eq!(drain(lab), 2);
    lab.ok(update(in_each(5, secs(60))));
    lab.advance(secs(0));
    assert_eq!(drain(lab), 3);
    lab.advance(secs(59));
    assert_eq!(drain(lab), 0);
    lab.advance(secs(1));
    assert_eq!(drain(lab), 4);
}

pub fn a_lowered_rate_counts_what_has_begun(lab: &mut Lab) {
    lab.ok(make(in_each(5, secs(60))));
    lab.submit_all((0..9).map(|_| limited()));
    assert_eq!(drain(lab), 5);
    lab.ok(update(in_each(2, secs(60))));
    lab.advance(secs(59));
    assert_eq!(drain(lab), 0);
    lab.advance(secs(1));
    assert_eq!(drain(lab), 2);
    lab.advance(secs(60));
    assert_eq!(drain(lab), 2);
}

pub fn a_rate_and_a_concurrency_both_hold(lab: &mut Lab) {
    lab.ok(make(QuotaTerms { concurrency: Some(2), ..in_each(3, secs(60)) }));
    lab.submit_all((0..5).map(|_| limited()));
    let [one, two] = lab.claim_all();
    lab.ok(complete(&one));
    let three = lab.claim("w");
    lab.ok(complete(&two));
    assert!(lab.nothing_to_claim(), "three have begun");
    lab.ok(complete(&three));
    lab.advance(secs(60));
    assert_eq!(lab.claims(up_to(1000)).len(), 2, "two at once");
}

pub fn each_key_has_a_rate_of_its_own(lab: &mut Lab) {
    lab.ok(make(by_tag("tenant", in_each(1, secs(60)))));
    let of = |tenant: &str| limited().tag("tenant", tenant);
    lab.submit_all([of("a"), of("a"), of("b"), of("b")]);
    assert_eq!(drain(lab), 2);
    lab.advance(secs(30));
    lab.submit(of("c"));
    assert_eq!(drain(lab), 1);
    lab.advance(secs(30));
    assert_eq!(drain(lab), 2);
}

pub fn what_has_begun_is_not_forgotten_before_its_window_is_over(lab: &mut Lab) {
    lab.ok(make(by_tag("tenant", in_each(1, hours(1)))));
    let of = |tenant: &str| limited().tag("tenant", tenant);
    lab.submit(of("a"));
    assert_eq!(drain(lab), 1);
    lab.advance(ms(3_599_999));
    let again = lab.submit(of("a"));
    assert_eq!(drain(lab), 0);
    lab.ok(Cancel::new(again));
    lab.advance(secs(120));
    assert_eq!(lab.quota("q").keys, []);
    lab.submit(of("a"));
    assert_eq!(drain(lab), 1);
}

pub fn work_that_waits_explains_when_it_may_begin(lab: &mut Lab) {
    lab.ok(make(in_each(1, secs(60))));
    let at = lab.now() + secs(60);
    lab.lease(limited());
    let id = lab.submit(limited());
    assert!(lab.nothing_to_claim());
    let said = lab.explain(id);
    for word in ["quota `q`", "lets 1 begin in 60000 ms", &format!("at {at}")] {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}
