//! Work of which only so many with the same key run at once.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::limit_lab::*;

pub fn one_of_a_key_runs_at_a_time(lab: &mut Lab) {
    let new = || work().policy(policy(json!({ "concurrency_key": { "key": "k" } })));
    let ids = lab.submit_all([new(), new(), new()]);
    for id in ids {
        let lease = lab.claim("w");
        assert_eq!(lease.id(), id);
        assert!(lab.nothing_to_claim());
        lab.ok(complete(&lease));
    }
}

pub fn as_many_of_a_key_run_as_each_says(lab: &mut Lab) {
    lab.submit_all((0..5).map(|_| keyed("k", 3)));
    let [one, _, _] = lab.claim_all();
    lab.ok(retry_after(&one, hours(1)));
    assert_eq!(lab.claims(up_to(1000)).len(), 1);
}

pub fn other_keys_and_work_without_one_are_not_limited(lab: &mut Lab) {
    lab.submit_all([keyed("k", 1), keyed("k", 1), keyed("other", 1), work(), work()]);
    assert_eq!(lab.claims(up_to(1000)).len(), 4);
    let elsewhere = Submit { namespace: "other".into(), ..submit([keyed("k", 1)]) };
    lab.ok(elsewhere);
    let claim = Claim { namespace: "other".into(), ..up_to(10) };
    assert_eq!(lab.claims(claim).len(), 1, "a key belongs to its namespace");
}

pub fn each_keeps_to_its_own_limit_where_a_key_has_several(lab: &mut Lab) {
    let wide = [keyed("k", 3), keyed("k", 3)].map(|new| lab.lease(new));
    let [strict, third] = [keyed("k", 1), keyed("k", 3)].map(|new| lab.submit(new));
    assert_eq!(lab.claimed_ids(up_to(10)), [third], "there are two, and it allows three");
    assert_eq!(lab.status(strict), Status::RateLimited);
    let lease = lab.get(third);
    assert_eq!(lease.status, Status::Active);
    lab.ok(force_cancel(third));
    lab.ok(complete(&wide[0]));
    assert!(lab.nothing_to_claim(), "one is still under way");
    lab.ok(complete(&wide[1]));
    assert_eq!(lab.claim("w").id(), strict);
}

pub fn a_key_comes_back_however_its_lease_ends(lab: &mut Lab) {
    let first = lab.lease(keyed("k", 1));
    let next = lab.submit(keyed("k", 1).lane("a"));
    assert_eq!(refused_by(lab.ok(by_id(next, "w"))), LimitedBy::ConcurrencyKey("k".to_owned()));
    lab.advance(secs(30));
    assert_eq!(lab.status(first.id()), Status::Waiting, "its lease ran out");
    lab.take(next);
    lab.ok(force_cancel(next));
    let granted = lab.submit(keyed("k", 1));
    lab.reserve(granted);
    assert!(lab.nothing_to_claim());
    lab.advance(secs(60));
    assert_eq!(lab.claims(up_to(10)).len(), 1);
}

pub fn work_that_waits_for_its_key_explains_that(lab: &mut Lab) {
    lab.lease(keyed("k", 1));
    let id = lab.submit(keyed("k", 1));
    assert!(lab.nothing_to_claim());
    let said = lab.explain(id);
    assert!(said.contains("1 with the concurrency key `k`"), "{said}");
}
