//! What a lease has of its quota comes back, however the lease ends.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use crate::limit_lab::*;
use crate::walk::random::Random;

/// A lease under a full quota ends in that way: the one that waits gets its place.
#[track_caller]
fn returns(lab: &mut Lab, new: NewExecution, act: impl FnOnce(&mut Lab, &Leased)) {
    lab.ok(make(at_once(1)));
    let lease = lab
        .lease(NewExecution { policy: Policy { quotas: vec![quota("q")], ..new.policy }, ..new });
    let next = lab.submit(limited().lane("next"));
    assert_eq!(refused_by(lab.ok(by_id(next, "w"))), by_quota("q"));
    assert_eq!(lab.load(), (1, 1));
    act(lab, &lease);
    assert_eq!(lab.load(), (0, 0));
    assert_eq!(lab.claimed_ids(from_lanes(["next"])), [next]);
    assert_eq!(lab.load(), (1, 0));
}

pub fn completed_work_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| lab.run(complete(lease)));
}

pub fn failed_work_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| lab.fail_lease(lease));
}

pub fn work_that_is_retried_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| lab.run(retry_after(lease, secs(60))));
}

pub fn released_work_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| lab.run(release(lease)));
}

pub fn work_that_sleeps_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| lab.run(delay(lease, secs(60))));
}

pub fn suspended_work_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| {
        lab.run(Suspend::new(lease.lease.clone(), Condition::Operator));
    });
}

pub fn work_that_waits_for_its_children_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| {
        let made = lab.ok(Spawn {
            namespace: ns(),
            lease: lease.lease.clone(),
            step: "make".into(),
            nodes: vec![NewNode::new("a", work().lane("children"))],
            into: SpawnInto::Own,
        });
        lab.run(WaitChildren::new(lease.lease.clone(), [made.nodes["a"]]));
    });
}

pub fn revoked_work_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| lab.run(RevokeLease::new(lease.id())));
}

pub fn a_lease_that_runs_out_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, _| lab.advance(secs(30)));
}

pub fn a_worker_that_is_gone_gives_its_places_back(lab: &mut Lab) {
    lab.ok(RegisterWorker::new("pool", "w"));
    returns(lab, work(), |lab, _| lab.run(mark_dead("w")));
}

pub fn a_worker_that_registers_again_gives_its_places_back(lab: &mut Lab) {
    lab.ok(RegisterWorker::new("pool", "w"));
    returns(lab, work(), |lab, _| lab.run(RegisterWorker::new("pool", "w")));
}

pub fn work_cancelled_by_force_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| lab.run(force_cancel(lease.id())));
}

pub fn a_cancel_that_is_acknowledged_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| {
        lab.run(Cancel::new(lease.id()));
        assert_eq!(lab.load(), (1, 1), "it may still run");
        lab.run(acknowledge(lease));
    });
}

pub fn a_cancel_nobody_honours_gives_its_place_back(lab: &mut Lab) {
    returns(lab, work(), |lab, lease| {
        lab.run(Cancel { grace: secs(5), ..Cancel::new(lease.id()) });
        lab.advance(secs(5));
    });
}

pub fn work_whose_deadline_passes_gives_its_place_back(lab: &mut Lab) {
    let deadline = lab.now() + secs(5);
    returns(lab, work().deadline_at(deadline), |lab, _| lab.advance(secs(5)));
}

pub fn an_attempt_that_times_out_gives_its_place_back(lab: &mut Lab) {
    let new = work().policy(policy(json!({ "attempt_timeout_ms": 5000 })));
    returns(lab, new, |lab, _| lab.advance(secs(5)));
}

pub fn a_grant_has_a_place_and_gives_it_back_when_it_lapses(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let id = lab.submit(limited());
    lab.reserve(id);
    let next = lab.submit(limited());
    assert_eq!(refused_by(lab.ok(by_id(next, "w"))), by_quota("q"));
    lab.advance(secs(60));
    assert_eq!(lab.load(), (0, 0));
    let granted = lab.reserve(next);
    lab.ok(redeem(&granted));
    assert_eq!(lab.load(), (1, 0), "a redeemed grant has one place, not two");
}

pub fn a_held_grant_gives_its_place_back(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let id = lab.submit(limited());
    lab.reserve(id);
    lab.ok(hold(id));
    assert_eq!(lab.load(), (0, 0));
}

pub fn members_of_a_closed_flow_give_their_places_back(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let member = |name: &str| NewNode::new(name, limited());
    let graph = lab.plant(flow([member("a"), member("b")]));
    let next = lab.submit(limited());
    lab.take(graph["a"]);
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.load(), (1, 2));
    lab.ok(cancel_flow(graph.id, CancelScope::All));
    // The place went to the other member, which was ended before anybody claimed it.
    lab.advance(secs(1));
    assert_eq!(lab.claim("w").id(), next);
    assert_eq!(lab.load(), (1, 0));
}

pub fn slots_come_back_whatever_becomes_of_the_workers(lab: &mut Lab) {
    let mut random = Random::new(7);
    lab.ok(make(at_once(5)));
    let retries = json!({ "max_reclaims": 1000, "retry": { "max_retries": 1000 } });
    let endless = Policy { quotas: vec![quota("q")], ..policy(retries) };
    lab.submit_all((0..40).map(|_| work().policy(endless.clone())));
    let workers = ["w0", "w1", "w2", "w3"];
    for worker in workers {
        lab.ok(RegisterWorker::new("pool", worker));
    }
    for _ in 0..400 {
        let worker = random.one_of(&workers);
        match random.below(8) {
            0..=3 => drop(lab.ok(Claim { max: 1 + random.index(3), ..Claim::new(worker) })),
            4 => drop(lab.ok(RegisterWorker::new("pool", worker))),
            5 => lab.advance(secs(random.below(40))),
            6 => {
                lab.ok(RegisterWorker::new("pool", worker));
                lab.ok(mark_dead(worker));
            }
            _ => {
                for lease in lab.claims(Claim { max: 2, ..Claim::new(worker) }) {
                    lab.ok(release(&lease));
                }
            }
        }
        let owned = lab.count(Status::Active);
        assert!(owned <= 5, "{owned} at once");
        assert_eq!(lab.load(), (owned, lab.count(Status::RateLimited)));
    }
    let mut rounds = 0;
    while lab.counts().open() > 0 {
        rounds += 1;
        assert!(rounds < 1000, "something is stuck: {:?}", lab.counts());
        lab.advance(secs(60));
        let leases = lab.claims(up_to(1000));
        assert!(leases.len() <= 5);
        for lease in leases {
            lab.ok(complete(&lease));
        }
    }
    assert_eq!(lab.load(), (0, 0));
}
