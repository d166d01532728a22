//! Pausing, draining and capping lanes.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

/// How many more of the default lane may be owned.
#[track_caller]
fn free(lab: &mut Lab) -> u64 {
    lab.lane("default").free.expect("the lane has a maximum")
}

pub fn a_paused_lane_hands_nothing_out_until_it_is_resumed(lab: &mut Lab) {
    let id = lab.submit(work());
    assert_eq!(lab.ok(pause("default")), LaneChanged { before: LaneMode::Open });
    assert_eq!(lab.status(id), Status::Waiting);
    assert!(lab.nothing_to_claim());
    lab.reopen();
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.ok(resume("default")), LaneChanged { before: LaneMode::Paused });
    assert_eq!(lab.claim("w").id(), id);
}

pub fn a_paused_lane_lets_running_work_go_on(lab: &mut Lab) {
    let [done, failed, slept] = [(); 3].map(|()| lab.lease(work()));
    lab.ok(pause("default"));
    lab.ok(renew(&done));
    lab.ok(complete(&done));
    lab.ok(fail(&failed, Failure::permanent("x")));
    lab.ok(delay(&slept, secs(0)));
    assert_eq!(lab.status(slept.id()), Status::Resumable);
    assert!(lab.nothing_to_claim());
}

pub fn a_draining_lane_hands_out_what_it_has(lab: &mut Lab) {
    let [one, two] = [(); 2].map(|()| lab.submit(work()));
    lab.ok(drain("default"));
    let lease = lab.claim("w");
    assert_eq!(lease.id(), one);
    lab.ok(retry_after(&lease, secs(0)));
    assert_eq!(lab.claimed_ids(up_to(1000)), [one, two]);
    lab.refused(submit([work()]));
    assert_eq!(lab.ok(resume("default")), LaneChanged { before: LaneMode::Draining });
    lab.submit(work());
}

pub fn a_lane_that_is_so_already_is_not_changed(lab: &mut Lab) {
    lab.submit(work());
    lab.ok(resume("default"));
    lab.ok(pause("default"));
    assert_eq!(lab.ok(pause("default")), LaneChanged { before: LaneMode::Paused });
    lab.ok(drain("default"));
    lab.ok(resume("default"));
    use EventKind::{LaneDraining, LanePaused, LaneResumed};
    let events = lab.events(of_kinds([LaneDraining, LanePaused, LaneResumed]));
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [LanePaused, LaneDraining, LaneResumed]);
    assert!(events.iter().all(|event| event.lane.as_deref() == Some("default")));
}

pub fn a_lane_nobody_used_can_not_be_paused(lab: &mut Lab) {
    lab.submit(work());
    assert_eq!(lab.refused(pause("nowhere")).code(), Code::NotFound);
    assert_eq!(lab.refused(resume("nowhere")).code(), Code::NotFound);
    assert_eq!(lab.refused(drain("nowhere")).code(), Code::NotFound);
}

pub fn putting_a_lane_keeps_its_mode(lab: &mut Lab) {
    lab.submit(work());
    lab.ok(pause("default"));
    lab.ok(cap("default", 3));
    assert_eq!(lab.lane("default").mode, LaneMode::Paused);
}

pub fn putting_a_lane_replaces_its_defaults(lab: &mut Lab) {
    lab.ok(put_lane("default", defaults(json!({ "max_replays": 5 }))));
    lab.ok(put_lane("default", defaults(json!({ "max_reclaims": 5 }))));
    let id = lab.submit(work());
    let policy = lab.get(id).policy;
    assert_eq!((policy.max_replays, policy.max_reclaims), (None, Some(5)));
}

pub fn a_cap_counts_leases_and_grants(lab: &mut Lab) {
    lab.ok(cap("default", 3));
    lab.submit_all((0..10).map(|_| work()));
    assert_eq!(lab.claims(up_to(2)).len(), 2);
    let reserve = Claim { reserve: Some(secs(10)), ..up_to(1000) };
    assert_eq!(lab.ok(reserve).grants.len(), 1);
    assert_eq!(free(lab), 0);
    assert!(lab.nothing_to_claim());
}

pub fn a_full_lane_does_not_keep_a_worker_from_others(lab: &mut Lab) {
    lab.ok(cap("full", 1));
    lab.submit_all((0..5).map(|_| work().lane("full").priority(9000)));
    let other = lab.submit(work().lane("other"));
    lab.claims(Claim { max: 1, ..from_lanes(["full"]) });
    assert_eq!(lab.claimed_ids(from_lanes(["full", "other"])), [other]);
}

/// Fills a lane of one, lets its one lease end, and expects the place to be free again.
#[track_caller]
fn frees_its_slot(lab: &mut Lab, end: impl FnOnce(&mut Lab, &Leased)) {
    lab.ok(cap("default", 1));
    let limits = policy(json!({ "attempt_timeout_ms": 20_000 }));
    let lease = lab.lease(work().policy(limits).deadline_at(lab.now() + secs(60)));
    assert_eq!(free(lab), 0);
    end(lab, &lease);
    assert_eq!(free(lab), 1);
    let next = lab.submit(work().priority(9000));
    assert_eq!(lab.claim("w").id(), next);
    assert_eq!(free(lab), 0);
}

pub fn completing_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| lab.run(complete(lease)));
}

pub fn failing_for_good_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| lab.run(fail(lease, Failure::permanent("x"))));
}

pub fn failing_for_now_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| lab.run(fail(lease, Failure::transient("x"))));
}

pub fn sleeping_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| lab.run(delay(lease, secs(5))));
}

pub fn releasing_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| lab.run(release(lease)));
}

pub fn a_lease_that_expires_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| {
        lab.ok(Renew { ttl: Some(secs(1)), ..renew(lease) });
        lab.advance(secs(1));
    });
}

pub fn an_attempt_that_times_out_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, _| lab.advance(secs(20)));
}

pub fn a_deadline_that_passes_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| {
        lab.ok(Renew { ttl: Some(hours(1)), ..renew(lease) });
        lab.pass(secs(60));
        lab.tick();
        assert_eq!(lab.status(lease.id()), Status::Expired);
    });
}

pub fn a_revoke_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| lab.run(RevokeLease::new(lease.id())));
}

pub fn a_forced_cancel_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| lab.run(force_cancel(lease.id())));
}

pub fn an_acknowledged_cancel_frees_a_slot(lab: &mut Lab) {
    frees_its_slot(lab, |lab, lease| lab.run(acknowledge(lease)));
}

pub fn a_worker_that_is_gone_frees_a_slot(lab: &mut Lab) {
    lab.ok(RegisterWorker::new("pool", "w"));
    frees_its_slot(lab, |lab, _| lab.run(mark_dead("w")));
}

pub fn every_end_of_a_grant_frees_a_slot(lab: &mut Lab) {
    lab.ok(cap("default", 1));
    let ends: [fn(&mut Lab, ExecutionId); 6] = [
        |lab, _| lab.advance(secs(60)),
        |lab, id| lab.run(RevokeLease::new(id)),
        |lab, id| lab.run(Cancel::new(id)),
        |lab, id| lab.run(hold(id)),
        |lab, _| lab.run(RegisterWorker::new("pool", "w")),
        |lab, _| lab.advance(secs(30)),
    ];
    for end in ends {
        let id = lab.submit(work().deadline_at(lab.now() + secs(90)));
        lab.pass(ms(1));
        lab.reserve(id);
        assert_eq!(free(lab), 0);
        end(lab, id);
        if lab.status(id) == Status::Granted {
            lab.advance(secs(60));
        }
        assert_eq!(free(lab), 1);
        if !lab.status(id).is_terminal() {
            lab.ok(Cancel::new(id));
        }
    }
}

pub fn a_redeemed_grant_keeps_its_slot(lab: &mut Lab) {
    lab.ok(cap("default", 2));
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    let lease = lab.ok(redeem(&granted));
    assert_eq!(free(lab), 1);
    lab.ok(complete(&lease));
    assert_eq!(free(lab), 2);
}

pub fn a_cap_set_while_work_is_under_way_counts_it(lab: &mut Lab) {
    let leases: Vec<_> = (0..3).map(|_| lab.lease(work())).collect();
    lab.bring(Status::Granted, work());
    lab.submit(work());
    lab.ok(cap("default", 5));
    assert_eq!(free(lab), 1);
    lab.ok(cap("default", 2));
    assert_eq!(free(lab), 0);
    lab.ok(complete(&leases[0]));
    lab.ok(complete(&leases[1]));
    assert!(lab.nothing_to_claim());
    lab.ok(complete(&leases[2]));
    assert_eq!(free(lab), 1);
    assert_eq!(lab.claims(up_to(1000)).len(), 1);
}

pub fn a_cap_that_was_lifted_counts_afresh_when_set_again(lab: &mut Lab) {
    lab.ok(cap("default", 2));
    let before = lab.lease(work());
    lab.ok(put_lane("default", Defaults::default()));
    assert_eq!(lab.lane("default").free, None);
    lab.submit_all((0..5).map(|_| work()));
    assert_eq!(lab.claims(up_to(3)).len(), 3);
    lab.ok(complete(&before));
    lab.ok(cap("default", 4));
    assert_eq!(free(lab), 1);
    assert_eq!(lab.claims(up_to(1000)).len(), 1);
}

pub fn a_cap_survives_a_restart(lab: &mut Lab) {
    lab.ok(cap("default", 2));
    let lease = lab.lease(work());
    lab.reopen();
    assert_eq!(free(lab), 1);
    lab.ok(complete(&lease));
    assert_eq!(free(lab), 2);
}

pub fn a_replayed_execution_takes_no_slot_until_it_is_claimed(lab: &mut Lab) {
    lab.ok(cap("default", 1));
    let id = lab.bring(Status::Completed, work());
    lab.ok(replay(id));
    assert_eq!(free(lab), 1);
    lab.take(id);
    assert_eq!(free(lab), 0);
}
