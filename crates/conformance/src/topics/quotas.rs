//! How many may run at once, and what becomes of those who have to wait.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::limit_lab::*;

pub fn a_quota_of_an_execution_limits_how_many_run_at_once(lab: &mut Lab) {
    lab.ok(make(at_once(2)));
    let ids = lab.submit_all([limited(), limited(), limited()]);
    let [one, two] = lab.claim_all();
    assert_eq!([one.id(), two.id()], ids[..2]);
    assert_eq!((lab.status(ids[2]), lab.load()), (Status::RateLimited, (2, 1)));
    assert_eq!(lab.get(ids[2]).limited_by, Some(by_quota("q")));
    lab.ok(complete(&one));
    assert_eq!(lab.status(ids[2]), Status::Waiting);
    assert_eq!(lab.claim("w").id(), ids[2]);
    assert_eq!(lab.load(), (2, 0));
}

pub fn a_quota_of_a_lane_limits_all_work_in_it(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.ok(attach(AttachTo::Lane("a".into())));
    lab.submit_all([work().lane("a"), work().lane("a"), work()]);
    assert_eq!(lab.claims(from_lanes(["a"])).len(), 1);
    assert_eq!(lab.claims(from_lanes(["a", "default"])).len(), 1);
    assert_eq!(lab.lane("a").limits.quotas, [quota("q")]);
}

pub fn a_quota_of_a_kind_limits_all_work_of_it(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.ok(attach(AttachTo::Kind("mail".into())));
    let mail = || NewExecution::new("mail");
    lab.submit_all([mail(), mail().lane("a"), mail().capability("gpu"), work()]);
    let all = Claim { capabilities: names(["gpu"]), ..from_lanes(["default", "a"]) };
    let kinds: Vec<_> = lab.claims(all).into_iter().map(|lease| lease.kind).collect();
    assert_eq!(kinds, ["mail", "work"]);
    assert_eq!(lab.load(), (1, 2));
}

pub fn a_quota_of_a_namespace_limits_all_work_in_it(lab: &mut Lab) {
    lab.ok(make(at_once(2)));
    lab.ok(attach(AttachTo::Namespace));
    lab.submit_all([work(), work().lane("a"), NewExecution::new("mail")]);
    assert_eq!(lab.claims(from_lanes(["default", "a"])).len(), 2);
    let elsewhere = || Submit { namespace: "other".into(), ..submit([work(), work(), work()]) };
    lab.ok(elsewhere());
    let claim = Claim { namespace: "other".into(), ..up_to(1000) };
    assert_eq!(lab.claims(claim).len(), 3, "another namespace has no such quota");
}

pub fn quotas_of_the_defaults_come_on_top_of_ones_own(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.ok(CreateQuota::new("other", at_once(1)));
    lab.ok(put_lane("default", defaults(json!({ "quotas": [{ "quota": "other" }] }))));
    let id = lab.submit(limited());
    assert_eq!(lab.get(id).policy.quotas, [quota("q"), quota("other")]);
}

pub fn work_over_its_quota_leaves_the_queue_and_hides_nothing(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.submit_all((0..5).map(|_| limited().priority(9000)));
    let behind = lab.submit(work());
    let claimed = lab.claimed_ids(up_to(2));
    assert_eq!(claimed[1], behind, "the same claim gets what is behind");
    assert_eq!(lab.lane("default").depth, lab.count(Status::Waiting));
    assert!(lab.nothing_to_claim());
    assert_eq!((lab.count(Status::RateLimited), lab.lane("default").depth), (4, 0));
}

pub fn a_claim_goes_on_where_much_stands_in_its_way(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.submit_all((0..700).map(|_| limited().priority(9000)));
    let behind = lab.submit(work());
    lab.take(behind);
    lab.ok(RevokeLease::new(behind));
    let mut more = 0;
    loop {
        let claimed = lab.ok(up_to(1));
        if claimed.leases.iter().any(|lease| lease.id() == behind) {
            break;
        }
        assert!(claimed.more || !claimed.leases.is_empty(), "it stopped too early");
        more += 1;
        assert!(more < 10, "it does not come closer");
    }
}

pub fn what_waits_returns_in_the_order_of_claims(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let [low, high, early] = [limited().priority(1), limited().priority(5), limited().priority(5)]
        .map(|new| lab.submit(new));
    let first = lab.lease(limited());
    assert!(lab.nothing_to_claim());
    let late = lab.submit(limited().priority(3));
    assert!(lab.nothing_to_claim());
    lab.ok(prioritise(early, 9));
    lab.ok(complete(&first));
    for expected in [early, high, late, low] {
        let lease = lab.claim("w");
        assert_eq!(lease.id(), expected);
        assert!(lab.nothing_to_claim());
        lab.ok(complete(&lease));
    }
}

pub fn resumed_work_that_waited_for_a_quota_is_resumed(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let slept = lab.lease(limited());
    lab.ok(delay(&slept, secs(0)));
    let other = lab.lease(limited());
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.status(slept.id()), Status::RateLimited);
    lab.ok(complete(&other));
    assert_eq!(lab.status(slept.id()), Status::Resumable);
    let lease = lab.claim("w");
    assert_eq!((lease.attempt, lease.resumed), (1, true));
}

pub fn held_work_does_not_wait_for_its_quota(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let first = lab.lease(limited());
    let [held, next] = [(); 2].map(|()| lab.submit(limited()));
    assert!(lab.nothing_to_claim());
    lab.ok(hold(held));
    let view = lab.get(held);
    assert_eq!((view.status, view.held, lab.load()), (Status::Waiting, true, (1, 1)));
    lab.ok(complete(&first));
    assert_eq!(lab.claim("w").id(), next);
    lab.ok(unhold(held));
    assert!(lab.nothing_to_claim());
    assert_eq!((lab.status(held), lab.load()), (Status::RateLimited, (1, 1)));
}

pub fn work_that_ends_while_it_waits_is_forgotten_by_its_quota(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let first = lab.lease(limited());
    let deadline = lab.now() + secs(5);
    let [cancelled, expired] =
        [limited(), limited().deadline_at(deadline)].map(|new| lab.submit(new));
    assert!(lab.nothing_to_claim());
    lab.ok(Cancel::new(cancelled));
    assert_eq!(lab.load(), (1, 1));
    lab.advance(secs(5));
    assert_eq!((lab.status(expired), lab.load()), (Status::Expired, (1, 0)));
    lab.ok(complete(&first));
    assert_eq!(lab.load(), (0, 0));
}

pub fn what_was_freed_and_then_stopped_does_not_strand_the_others(lab: &mut Lab) {
    type Act = fn(&mut Lab, ExecutionId);
    let acts: [Act; 2] = [|lab, id| lab.run(Cancel::new(id)), |lab, id| lab.run(hold(id))];
    lab.ok(make(at_once(1)));
    for act in acts {
        let first = lab.lease(limited());
        let [freed, next] = [(); 2].map(|()| lab.submit(limited()));
        assert!(lab.nothing_to_claim());
        lab.ok(complete(&first));
        assert_eq!(lab.status(freed), Status::Waiting);
        act(lab, freed);
        lab.advance(secs(1));
        let lease = lab.claim("w");
        assert_eq!(lease.id(), next);
        lab.ok(complete(&lease));
    }
}

pub fn kinds_nobody_serves_do_not_block_others_of_the_same_quota(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let first = lab.lease(limited());
    let unserved = NewExecution { kind: "unserved".into(), ..limited().priority(9000) };
    lab.submit_all([unserved.clone(), unserved.lane("a")]);
    let served = lab.submit(limited());
    lab.ok(from_lanes(["default", "a"]));
    assert_eq!(lab.load(), (1, 3));
    lab.ok(complete(&first));
    let claim = Claim { kinds: names(["work"]), ..up_to(10) };
    assert_eq!(lab.claimed_ids(claim), [served]);
    assert_eq!(lab.load().0, 1);
}

pub fn a_quota_is_had_by_each_value_of_a_tag(lab: &mut Lab) {
    lab.ok(make(by_tag("tenant", at_once(1))));
    let of = |tenant: &str| limited().tag("tenant", tenant);
    lab.submit_all([of("a"), of("a"), of("b"), limited(), limited()]);
    assert_eq!(lab.claims(up_to(1000)).len(), 3);
    let keys = lab.quota("q").keys;
    let told: Vec<_> = keys.iter().map(|key| (key.key.as_str(), key.active, key.blocked)).collect();
    assert_eq!(told, [("", 1, 1), ("a", 1, 1), ("b", 1, 0)]);
}

pub fn an_explicit_key_counts_instead_of_the_tag(lab: &mut Lab) {
    lab.ok(make(by_tag("tenant", at_once(1))));
    lab.submit_all(["x", "x", "y"].map(|key| limited_for(key).tag("tenant", "a")));
    assert_eq!(lab.claims(up_to(1000)).len(), 2);
    lab.ok(AttachLimit { key: Some("lane".into()), ..attach(AttachTo::Lane("l".into())) });
    lab.submit_all([("a"), ("b")].map(|tenant| work().lane("l").tag("tenant", tenant)));
    assert_eq!(lab.claims(from_lanes(["l"])).len(), 1, "all of the lane share its key");
}

pub fn a_changed_tag_takes_work_to_the_quota_of_its_new_value(lab: &mut Lab) {
    lab.ok(make(by_tag("tenant", at_once(1))));
    let first = lab.lease(limited().tag("tenant", "a"));
    let id = lab.submit(limited().tag("tenant", "a"));
    assert!(lab.nothing_to_claim());
    lab.ok(set_tags(id, [("tenant", Some("b"))]));
    assert_eq!(lab.claim("w").id(), id);
    lab.ok(complete(&first));
    let keys = lab.quota("q").keys;
    assert!(keys.iter().all(|key| key.blocked == 0), "{keys:?}");
}

pub fn several_quotas_are_passed_together_or_not_at_all(lab: &mut Lab) {
    lab.ok(CreateQuota::new("wide", at_once(2)));
    lab.ok(CreateQuota::new("narrow", at_once(1)));
    let busy = lab.lease(under(["narrow"]));
    let both = lab.submit(under(["wide", "narrow"]));
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.get(both).limited_by, Some(by_quota("narrow")));
    assert_eq!(lab.quota("wide").keys[0].active, 0, "nothing is kept of the other");
    let [one, _two] = [(); 2].map(|()| lab.lease(under(["wide"])));
    lab.ok(complete(&busy));
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.get(both).limited_by, Some(by_quota("wide")));
    assert_eq!(lab.quota("narrow").keys[0].active, 0);
    lab.ok(complete(&one));
    assert_eq!(lab.claim("w").id(), both);
}

pub fn a_place_that_work_could_not_take_goes_to_the_next(lab: &mut Lab) {
    lab.ok(CreateQuota::new("one", at_once(1)));
    lab.ok(CreateQuota::new("other", at_once(1)));
    let [first, busy] = [under(["one"]), under(["other"])].map(|new| lab.lease(new));
    let both = lab.submit(under(["one", "other"]));
    let next = lab.submit(under(["one"]));
    assert!(lab.nothing_to_claim());
    lab.ok(complete(&first));
    assert_eq!(lab.claimed_ids(up_to(10)), [next], "the first in line waits for the other now");
    assert_eq!(lab.get(both).limited_by, Some(by_quota("other")));
    lab.ok(complete(&busy));
}

pub fn a_raised_quota_lets_the_next_ones_run(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.submit_all((0..6).map(|_| limited()));
    assert_eq!(lab.claims(up_to(1000)).len(), 1);
    lab.ok(update(at_once(4)));
    lab.settle();
    assert_eq!(lab.claims(up_to(1000)).len(), 3);
    assert_eq!(lab.load(), (4, 2));
}

pub fn a_lowered_quota_takes_nothing_from_those_who_run(lab: &mut Lab) {
    lab.ok(make(at_once(3)));
    lab.submit_all((0..5).map(|_| limited()));
    let leases = lab.claims(up_to(1000));
    lab.ok(update(at_once(1)));
    lab.settle();
    for (index, lease) in leases.iter().enumerate() {
        lab.ok(renew(lease));
        lab.ok(complete(lease));
        let got = lab.claims(up_to(1000)).len();
        assert_eq!(got, usize::from(index == 2), "after {index}");
    }
    assert_eq!(lab.load(), (1, 1));
}

pub fn a_quota_that_tells_by_another_tag_is_another_quota(lab: &mut Lab) {
    lab.ok(make(by_tag("tenant", at_once(1))));
    let of = |tenant: &str, model: &str| limited().tag("tenant", tenant).tag("model", model);
    lab.submit_all([of("a", "x"), of("a", "y"), of("a", "z")]);
    let first = lab.claim("w");
    assert!(lab.nothing_to_claim());
    lab.ok(update(by_tag("model", at_once(1))));
    lab.settle();
    assert_eq!(lab.claims(up_to(1000)).len(), 2);
    lab.ok(complete(&first));
    assert_eq!(lab.load(), (2, 0));
}

pub fn a_claim_by_id_is_refused_with_the_name_of_the_quota(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let first = lab.lease(limited());
    let id = lab.submit(limited());
    for _ in 0..2 {
        assert_eq!(refused_by(lab.ok(by_id(id, "w"))), by_quota("q"));
        assert_eq!(lab.status(id), Status::RateLimited);
    }
    lab.ok(complete(&first));
    lab.take(id);
}

pub fn replayed_work_is_under_its_quotas_again(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let first = lab.lease(limited());
    lab.ok(complete(&first));
    lab.ok(replay(first.id()));
    let other = lab.lease(limited());
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.get(first.id()).limited_by, Some(by_quota("q")));
    assert_eq!(lab.refused(delete_quota("q")).code(), Code::InUse);
    lab.ok(complete(&other));
    assert_eq!(lab.claim("w").id(), first.id());
}

pub fn keys_are_forgotten_when_nothing_is_left_of_them(lab: &mut Lab) {
    lab.ok(make(by_tag("tenant", at_once(1))));
    lab.ok(CreateQuota::new("full", at_once(1)));
    let busy = lab.lease(under(["full"]));
    let turned_away = lab.submit(under(["full", "q"]).tag("tenant", "never"));
    assert!(lab.nothing_to_claim());
    lab.ok(Cancel::new(turned_away));
    let leases: Vec<_> =
        ["a", "b", "c"].into_iter().map(|tag| lab.lease(limited().tag("tenant", tag))).collect();
    let waits = lab.submit(limited().tag("tenant", "c"));
    assert!(lab.nothing_to_claim());
    lab.ok(complete(&leases[0]));
    lab.advance(secs(120));
    let keys: Vec<_> = lab.quota("q").keys.into_iter().map(|key| key.key).collect();
    assert!(!keys.contains(&"a".to_owned()) && !keys.contains(&"never".to_owned()), "{keys:?}");
    lab.ok(Cancel::new(busy.id()));
    lab.take(waits);
    assert_eq!(lab.load(), (1, 0), "leases have run out, and one was taken up again");
    assert_eq!(lab.claims(up_to(1000)).len(), 1, "b was taken up again");
}

pub fn quotas_survive_a_restart(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let first = lab.lease(limited());
    let id = lab.submit(limited());
    assert!(lab.nothing_to_claim());
    lab.reopen();
    assert_eq!(lab.load(), (1, 1));
    lab.ok(complete(&first));
    assert_eq!(lab.claim("w").id(), id);
}

pub fn quotas_are_listed_by_name_in_pages(lab: &mut Lab) {
    for name in ["c", "a", "b"] {
        lab.ok(CreateQuota::new(name, at_once(1)));
    }
    let page = lab.see(ListQuotas { limit: 2, ..list_quotas("default") });
    let names: Vec<_> = page.quotas.iter().map(|one| one.quota.as_str()).collect();
    assert_eq!((names, page.next.as_deref()), (vec!["a", "b"], Some("b")));
    let rest = lab.see(ListQuotas { after: page.next, ..list_quotas("default") });
    assert_eq!((rest.quotas.len(), rest.next), (1, None));
    assert_eq!(lab.see(list_quotas("nowhere")).quotas, []);
}

pub fn work_that_waits_explains_the_quota_and_its_numbers(lab: &mut Lab) {
    lab.ok(make(by_tag("tenant", QuotaTerms { concurrency: Some(1), ..in_each(5, secs(60)) })));
    lab.lease(limited().tag("tenant", "a"));
    let id = lab.submit(limited().tag("tenant", "a"));
    assert!(lab.nothing_to_claim());
    let said = lab.explain(id);
    for word in ["quota `q`", "1 run at once for `a`; 1 do", "5 begin in 60000 ms"] {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}
