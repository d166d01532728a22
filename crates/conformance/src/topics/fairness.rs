//! Keys take turns in a lane.

use std::collections::BTreeMap;

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::limit_lab::keyed;

/// Lets keys take turns by the value of the tag `tenant`.
fn turns() -> PutLane {
    turns_of([])
}

/// The same with weights.
fn turns_of<const N: usize>(weights: [(&str, u32); N]) -> PutLane {
    let weights = weights.map(|(key, weight)| (key.to_owned(), weight)).into();
    let fairness = FairTerms { by_tag: Some("tenant".to_owned()), weights };
    PutLane { fairness: Some(fairness), ..put_lane("default", Defaults::default()) }
}

fn of(tenant: &str) -> NewExecution {
    work().tag("tenant", tenant)
}

#[track_caller]
fn backlog(lab: &mut Lab, tenant: &str, count: usize) {
    lab.submit_all((0..count).map(|_| of(tenant)));
}

/// The tenants of the next ones, in the order of claims: `aabac`.
#[track_caller]
fn next(lab: &mut Lab, count: usize) -> String {
    let mut said = String::new();
    for id in lab.claimed_ids(up_to(count)) {
        let tags = lab.get(id).tags;
        said += tags.get("tenant").map_or("-", String::as_str);
    }
    said
}

pub fn deep_backlogs_do_not_starve_a_tenant_with_one_execution(lab: &mut Lab) {
    lab.ok(turns());
    backlog(lab, "a", 300);
    backlog(lab, "b", 300);
    backlog(lab, "c", 1);
    assert!(next(lab, 3).contains('c'));
    next(lab, 100);
    backlog(lab, "d", 1);
    assert!(next(lab, 3).contains('d'), "also of one who comes late");
}

pub fn equal_keys_take_turns(lab: &mut Lab) {
    lab.ok(turns());
    backlog(lab, "a", 4);
    backlog(lab, "b", 4);
    backlog(lab, "c", 2);
    assert_eq!(next(lab, 10), "abcabcabab");
}

pub fn weights_say_how_often_a_key_has_its_turn(lab: &mut Lab) {
    lab.ok(turns_of([("a", 3)]));
    backlog(lab, "a", 400);
    backlog(lab, "b", 400);
    let said = next(lab, 400);
    let a = said.matches('a').count();
    assert!((299..=302).contains(&a), "{a} of 400");
}

pub fn a_key_of_ones_own_counts_instead_of_the_tag(lab: &mut Lab) {
    lab.ok(turns());
    let own = |key: &str| {
        of("a").policy(Policy { fairness_key: Some(key.to_owned()), ..Policy::default() })
    };
    lab.submit_all((0..10).map(|_| own("x")));
    let y = lab.submit(own("y"));
    assert!(lab.claimed_ids(up_to(2)).contains(&y));
}

pub fn work_without_a_key_is_one_of_the_keys(lab: &mut Lab) {
    lab.ok(turns());
    lab.submit_all((0..3).map(|_| work()));
    backlog(lab, "a", 3);
    assert_eq!(next(lab, 6), "-a-a-a");
}

pub fn who_was_away_gets_no_turns_for_that(lab: &mut Lab) {
    lab.ok(turns());
    backlog(lab, "a", 20);
    assert_eq!(next(lab, 10), "a".repeat(10));
    backlog(lab, "b", 10);
    let said = next(lab, 8);
    assert_eq!(said.matches('b').count(), 4, "{said}");
}

pub fn a_backlog_from_before_goes_first(lab: &mut Lab) {
    backlog(lab, "a", 3);
    backlog(lab, "b", 1);
    lab.ok(turns());
    backlog(lab, "c", 2);
    backlog(lab, "d", 2);
    assert_eq!(next(lab, 8), "aaabcdcd");
}

pub fn without_turns_what_was_submitted_first_goes_first_again(lab: &mut Lab) {
    lab.ok(turns());
    backlog(lab, "a", 3);
    backlog(lab, "b", 2);
    lab.ok(put_lane("default", Defaults::default()));
    backlog(lab, "c", 2);
    backlog(lab, "d", 1);
    backlog(lab, "c", 1);
    assert_eq!(next(lab, 9), "ababaccdc");
    lab.ok(turns());
    backlog(lab, "e", 2);
    backlog(lab, "f", 1);
    assert_eq!(next(lab, 3), "efe");
}

pub fn changes_of_priority_do_not_run_away_from_what_comes_after_turns(lab: &mut Lab) {
    lab.ok(turns());
    backlog(lab, "a", 1);
    let id = lab.list(ListExecutions::default())[0].id;
    for round in 0..20 {
        lab.ok(prioritise(id, 1000 + round % 2));
    }
    lab.ok(prioritise(id, 1000));
    lab.ok(put_lane("default", Defaults::default()));
    backlog(lab, "b", 1);
    assert_eq!(next(lab, 2), "ab");
}

pub fn putting_a_lane_again_keeps_the_turns(lab: &mut Lab) {
    lab.ok(turns());
    backlog(lab, "a", 4);
    backlog(lab, "b", 1);
    lab.ok(turns_of([("b", 2)]));
    lab.reopen();
    backlog(lab, "b", 3);
    let said = next(lab, 4);
    assert!(said.matches('b').count() >= 2, "{said}");
    let fairness = lab.lane("default").fairness.expect("keys take turns");
    assert_eq!(fairness.weights, BTreeMap::from([("b".to_owned(), 2)]));
}

pub fn priorities_stay_strict(lab: &mut Lab) {
    lab.ok(turns());
    backlog(lab, "a", 3);
    lab.submit_all((0..3).map(|_| of("b").priority(2000)));
    lab.submit(of("c").priority(2000));
    assert_eq!(next(lab, 7), "bcbbaaa");
}

pub fn a_changed_priority_takes_its_turn_among_the_others(lab: &mut Lab) {
    lab.ok(turns());
    lab.submit_all((0..3).map(|_| of("a").priority(2000)));
    let raised = lab.submit(of("b"));
    lab.submit(of("c").priority(2000));
    lab.ok(prioritise(raised, 2000));
    assert_eq!(next(lab, 5), "abcaa", "among equals, what was submitted first goes first");
}

pub fn work_that_comes_back_keeps_its_turn(lab: &mut Lab) {
    lab.ok(turns());
    backlog(lab, "a", 3);
    backlog(lab, "b", 3);
    let first = lab.claim("w");
    lab.ok(release(&first));
    assert_eq!(lab.claim("w").id(), first.id());
}

pub fn turns_and_limits_go_together(lab: &mut Lab) {
    lab.ok(turns());
    lab.submit_all((0..3).map(|_| keyed("k", 1).tag("tenant", "a")));
    backlog(lab, "b", 2);
    assert_eq!(next(lab, 10), "abb");
}

pub fn weights_and_tags_are_checked(lab: &mut Lab) {
    for (weights, by_tag) in
        [(("a", 0), "t"), (("a", 1001), "t"), (("", 1), "t"), (("a", 1), "a b")]
    {
        let put = turns_of([weights]);
        let fairness =
            put.fairness.clone().map(|terms| FairTerms { by_tag: Some(by_tag.into()), ..terms });
        let error = lab.refused(PutLane { fairness, ..put });
        assert_eq!(error.code(), Code::InvalidInput);
        assert!(error.field().is_some_and(|field| field.starts_with("fairness.")), "{error}");
    }
}
