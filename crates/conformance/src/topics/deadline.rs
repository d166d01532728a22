//! Running out of time.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

fn soon(lab: &Lab) -> NewExecution {
    work().deadline_at(lab.now() + secs(10))
}

pub fn a_deadline_ends_work_in_every_open_state(lab: &mut Lab) {
    for status in open_states() {
        let new = soon(lab);
        let id = lab.bring(status, new);
        lab.advance(ms(9_999));
        assert_eq!(lab.status(id), status, "too early");
        lab.advance(ms(1));
        let end = lab.end(id);
        assert_eq!((end.outcome, end.reason), (Outcome::Expired, EndReason::Deadline));
        assert_eq!(end.by.as_deref(), Some("clock"));
        assert!(end.message.unwrap().contains(status.as_str()));
        let ends = lab.history(id).into_iter().filter(|kind| kind.is_terminal());
        assert_eq!(ends.collect::<Vec<_>>(), [EventKind::Expired]);
    }
}

pub fn a_deadline_ends_work_that_is_held_or_paused(lab: &mut Lab) {
    let held = soon(lab).hold();
    let held = lab.submit(held);
    let paused = soon(lab);
    let paused = lab.submit(paused);
    lab.ok(pause("default"));
    lab.advance(secs(10));
    assert_eq!((lab.status(held), lab.status(paused)), (Status::Expired, Status::Expired));
}

pub fn a_claim_passes_over_work_whose_deadline_just_passed(lab: &mut Lab) {
    let late: Vec<_> = (0..3).map(|_| soon(lab)).collect();
    let late = lab.submit_all(late);
    let good = lab.submit(work());
    // Without a tick: the clock has not seen it yet.
    lab.pass(secs(10));
    assert_eq!(lab.claim("w").id(), good);
    assert!(late.into_iter().all(|id| lab.status(id) == Status::Expired));
}

pub fn a_deadline_ends_work_that_waits_for_its_retry(lab: &mut Lab) {
    let new = soon(lab);
    let lease = lab.lease(new);
    lab.ok(retry_after(&lease, hours(1)));
    lab.advance(secs(10));
    assert_eq!(lab.status(lease.id()), Status::Expired);
}

pub fn renewing_does_not_put_the_deadline_off(lab: &mut Lab) {
    let new = soon(lab);
    let lease = lab.lease(new);
    lab.advance(secs(9));
    lab.ok(renew(&lease));
    lab.advance(secs(1));
    assert_eq!(lab.status(lease.id()), Status::Expired);
    assert_eq!(lab.lost(complete(&lease)), LeaseLost::Expired);
    let last = lab.attempts(lease.id()).pop().unwrap();
    assert_eq!(last.end, Some(LeaseEnd::DeadlinePassed));
}

pub fn a_deadline_may_come_from_the_policy(lab: &mut Lab) {
    lab.ok(put_lane("default", defaults(json!({ "deadline_ms": 5000 }))));
    let inherited = lab.submit(work());
    let own = lab.submit(work().policy(policy(json!({ "deadline_ms": 8000 }))));
    let absolute = lab.submit(work().deadline_at(lab.now() + secs(3)));
    let now = lab.now();
    let at = |lab: &mut Lab, id| lab.get(id).deadline_at.unwrap().since(now).as_secs();
    assert_eq!([at(lab, inherited), at(lab, own), at(lab, absolute)], [5, 8, 3]);
}

pub fn a_deadline_wins_over_a_lease_that_ends_at_the_same_time(lab: &mut Lab) {
    let lease = lab.lease(work().deadline_at(lab.now() + secs(30)));
    lab.advance(secs(30));
    assert_eq!(lab.status(lease.id()), Status::Expired);
}

pub fn work_that_ended_in_time_does_not_expire(lab: &mut Lab) {
    let new = soon(lab);
    let id = lab.bring(Status::Completed, new);
    lab.advance(hours(1));
    assert_eq!(lab.status(id), Status::Completed);
    assert_eq!(lab.history(id).last(), Some(&EventKind::Completed));
}
