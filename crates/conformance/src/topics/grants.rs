//! Reserving work, and claiming by id.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::limit_lab::*;

fn reserving() -> Claim {
    Claim { reserve: Some(secs(10)), ..up_to(1000) }
}

#[track_caller]
fn refusal(lab: &mut Lab, claim: ClaimExecution) -> ClaimRefusal {
    let before = lab.snapshot();
    let ClaimedExecution::Refused { why } = lab.ok(claim) else { panic!("it was claimed") };
    assert_eq!(lab.snapshot(), before);
    why
}

pub fn reserved_work_is_nobody_elses(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.ok(reserving()).grants.pop().unwrap();
    assert_eq!((granted.grant.execution, granted.worker.as_str()), (id, "w"));
    assert_eq!(granted.expires_at, lab.now() + secs(10));
    let view = lab.get(id);
    assert_eq!((view.status, view.worker.as_deref()), (Status::Granted, Some("w")));
    assert!(lab.nothing_to_claim());
    let why = refusal(lab, by_id(id, "other"));
    assert_eq!(why, ClaimRefusal::NotClaimable { status: Status::Granted });
}

pub fn a_claim_that_reserves_follows_the_same_order(lab: &mut Lab) {
    let low = lab.submit(work().priority(1));
    let high = lab.submit(work().priority(2));
    let grants = lab.ok(reserving()).grants;
    let ids: Vec<_> = grants.iter().map(|granted| granted.grant.execution).collect();
    assert_eq!(ids, [high, low]);
}

pub fn a_grant_begins_no_attempt_until_it_is_redeemed(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    let view = lab.get(id);
    assert_eq!((view.attempt, view.started_at), (0, None));
    assert_eq!(lab.attempts(id), []);
    assert_eq!(lab.ok(redeem(&granted)).attempt, 1);
}

pub fn a_redeemed_grant_is_a_lease(lab: &mut Lab) {
    let id = lab.submit(work().input(Payload::bytes("x")));
    let granted = lab.reserve(id);
    lab.pass(secs(5));
    let lease = lab.ok(RedeemGrant { lease_ttl: secs(7), ..redeem(&granted) });
    assert_eq!((lease.id(), lease.expires_at), (id, lab.now() + secs(7)));
    assert_eq!(lease.input, Some(Payload::bytes("x")));
    lab.ok(complete(&lease));
    assert_eq!(lab.status(id), Status::Completed);
}

pub fn a_grant_is_redeemed_by_its_worker_only(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    let error = lab.refused(RedeemGrant { worker: "other".into(), ..redeem(&granted) });
    assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("worker")));
    lab.ok(redeem(&granted));
}

pub fn a_forged_grant_is_refused(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    let mut forged = granted.clone();
    forged.grant.secret = Secret::new([7; 16]);
    assert_eq!(lab.lost(redeem(&forged)), LeaseLost::Superseded);
    let mut forged = granted.clone();
    forged.grant.epoch.0 += 1;
    assert_eq!(lab.lost(redeem(&forged)), LeaseLost::Superseded);
    lab.ok(redeem(&granted));
}

pub fn redeeming_twice_gives_the_same_lease(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    let first = lab.ok(redeem(&granted));
    let before = lab.snapshot();
    assert_eq!(lab.ok(redeem(&granted)), first);
    assert_eq!(lab.snapshot(), before);
}

pub fn redeeming_twice_gives_the_same_lease_also_when_it_continues_an_attempt(lab: &mut Lab) {
    let id = lab.submit(work());
    let lease = lab.take(id);
    lab.ok(release(&lease));
    let lease = lab.take(id);
    lab.ok(delay(&lease, secs(0)));
    let granted = lab.reserve(id);
    let first = lab.ok(redeem(&granted));
    assert_eq!((first.attempt, first.resumed), (2, true));
    assert_eq!(lab.ok(redeem(&granted)), first);
    lab.ok(release(&first));
    let granted = lab.reserve(id);
    let fresh = lab.ok(redeem(&granted));
    assert_eq!((fresh.attempt, fresh.resumed), (3, false));
    assert_eq!(lab.ok(redeem(&granted)), fresh);
}

pub fn a_grant_whose_lease_has_ended_is_of_no_use(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    let lease = lab.ok(redeem(&granted));
    lab.ok(release(&lease));
    lab.lost(redeem(&granted));
    lab.take(id);
    lab.lost(redeem(&granted));
}

pub fn an_unused_grant_lapses_to_where_the_work_was(lab: &mut Lab) {
    for status in [Status::Waiting, Status::Resumable] {
        let id = lab.bring(status, work());
        let attempt = lab.get(id).attempt;
        let granted = lab.reserve(id);
        lab.advance(secs(60) - ms(1));
        assert_eq!(lab.status(id), Status::Granted);
        lab.advance(ms(1));
        let view = lab.get(id);
        assert_eq!((view.status, view.attempt, view.reclaims), (status, attempt, 0));
        assert_eq!(lab.history(id).last(), Some(&EventKind::GrantEnded));
        lab.lost(redeem(&granted));
        assert_eq!(lab.claim("other").resumed, status == Status::Resumable);
        lab.ok(force_cancel(id));
    }
}

pub fn a_lapsed_grant_can_not_be_redeemed_even_before_the_clock_noticed(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    lab.pass(secs(60));
    assert_eq!(lab.lost(redeem(&granted)), LeaseLost::Expired);
}

pub fn a_grant_is_not_a_lease(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    let complete = Complete { namespace: ns(), lease: granted.grant, result: Payload::default() };
    lab.lost(complete);
}

pub fn a_revoked_grant_goes_back_to_where_the_work_was(lab: &mut Lab) {
    for status in [Status::Waiting, Status::Resumable] {
        let id = lab.bring(status, work());
        let granted = lab.reserve(id);
        let outcome = lab.ok(RevokeLease::new(id));
        assert_eq!(outcome, RevokeOutcome::Revoked { worker: "w".into(), status });
        lab.lost(redeem(&granted));
    }
}

pub fn a_held_grant_goes_back_and_is_held(lab: &mut Lab) {
    for status in [Status::Waiting, Status::Resumable] {
        let id = lab.bring(status, work());
        let granted = lab.reserve(id);
        assert_eq!(lab.ok(hold(id)), HoldOutcome::Done);
        assert_eq!((lab.status(id), lab.get(id).held), (status, true));
        lab.lost(redeem(&granted));
        lab.ok(unhold(id));
        lab.take(id);
    }
}

pub fn cancelling_reserved_work_ends_it_at_once(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    assert_eq!(lab.ok(Cancel::new(id)), CancelOutcome::Cancelled);
    lab.lost(redeem(&granted));
}

pub fn a_grant_survives_a_restart(lab: &mut Lab) {
    let id = lab.submit(work());
    let granted = lab.reserve(id);
    lab.reopen();
    assert_eq!(lab.ok(redeem(&granted)).id(), id);
}

pub fn a_claim_by_id_passes_what_stands_before(lab: &mut Lab) {
    lab.submit(work().priority(9000));
    let id = lab.submit(work().priority(0));
    let ClaimedExecution::Leased(lease) = lab.ok(by_id(id, "me")) else { panic!("not leased") };
    assert_eq!((lease.id(), lease.attempt), (id, 1));
    assert_eq!(lab.get(id).worker.as_deref(), Some("me"));
}

pub fn a_claim_by_id_refuses_what_is_not_claimable_and_says_what_it_is(lab: &mut Lab) {
    for status in STATES {
        if matches!(status, Status::Waiting | Status::Resumable) {
            continue;
        }
        let id = lab.bring(status, work());
        let why = match status {
            Status::RateLimited => ClaimRefusal::Limited { by: by_budget("nothing") },
            _ => ClaimRefusal::NotClaimable { status },
        };
        assert_eq!(refusal(lab, by_id(id, "w")), why);
    }
}

pub fn a_claim_by_id_refuses_held_work(lab: &mut Lab) {
    let id = lab.submit(work().hold());
    assert_eq!(refusal(lab, by_id(id, "w")), ClaimRefusal::Held);
}

pub fn a_claim_by_id_refuses_work_of_a_paused_lane(lab: &mut Lab) {
    let id = lab.submit(work());
    lab.ok(pause("default"));
    assert_eq!(refusal(lab, by_id(id, "w")), ClaimRefusal::LanePaused);
}

pub fn a_claim_by_id_refuses_work_of_a_full_lane(lab: &mut Lab) {
    lab.ok(cap("default", 1));
    lab.lease(work());
    let id = lab.submit(work());
    assert_eq!(refusal(lab, by_id(id, "w")), ClaimRefusal::LaneFull);
}

pub fn a_claim_by_id_names_the_capabilities_that_are_missing(lab: &mut Lab) {
    let id = lab.submit(work().capability("gpu").capability("eu"));
    let claim = ClaimExecution { capabilities: names(["eu"]), ..by_id(id, "w") };
    let missing = names(["gpu"]);
    assert_eq!(refusal(lab, claim.clone()), ClaimRefusal::MissingCapabilities { missing });
    let able = ClaimExecution { capabilities: names(["eu", "gpu"]), ..claim };
    assert!(matches!(lab.ok(able), ClaimedExecution::Leased(_)));
}

pub fn a_claim_by_id_takes_up_work_whose_lease_just_ran_out(lab: &mut Lab) {
    let old = lab.lease(work());
    lab.pass(secs(30));
    let ClaimedExecution::Leased(lease) = lab.ok(by_id(old.id(), "new")) else {
        panic!("not leased")
    };
    assert_eq!((lease.attempt, lab.get(old.id()).reclaims), (2, 1));
    assert!(lease.lease.epoch > old.lease.epoch);
    assert_eq!(lab.lost(complete(&old)), LeaseLost::Expired);
    lab.ok(complete(&lease));
}

pub fn a_claim_by_id_takes_up_work_whose_delay_just_ended(lab: &mut Lab) {
    let id = lab.submit(work().delay(secs(5)));
    lab.pass(secs(5));
    assert_eq!(lab.take(id).id(), id);
}

pub fn a_claim_by_id_does_not_revive_work_whose_deadline_just_passed(lab: &mut Lab) {
    let id = lab.submit(work().deadline_at(lab.now() + secs(5)));
    lab.pass(secs(5));
    let ClaimedExecution::Refused { why } = lab.ok(by_id(id, "w")) else { panic!("claimed") };
    assert_eq!(why, ClaimRefusal::NotClaimable { status: Status::Expired });
    assert_eq!(lab.status(id), Status::Expired);
}

pub fn a_claim_by_id_of_nothing_is_not_found(lab: &mut Lab) {
    lab.submit(work());
    assert_eq!(lab.refused(by_id(id(1), "w")).code(), Code::NotFound);
}
