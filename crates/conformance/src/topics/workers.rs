//! The registry of workers.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;

fn worker() -> RegisterWorker {
    RegisterWorker::new("pool", "i")
}

/// Claims everything there is as the worker `i`.
fn claim_all(lab: &mut Lab) -> Vec<Leased> {
    lab.claims(Claim { worker: "i".into(), ..up_to(1000) })
}

pub fn a_new_worker_is_registered(lab: &mut Lab) {
    let expires_at = lab.now() + secs(20);
    let registration = lab.ok(RegisterWorker {
        lanes: names(["a", "b"]),
        kinds: names(["mail"]),
        capabilities: names(["gpu"]),
        ttl: secs(20),
        ..worker()
    });
    assert_eq!(registration, Registration::Registered { expires_at });
    let now = lab.now();
    assert_eq!(
        lab.workers(),
        [WorkerView {
            instance: "i".into(),
            name: "pool".into(),
            lanes: names(["a", "b"]),
            kinds: names(["mail"]),
            capabilities: names(["gpu"]),
            registered_at: now,
            seen_at: now,
            expires_at,
            alive: true,
        }]
    );
}

pub fn a_known_worker_is_refreshed_and_keeps_when_it_registered(lab: &mut Lab) {
    let since = lab.now();
    lab.ok(worker());
    lab.pass(secs(5));
    let again = RegisterWorker { kinds: names(["new"]), ttl: secs(7), ..worker() };
    let expires_at = lab.now() + secs(7);
    assert_eq!(lab.ok(again), Registration::Refreshed { expires_at });
    let seen = lab.workers().remove(0);
    assert_eq!((seen.registered_at, seen.seen_at), (since, lab.now()));
    assert_eq!((seen.kinds, seen.expires_at), (names(["new"]), expires_at));
}

pub fn an_instance_belongs_to_one_worker_name_while_it_lives(lab: &mut Lab) {
    lab.ok(worker());
    let error = lab.refused(RegisterWorker::new("other", "i"));
    assert_eq!((error.code(), error.field()), (Code::InUse, Some("instance")));
    assert!(error.message().contains("`pool`"), "{error}");
    lab.pass(secs(60));
    let registered = lab.ok(RegisterWorker::new("other", "i"));
    assert!(matches!(registered, Registration::Registered { .. }));
    assert_eq!(lab.workers()[0].registered_at, lab.now());
}

pub fn a_heartbeat_prolongs_a_workers_life(lab: &mut Lab) {
    lab.ok(worker());
    lab.advance(secs(59));
    let expires_at = lab.now() + secs(60);
    assert_eq!(lab.ok(heartbeat("i")), Heartbeat::Refreshed { expires_at });
    lab.advance(secs(59));
    assert!(lab.workers()[0].alive);
}

pub fn a_heartbeat_never_revives(lab: &mut Lab) {
    assert_eq!(lab.ok(heartbeat("unknown")), Heartbeat::NotRegistered);
    lab.ok(worker());
    lab.pass(secs(60));
    assert_eq!(lab.ok(heartbeat("i")), Heartbeat::NotRegistered);
    lab.tick();
    assert_eq!(lab.ok(heartbeat("i")), Heartbeat::NotRegistered);
    assert!(lab.workers().is_empty());
}

pub fn a_heartbeat_keeps_the_leases_and_is_no_event(lab: &mut Lab) {
    lab.ok(worker());
    lab.submit(work());
    let lease = claim_all(lab).remove(0);
    let events = lab.events(EventFilter::default()).len();
    lab.pass(secs(1));
    lab.ok(heartbeat("i"));
    assert_eq!(lab.events(EventFilter::default()).len(), events);
    lab.ok(complete(&lease));
}

pub fn liveness_is_judged_when_it_is_read(lab: &mut Lab) {
    lab.ok(worker());
    lab.pass(secs(60) - ms(1));
    assert!(lab.workers()[0].alive);
    lab.pass(ms(1));
    assert!(!lab.workers()[0].alive);
}

pub fn a_worker_not_heard_of_is_forgotten_by_the_clock(lab: &mut Lab) {
    lab.ok(worker());
    lab.ok(RegisterWorker { ttl: secs(90), ..RegisterWorker::new("pool", "j") });
    lab.advance(secs(60));
    let left: Vec<_> = lab.workers().into_iter().map(|one| one.instance).collect();
    assert_eq!(left, names(["j"]));
    let gone = lab.events(of_kinds([EventKind::WorkerExpired]));
    assert_eq!(gone.len(), 1);
    assert_eq!(gone[0].worker.as_deref(), Some("i"));
}

pub fn the_leases_of_a_forgotten_worker_run_out_by_themselves(lab: &mut Lab) {
    lab.ok(worker());
    lab.submit(work());
    let claim = Claim { lease_ttl: secs(90), worker: "i".into(), ..up_to(1) };
    let lease = lab.claims(claim).remove(0);
    lab.advance(secs(60));
    lab.ok(renew(&lease));
    lab.ok(complete(&lease));
}

pub fn a_worker_marked_dead_is_gone_with_all_it_owned(lab: &mut Lab) {
    lab.ok(worker());
    let ids = lab.submit_all((0..5).map(|_| work()));
    let leases = claim_all(lab);
    assert_eq!(lab.ok(mark_dead("i")), MarkedDead::Marked);
    assert!(lab.workers().is_empty());
    assert_eq!(lab.claimed_ids(up_to(1000)), ids);
    for lease in &leases {
        assert_eq!(lab.lost(complete(lease)), LeaseLost::Superseded);
    }
    assert_eq!(lab.ok(mark_dead("i")), MarkedDead::NotRegistered);
    assert_eq!(lab.ok(heartbeat("i")), Heartbeat::NotRegistered);
}

pub fn a_worker_that_registers_again_loses_all_it_owned(lab: &mut Lab) {
    lab.ok(worker());
    let ids = lab.submit_all((0..3).map(|_| work()));
    let leases = claim_all(lab);
    lab.ok(worker());
    for lease in &leases {
        assert_eq!(lab.lost(complete(lease)), LeaseLost::Superseded);
        assert_eq!(lab.attempts(lease.id())[0].end, Some(LeaseEnd::WorkerGone));
    }
    assert_eq!(lab.claimed_ids(up_to(1000)), ids);
    assert_eq!(lab.events(of_kinds([EventKind::LeaseLost])).len(), 3);
}

pub fn a_worker_that_claimed_before_it_registered_loses_that_too(lab: &mut Lab) {
    lab.submit(work());
    let lease = claim_all(lab).remove(0);
    let registered = lab.ok(worker());
    assert!(matches!(registered, Registration::Registered { .. }));
    assert_eq!(lab.lost(complete(&lease)), LeaseLost::Superseded);
}

pub fn reserved_work_of_a_gone_worker_goes_back_to_where_it_was(lab: &mut Lab) {
    lab.ok(RegisterWorker::new("pool", "w"));
    for status in [Status::Waiting, Status::Resumable] {
        let id = lab.bring(status, work());
        let granted = lab.reserve(id);
        lab.ok(RegisterWorker::new("pool", "w"));
        assert_eq!(lab.status(id), status);
        lab.lost(redeem(&granted));
    }
}

pub fn the_work_of_other_workers_is_left_alone(lab: &mut Lab) {
    lab.ok(worker());
    let mine = lab.lease(work());
    lab.ok(mark_dead("i"));
    lab.ok(worker());
    lab.ok(complete(&mine));
}

pub fn a_worker_with_many_leases_loses_the_rest_by_the_clock(lab: &mut Lab) {
    lab.ok(worker());
    lab.submit_all((0..450).map(|_| work()));
    let leases = claim_all(lab);
    lab.pass(ms(1));
    lab.ok(worker());
    let left = lab.counts().of(Status::Active);
    assert!((1..450).contains(&left), "{left} are left");
    lab.pass(ms(1));
    let fresh = lab.claims(Claim { worker: "i".into(), ..up_to(1) }).remove(0);
    lab.advance(ms(1));
    assert_eq!(lab.counts().of(Status::Active), 1);
    lab.ok(complete(&fresh));
    let renewed = lab.ok(Renew {
        leases: leases.iter().map(|lease| lease.lease.clone()).collect(),
        ..renew(&leases[0])
    });
    let lost = Renewal::Lost { why: LeaseLost::Superseded };
    assert!(renewed.leases.iter().all(|answer| *answer == lost));
}

pub fn workers_are_listed_page_by_page(lab: &mut Lab) {
    for n in 0..5 {
        lab.ok(RegisterWorker::new("pool", format!("i{n}")));
    }
    let mut seen = Vec::new();
    let mut after = None;
    let mut pages = 0;
    loop {
        let page = lab.see(ListWorkers { after, limit: 2, ..workers() });
        pages += 1;
        seen.extend(page.workers.into_iter().map(|one| one.instance));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((pages, seen), (3, names(["i0", "i1", "i2", "i3", "i4"])));
    let exact = lab.see(ListWorkers { limit: 5, ..workers() });
    assert_eq!(exact.next, None);
}

pub fn registrations_are_told_as_events(lab: &mut Lab) {
    lab.ok(worker());
    lab.ok(worker());
    lab.ok(MarkWorkerDead { reason: Some("smoke".into()), ..mark_dead("i") });
    use EventKind::{WorkerDead, WorkerRefreshed, WorkerRegistered};
    let events = lab.events(EventFilter::default());
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [WorkerRegistered, WorkerRefreshed, WorkerDead]);
    assert!(events.iter().all(|event| event.worker.as_deref() == Some("i")));
    assert_eq!(events[2].data.as_ref().unwrap()["reason"], "smoke");
}

pub fn workers_survive_a_restart(lab: &mut Lab) {
    lab.ok(RegisterWorker { capabilities: names(["gpu"]), ..worker() });
    let before = lab.workers();
    lab.reopen();
    assert_eq!(lab.workers(), before);
}

pub fn a_worker_belongs_to_its_namespace(lab: &mut Lab) {
    lab.ok(worker());
    lab.submit(work());
    let lease = claim_all(lab).remove(0);
    let there = RegisterWorker { namespace: "there".into(), ..RegisterWorker::new("other", "i") };
    assert!(matches!(lab.ok(there), Registration::Registered { .. }));
    lab.ok(MarkWorkerDead { namespace: "there".into(), ..mark_dead("i") });
    assert_eq!(lab.workers().len(), 1);
    lab.ok(complete(&lease));
}

pub fn leases_that_ran_out_are_listed_oldest_first(lab: &mut Lab) {
    let ids = lab.submit_all((0..4).map(|n| work().id(id(4 - n))));
    for (id, ttl) in ids.iter().zip([5, 3, 5, 9]) {
        lab.ok(ClaimExecution { lease_ttl: secs(ttl), ..by_id(*id, "w") });
    }
    let began = lab.now();
    assert_eq!(lab.see(expired_leases()).leases, []);
    lab.pass(secs(5));
    let listed = lab.see(expired_leases()).leases;
    let short: Vec<_> = listed.iter().map(|one| (one.execution, one.expired_at)).collect();
    let [three, five] = [began + secs(3), began + secs(5)];
    assert_eq!(short, [(ids[1], three), (ids[2], five), (ids[0], five)]);
    assert_eq!((listed[0].worker.as_str(), listed[0].attempt), ("w", 1));
    let earlier = lab.see(ListExpiredLeases { as_of: Some(three), ..expired_leases() });
    assert_eq!(earlier.leases, listed[..1]);
}

pub fn leases_that_ran_out_are_listed_page_by_page_without_gaps_or_repeats(lab: &mut Lab) {
    lab.submit_all((0..7).map(|_| work()));
    lab.claims(up_to(7));
    lab.pass(secs(30));
    let all = lab.see(expired_leases()).leases;
    assert_eq!(all.len(), 7);
    let mut paged = Vec::new();
    let mut after = None;
    loop {
        let page = lab.see(ListExpiredLeases { after, limit: 2, ..expired_leases() });
        paged.extend(page.leases);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, all);
}

pub fn a_lease_that_was_taken_up_again_is_not_listed_as_run_out(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.advance(secs(30));
    assert_eq!(lab.see(expired_leases()).leases, []);
    lab.take(lease.id());
    lab.pass(secs(29));
    assert_eq!(lab.see(expired_leases()).leases, []);
}
