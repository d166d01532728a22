//! Claiming the next work.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;

pub fn a_claim_that_finds_nothing_changes_nothing(lab: &mut Lab) {
    lab.submit(work().lane("elsewhere"));
    let before = lab.snapshot();
    assert!(lab.ok(Claim::new("w")).is_empty());
    assert!(lab.ok(from_lanes(["no-such-lane"])).is_empty());
    assert!(lab.ok(Claim { namespace: "nowhere".into(), ..Claim::new("w") }).is_empty());
    assert!(lab.ok(Claim { kinds: names(["other"]), ..from_lanes(["elsewhere"]) }).is_empty());
    assert_eq!(lab.snapshot(), before);
}

pub fn a_lease_tells_all_that_its_holder_needs(lab: &mut Lab) {
    let created = lab.now();
    let deadline = created + hours(1);
    let id = lab.submit(
        NewExecution::new("mail")
            .input(Payload::bytes("hi"))
            .lane("out")
            .priority(7)
            .tag("a", "b")
            .deadline_at(deadline),
    );
    lab.pass(secs(5));
    let claim = Claim { lease_ttl: secs(10), ..from_lanes(["out"]) };
    let lease = lab.claims(claim).pop().unwrap();
    assert_eq!((lease.id(), lease.expires_at), (id, lab.now() + secs(10)));
    assert_eq!((lease.kind.as_str(), lease.lane.as_str()), ("mail", "out"));
    assert_eq!((lease.attempt, lease.run, lease.retries, lease.resumed), (1, 1, 0, false));
    assert_eq!((lease.priority, lease.created_at), (7, created));
    assert_eq!((lease.deadline_at, lease.tags.clone()), (Some(deadline), tags([("a", "b")])));
    assert_eq!(lease.input, Some(Payload::bytes("hi")));
    let view = lab.get(id);
    assert_eq!((view.status, view.epoch), (Status::Active, lease.lease.epoch));
    assert_eq!((view.worker.as_deref(), view.owned_until), (Some("w"), Some(lease.expires_at)));
}

pub fn higher_priority_goes_first_then_earlier_submission(lab: &mut Lab) {
    let priorities = [0, 1000, 9000, 1000, 5000, 0];
    let ids = lab.submit_all(priorities.map(|priority| work().priority(priority)));
    let order = [2, 4, 1, 3, 0, 5].map(|index| ids[index]);
    assert_eq!(lab.claimed_ids(up_to(1000)), order);
}

pub fn lanes_are_emptied_in_the_order_given(lab: &mut Lab) {
    let low = lab.submit(work().lane("first").priority(0));
    let high = lab.submit(work().lane("second").priority(9000));
    assert_eq!(lab.claimed_ids(Claim { max: 1, ..from_lanes(["first", "second"]) }), [low]);
    lab.ok(RevokeLease::new(low));
    assert_eq!(lab.claimed_ids(from_lanes(["second", "first"])), [high, low]);
}

pub fn a_claim_takes_no_more_than_it_asked_for(lab: &mut Lab) {
    lab.submit_all((0..5).map(|_| work().lane("a")));
    lab.submit_all((0..5).map(|_| work().lane("b")));
    let seven = lab.claims(Claim { max: 7, ..from_lanes(["a", "b"]) });
    assert_eq!(seven.len(), 7);
    assert_eq!(lab.claims(from_lanes(["a", "b"])).len(), 3);
}

pub fn a_lane_named_twice_gives_its_work_once(lab: &mut Lab) {
    let ids = lab.submit_all((0..3).map(|_| work()));
    assert_eq!(lab.claimed_ids(from_lanes(["default", "default"])), ids);
}

pub fn claims_of_one_transaction_never_share_work(lab: &mut Lab) {
    lab.submit_all((0..10).map(|_| work()));
    let mut calls: Vec<_> =
        (0..4).map(|n| lab.call(Claim { max: 3, ..Claim::new(format!("w{n}")) })).collect();
    let mut jobs: Vec<&mut dyn Job> = Vec::new();
    jobs.extend(calls.iter_mut().map(|call| call as &mut dyn Job));
    lab.batch(&mut jobs);
    let mut ids: Vec<_> = calls
        .into_iter()
        .flat_map(|call| call.into_answer().unwrap().leases)
        .map(|lease| lease.id())
        .collect();
    assert_eq!(ids.len(), 10);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 10);
}

pub fn work_that_can_not_be_claimed_hides_nothing_behind_it(lab: &mut Lab) {
    for status in
        open_states().filter(|status| !matches!(status, Status::Waiting | Status::Resumable))
    {
        lab.bring(status, work().priority(9000));
    }
    lab.submit(work().priority(9000).hold());
    lab.submit(work().priority(9000).lane("paused"));
    lab.ok(pause("paused"));
    let free = lab.submit(work().priority(0));
    assert_eq!(lab.claimed_ids(from_lanes(["paused", "default"])), [free]);
}

#[track_caller]
fn keeps_its_rank(lab: &mut Lab, there_and_back: impl FnOnce(&mut Lab, &Leased)) {
    let [first, second, third] = [(); 3].map(|()| lab.submit(work()));
    let lease = lab.claim("w");
    assert_eq!(lease.id(), first);
    there_and_back(lab, &lease);
    assert_eq!(lab.claimed_ids(up_to(1000)), [first, second, third]);
}

pub fn retried_work_keeps_its_rank(lab: &mut Lab) {
    keeps_its_rank(lab, |lab, lease| {
        lab.ok(retry_after(lease, secs(3)));
        lab.advance(secs(3));
    });
}

pub fn resumed_work_keeps_its_rank(lab: &mut Lab) {
    keeps_its_rank(lab, |lab, lease| {
        lab.ok(delay(lease, secs(3)));
        lab.advance(secs(3));
    });
}

pub fn replayed_work_keeps_its_rank(lab: &mut Lab) {
    keeps_its_rank(lab, |lab, lease| {
        lab.ok(complete(lease));
        lab.ok(replay(lease.id()));
    });
}

pub fn released_revoked_and_reclaimed_work_keeps_its_rank(lab: &mut Lab) {
    keeps_its_rank(lab, |lab, lease| {
        lab.ok(release(lease));
        lab.claim("w");
        lab.ok(RevokeLease::new(lease.id()));
        lab.claim("w");
        lab.advance(secs(30));
    });
}

pub fn work_that_was_held_keeps_its_rank(lab: &mut Lab) {
    let [first, second] = [(); 2].map(|()| lab.submit(work()));
    lab.ok(hold(first));
    lab.pass(secs(9));
    lab.ok(unhold(first));
    assert_eq!(lab.claimed_ids(up_to(1000)), [first, second]);
}

pub fn attempts_are_numbered_from_one(lab: &mut Lab) {
    let id = lab.submit(work());
    for expected in 1..=5 {
        let lease = lab.take(id);
        assert_eq!(lease.attempt, expected);
        lab.ok(release(&lease));
    }
}

pub fn the_first_claim_is_when_work_started(lab: &mut Lab) {
    let id = lab.submit(work());
    lab.pass(secs(1));
    let started = lab.now();
    let lease = lab.take(id);
    lab.pass(secs(1));
    lab.ok(release(&lease));
    lab.take(id);
    assert_eq!(lab.get(id).started_at, Some(started));
}

pub fn inputs_that_do_not_fit_into_the_answer_are_left_to_be_read(lab: &mut Lab) {
    lab.settings.limits = Limits { payload_bytes: 10, batch_bytes: 25 };
    let input = |n: u8| Payload::bytes(vec![n; 10]);
    let ids: Vec<_> = (0..4).map(|n| lab.submit(work().input(input(n)))).collect();
    let leases = lab.claims(up_to(4));
    let told: Vec<_> = leases.iter().map(|lease| lease.input.is_some()).collect();
    assert_eq!(told, [true, true, false, false]);
    for (n, id) in (0..4).zip(ids) {
        assert_eq!(lab.see(input_of(id)), input(n));
    }
}

pub fn a_commit_tells_which_work_became_claimable(lab: &mut Lab) {
    let mut call = lab.call(submit([work().capability("gpu"), work().capability("gpu")]));
    let wakes = lab.batch(&mut [&mut call]);
    assert_eq!(wakes.ready.len(), 1);
    let ready = &wakes.ready[0];
    assert_eq!((ready.namespace.name.as_str(), ready.lane.name.as_str()), ("default", "default"));
    assert_eq!(ready.count, 2);
    let route = ready.route.as_ref().unwrap();
    assert!(route.served_by(&[], &names(["gpu"])) && !route.served_by(&[], &[]));
    assert!(wakes.events && wakes.ended.is_empty());
}

pub fn a_commit_tells_what_ended_and_what_is_due(lab: &mut Lab) {
    let id = lab.submit(work());
    let mut call = lab.call(Claim::new("w"));
    let wakes = lab.batch(&mut [&mut call]);
    assert_eq!((wakes.ready.len(), wakes.due), (0, Some(lab.now() + secs(30))));
    let lease = call.into_answer().unwrap().leases.pop().unwrap();
    let mut call = lab.call(complete(&lease));
    assert_eq!(lab.batch(&mut [&mut call]).ended, [id]);
    let mut idle = lab.call(Claim::new("w"));
    assert!(lab.batch(&mut [&mut idle]).is_empty());
}
