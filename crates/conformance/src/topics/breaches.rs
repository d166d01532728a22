//! What a budget does when more is asked for than is left, and the way back.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use crate::limit_lab::*;

/// Breaches the budget `b`, of which ten are left at most, and does what follows.
#[track_caller]
fn breach(lab: &mut Lab) {
    let spent = lab.ok(spend_of_b(11));
    assert!(matches!(spent, Spent::HardBreach { .. }), "{spent:?}");
    lab.settle();
}

#[track_caller]
fn fund_for(lab: &mut Lab, action: OnBreach) {
    lab.ok(fund(on_breach(action, tokens(10))));
}

/// What a worker is asked on renewal.
#[track_caller]
fn asked(lab: &mut Lab, lease: &Leased) -> (bool, bool) {
    match &lab.ok(renew(lease)).leases[..] {
        [Renewal::Renewed { cancel, pause, .. }] => (cancel.is_some(), pause.is_some()),
        other => panic!("not renewed: {other:?}"),
    }
}

#[track_caller]
fn ended_by_budget(lab: &mut Lab, id: ExecutionId) {
    let end = lab.end(id);
    assert_eq!((end.outcome, end.reason), (Outcome::Cancelled, EndReason::Budget));
    assert_eq!(end.by.as_deref(), Some("budget:b"));
}

pub fn a_breach_blocks_new_claims(lab: &mut Lab) {
    fund_for(lab, OnBreach::Block);
    let running = lab.lease(costing(0));
    let id = lab.submit(costing(0));
    breach(lab);
    assert!(lab.nothing_to_claim(), "although ten are left");
    assert_eq!(lab.get(id).limited_by, Some(by_budget("b")));
    assert_eq!(asked(lab, &running), (false, false));
    lab.ok(complete(&running));
    assert!(lab.nothing_to_claim());
}

pub fn blocked_work_goes_on_after_a_raise_a_reset_or_a_new_period(lab: &mut Lab) {
    let terms = || each(hours(1), tokens(10));
    lab.ok(fund(terms()));
    type Act = fn(&mut Lab);
    let ways: [Act; 3] = [
        |lab| lab.run(revise(each(hours(1), tokens(20)))),
        |lab| lab.run(reset()),
        |lab| lab.advance(hours(1)),
    ];
    for way in ways {
        lab.ok(revise(terms()));
        lab.ok(spend_of_b(10));
        breach(lab);
        let id = lab.submit(costing(0));
        assert!(lab.nothing_to_claim());
        way(lab);
        assert_eq!(lab.status(id), Status::Waiting);
        let lease = lab.claim("w");
        assert_eq!(lease.id(), id);
        lab.ok(complete(&lease));
        lab.ok(reset());
    }
}

pub fn a_breach_is_told_once_while_it_lasts(lab: &mut Lab) {
    fund_for(lab, OnBreach::Block);
    breach(lab);
    breach(lab);
    assert_eq!(lab.events(of_kinds([EventKind::BudgetBreached])).len(), 1);
    assert_eq!(lab.budget().breaches, 2);
    lab.ok(reset());
    breach(lab);
    let told = lab.events(of_kinds([EventKind::BudgetBreached]));
    assert_eq!(told.len(), 2);
    let data = told[1].data.as_ref().expect("it says what happened");
    assert_eq!(
        (&data["budget"], &data["asked"], &data["action"]),
        (&"b".into(), &11.into(), &"block".into())
    );
}

pub fn a_budget_that_warns_stops_nothing(lab: &mut Lab) {
    fund_for(lab, OnBreach::Warn);
    lab.ok(spend_of_b(10));
    let running = lab.lease(costing(5));
    breach(lab);
    assert_eq!(asked(lab, &running), (false, false));
    lab.lease(costing(5));
    assert_eq!((lab.used().0, lab.budget().breach), (10, None), "it is never more than its limit");
    assert_eq!(lab.budget().breaches, 1);
}

pub fn a_breach_asks_running_work_to_pause(lab: &mut Lab) {
    fund_for(lab, OnBreach::Pause);
    let [under, other] = [costing(0), work()].map(|new| lab.lease(new));
    breach(lab);
    assert_eq!(asked(lab, &under), (false, true));
    assert_eq!(asked(lab, &other), (false, false));
    lab.ok(release(&under));
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.status(under.id()), Status::RateLimited);
    lab.ok(reset());
    assert_eq!(lab.claim("w").id(), under.id());
}

pub fn work_that_does_not_pause_in_time_is_made_to(lab: &mut Lab) {
    fund_for(lab, OnBreach::Pause);
    let lease = lab.lease(costing(2));
    lab.ok(Renew { ttl: Some(hours(1)), ..renew(&lease) });
    breach(lab);
    lab.advance(ms(29_999));
    assert_eq!(lab.status(lease.id()), Status::Active);
    lab.advance(ms(1));
    let view = lab.get(lease.id());
    assert_eq!((view.status, view.reclaims, view.retries), (Status::RateLimited, 0, 0));
    assert_eq!(view.limited_by, Some(by_budget("b")));
    assert_eq!(lab.lost(complete(&lease)), LeaseLost::Revoked);
    assert_eq!(lab.attempts(lease.id())[0].end, Some(LeaseEnd::Paused { budget: "b".into() }));
    assert_eq!((lab.used(), lab.budget().blocked), ((0, 0), 1));
    lab.ok(reset());
    let again = lab.claim("w");
    assert_eq!((again.id(), again.attempt), (lease.id(), 2));
}

pub fn a_pause_the_clock_is_late_for_is_no_lost_lease(lab: &mut Lab) {
    fund_for(lab, OnBreach::Pause);
    let lease = lab.lease(costing(0));
    lab.pass(secs(1));
    lab.ok(renew(&lease));
    lab.pass(ms(1));
    lab.ok(Renew { ttl: Some(secs(40)), ..renew(&lease) });
    breach(lab);
    lab.advance(hours(1));
    let view = lab.get(lease.id());
    assert_eq!((view.status, view.reclaims), (Status::RateLimited, 0));
}

pub fn a_pause_is_not_asked_for_once_there_is_more(lab: &mut Lab) {
    fund_for(lab, OnBreach::Pause);
    let [seen, unseen] = [(); 2].map(|()| lab.lease(costing(0)));
    breach(lab);
    assert_eq!(asked(lab, &seen), (false, true));
    lab.ok(Renew { ttl: Some(hours(1)), ..renew(&unseen) });
    lab.ok(revise(on_breach(OnBreach::Pause, tokens(20))));
    assert_eq!(asked(lab, &seen), (false, false));
    lab.advance(secs(29));
    lab.ok(renew(&seen));
    lab.advance(secs(2));
    assert_eq!(lab.status(unseen.id()), Status::Active);
    lab.ok(complete(&seen));
    lab.ok(complete(&unseen));
}

pub fn a_pause_reaches_work_in_the_places_of_the_budget(lab: &mut Lab) {
    fund_for(lab, OnBreach::Pause);
    lab.ok(attach_budget(AttachTo::Lane("default".into())));
    let lease = lab.lease(work());
    breach(lab);
    assert_eq!(asked(lab, &lease), (false, true));
    lab.ok(detach_budget(AttachTo::Lane("default".into())));
    assert_eq!(asked(lab, &lease), (false, false), "it is not under the budget any more");
}

pub fn a_breach_cancels_what_has_not_begun(lab: &mut Lab) {
    fund_for(lab, OnBreach::CancelPending);
    let running = lab.lease(costing(0));
    let begun = lab.lease(costing(0));
    lab.ok(retry_after(&begun, hours(1)));
    let pending = [costing(0), costing(0).delay(hours(1)), costing(0).hold()];
    let ids = lab.submit_all(pending);
    let reserved = lab.submit(costing(0));
    lab.reserve(reserved);
    let other = lab.submit(work());
    breach(lab);
    for id in ids.into_iter().chain([reserved]) {
        ended_by_budget(lab, id);
    }
    assert_eq!(lab.status(begun.id()), Status::Delayed);
    assert_eq!(lab.status(other), Status::Waiting);
    assert_eq!(asked(lab, &running), (false, false));
    let later = lab.submit(costing(0));
    assert_eq!(lab.claimed_ids(up_to(10)), [other]);
    assert_eq!(lab.status(later), Status::RateLimited, "what comes later waits");
}

pub fn a_breach_cancels_everything(lab: &mut Lab) {
    fund_for(lab, OnBreach::CancelAll);
    let running = lab.lease(costing(0));
    let slept = lab.lease(costing(0));
    lab.ok(delay(&slept, hours(1)));
    let pending = lab.submit(costing(0));
    breach(lab);
    ended_by_budget(lab, pending);
    ended_by_budget(lab, slept.id());
    assert_eq!(asked(lab, &running), (true, false));
    lab.ok(acknowledge(&running));
    assert_eq!(lab.status(running.id()), Status::Cancelled);
}

pub fn everything_is_cancelled_at_once_without_a_grace(lab: &mut Lab) {
    let terms = on_breach(OnBreach::CancelAll, tokens(10));
    lab.ok(fund(BudgetTerms { grace: secs(0), ..terms }));
    let running = lab.lease(costing(5));
    breach(lab);
    ended_by_budget(lab, running.id());
    assert_eq!(lab.lost(complete(&running)), LeaseLost::Cancelled);
    assert_eq!(lab.used(), (0, 0));
}

pub fn a_cancel_nobody_honours_is_enforced_after_the_grace(lab: &mut Lab) {
    fund_for(lab, OnBreach::CancelAll);
    let running = lab.lease(costing(0));
    lab.ok(Renew { ttl: Some(hours(1)), ..renew(&running) });
    breach(lab);
    lab.advance(secs(30));
    assert_eq!(lab.status(running.id()), Status::Cancelled);
}

pub fn a_breach_reaches_members_of_flows(lab: &mut Lab) {
    fund_for(lab, OnBreach::CancelAll);
    let mut new = flow([node("a"), waits("b", After::all(["a"])), node("c")]);
    new.policy.budgets = vec![budget("b", 0)];
    let graph = lab.plant(new);
    let outside = lab.plant(chain(["x"]));
    breach(lab);
    for name in ["a", "c"] {
        ended_by_budget(lab, graph[name]);
    }
    assert!(lab.status(graph["b"]).is_terminal());
    assert!(lab.recount(graph.id).status.is_terminal());
    assert_eq!(lab.status(outside["x"]), Status::Waiting);
}

pub fn a_breach_reaches_all_work_of_the_places_of_the_budget(lab: &mut Lab) {
    fund_for(lab, OnBreach::CancelPending);
    lab.ok(attach_budget(AttachTo::Lane("a".into())));
    lab.ok(attach_budget(AttachTo::Kind("mail".into())));
    let [lane, kind, other] =
        [work().lane("a"), NewExecution::new("mail"), work()].map(|new| lab.submit(new));
    breach(lab);
    ended_by_budget(lab, lane);
    ended_by_budget(lab, kind);
    assert_eq!(lab.status(other), Status::Waiting);
    lab.ok(detach_budget(AttachTo::Lane("a".into())));
    lab.ok(detach_budget(AttachTo::Kind("mail".into())));
    lab.ok(reset());
    lab.ok(attach_budget(AttachTo::Namespace));
    breach(lab);
    ended_by_budget(lab, other);
}

pub fn large_numbers_are_cancelled_by_and_by(lab: &mut Lab) {
    fund_for(lab, OnBreach::CancelAll);
    lab.submit_all((0..700).map(|_| costing(0)));
    lab.ok(attach_budget(AttachTo::Lane("a".into())));
    lab.submit_all((0..700).map(|_| work().lane("a")));
    lab.ok(spend_of_b(11));
    assert_eq!(lab.counts().open(), 1400, "the one who asks does not wait for that");
    lab.settle();
    assert_eq!(lab.counts().open(), 0);
}

pub fn a_breach_that_is_over_cancels_no_more(lab: &mut Lab) {
    fund_for(lab, OnBreach::CancelAll);
    let id = lab.submit(costing(0));
    lab.ok(spend_of_b(11));
    lab.ok(reset());
    lab.settle();
    assert_eq!(lab.claim("w").id(), id);
}

pub fn a_budget_that_is_removed_after_a_breach_does_no_harm(lab: &mut Lab) {
    fund_for(lab, OnBreach::CancelAll);
    lab.ok(spend_of_b(11));
    lab.ok(delete_budget("b"));
    lab.settle();
    fund_for(lab, OnBreach::CancelAll);
    assert_eq!((lab.used(), lab.budget().breach), ((0, 0), None), "another one begins anew");
}

pub fn each_of_several_budgets_bites_by_itself(lab: &mut Lab) {
    fund_for(lab, OnBreach::Block);
    lab.ok(CreateBudget::new("team", tokens(100)));
    let both = || paid_by([budget("b", 0), budget("team", 0)]);
    lab.submit_all([both(), paid_by([budget("team", 0)])]);
    breach(lab);
    assert_eq!(lab.claims(up_to(10)).len(), 1, "the other is under one of them only");
}
