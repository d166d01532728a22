//! What is put by for work when it is claimed, and what waits when there is not enough.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use crate::limit_lab::*;

pub fn an_estimate_is_put_by_while_a_worker_has_the_work(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(4));
    assert_eq!(lab.used(), (0, 4));
    lab.ok(complete(&lease));
    assert_eq!(lab.used(), (0, 0));
}

pub fn what_is_put_by_returns_however_the_lease_ends(lab: &mut Lab) {
    type Act = fn(&mut Lab, &Leased);
    let acts: [(&str, Act); 9] = [
        ("fail", |lab, lease| lab.fail_lease(lease)),
        ("retry", |lab, lease| lab.run(retry_after(lease, days(1)))),
        ("release", |lab, lease| lab.run(release(lease))),
        ("delay", |lab, lease| lab.run(delay(lease, days(1)))),
        ("suspend", |lab, lease| {
            lab.run(Suspend::new(lease.lease.clone(), Condition::Operator));
        }),
        ("revoke", |lab, lease| lab.run(RevokeLease::new(lease.id()))),
        ("expire", |lab, _| lab.advance(secs(30))),
        ("cancel", |lab, lease| lab.run(force_cancel(lease.id()))),
        ("die", |lab, _| {
            lab.run(RegisterWorker::new("pool", "w"));
            lab.run(mark_dead("w"));
        }),
    ];
    lab.ok(fund(tokens(100)));
    let mut spent = 0;
    for (how, act) in acts {
        let lease = lab.lease(costing(10));
        lab.ok(spend(&lease, 4));
        spent += 4;
        assert_eq!(lab.used(), (spent, 6), "{how}");
        act(lab, &lease);
        assert_eq!(lab.used(), (spent, 0), "{how}");
    }
    let id = lab.submit(costing(10));
    lab.reserve(id);
    assert_eq!(lab.used(), (spent, 10));
    lab.advance(secs(60));
    assert_eq!(lab.used(), (spent, 0), "a grant that lapsed");
}

pub fn a_spend_takes_from_what_is_put_by_first(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let [one, two] = [(); 2].map(|()| lab.lease(costing(5)));
    assert_eq!(lab.used(), (0, 10));
    assert_eq!(lab.ok(spend(&one, 3)), Spent::Ok);
    assert_eq!(lab.used(), (3, 7));
    assert_eq!(lab.ok(spend(&one, 2)), Spent::Ok);
    assert_eq!(lab.used(), (5, 5));
    let Spent::HardBreach { spent, reserved, .. } = lab.ok(spend(&one, 1)) else {
        panic!("what is put by for another was spent");
    };
    assert_eq!((spent, reserved), (5, 5));
    assert_eq!(lab.ok(spend(&two, 5)), Spent::Ok);
    assert_eq!(lab.used(), (10, 0));
}

pub fn work_without_an_estimate_begins_while_something_is_left(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let [one, _two] = [(); 2].map(|()| lab.lease(costing(0)));
    lab.ok(spend(&one, 10));
    let id = lab.submit(costing(0));
    assert_eq!(refused_by(lab.ok(by_id(id, "w"))), by_budget("b"));
    lab.ok(revise(tokens(11)));
    lab.take(id);
}

pub fn a_fan_out_never_runs_more_than_its_budget_allows(lab: &mut Lab) {
    lab.ok(fund(tokens(100)));
    let member = |n: usize| NewNode::new(format!("n{n}"), work());
    let mut new = flow((0..1000).map(member).collect::<Vec<_>>());
    new.policy.budgets = vec![budget("b", 1)];
    let graph = lab.plant(new);
    assert_eq!(lab.claims(up_to(1000)).len(), 100);
    assert!(lab.nothing_to_claim());
    assert_eq!((lab.used(), lab.budget().blocked), ((0, 100), 900));
    lab.ok(revise(tokens(150)));
    let leases = lab.claims(up_to(1000));
    assert_eq!(leases.len(), 50, "a raise lets exactly the next ones run");
    for lease in &leases {
        lab.ok(spend(lease, 1));
        lab.ok(complete(lease));
    }
    assert!(lab.nothing_to_claim(), "what was spent does not come back");
    assert_eq!((lab.used(), lab.count(Status::Active)), ((50, 100), 100));
    lab.ok(reset());
    assert_eq!(lab.claims(up_to(1000)).len(), 50, "a reset lets as many run as were spent");
    assert_eq!(lab.used(), (0, 150));
    lab.ok(cancel_flow(graph.id, CancelScope::All));
    lab.settle();
    assert_eq!((lab.used(), lab.budget().blocked), ((0, 0), 0));
}

pub fn what_fits_returns_in_the_order_of_claims(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(10));
    let [large, small, urgent] =
        [costing(8), costing(3), costing(2).priority(9000)].map(|new| lab.submit(new));
    assert!(lab.nothing_to_claim());
    lab.ok(complete(&lease));
    assert_eq!(lab.claimed_ids(up_to(10)), [urgent, large], "what is next in line is not passed");
    assert_eq!(lab.status(small), Status::RateLimited);
}

pub fn work_that_can_never_fit_does_not_hide_what_is_behind_it(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(10));
    let [never, behind] = [costing(11).priority(9000), costing(5)].map(|new| lab.submit(new));
    assert!(lab.nothing_to_claim());
    lab.ok(complete(&lease));
    assert_eq!(lab.claimed_ids(up_to(10)), [behind]);
    lab.ok(revise(tokens(20)));
    assert_eq!(lab.claimed_ids(up_to(10)), [never]);
}

pub fn a_period_begins_anew_when_it_is_over(lab: &mut Lab) {
    lab.ok(fund(each(secs(60), tokens(10))));
    lab.advance(secs(45));
    let lease = lab.lease(costing(0));
    lab.ok(spend(&lease, 10));
    let id = lab.submit(costing(0));
    assert!(lab.nothing_to_claim());
    lab.advance(ms(14_999));
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.tick().next_due, Some(Lab::BEGINNING + secs(60)), "the clock knows when");
    lab.advance(ms(1));
    assert_eq!(lab.claim("w").id(), id);
    assert_eq!((lab.used(), lab.budget().resets), ((0, 0), 1));
}

pub fn periods_are_aligned_to_a_moment(lab: &mut Lab) {
    let aligned_to = Some(Lab::BEGINNING + secs(10));
    lab.ok(fund(BudgetTerms { aligned_to, ..each(secs(60), tokens(10)) }));
    let seen = lab.budget();
    assert_eq!(seen.since, Lab::BEGINNING.before(secs(50)));
    assert_eq!(seen.next_reset_at, Some(Lab::BEGINNING + secs(10)));
}

pub fn missed_periods_are_one_new_beginning(lab: &mut Lab) {
    lab.ok(fund(each(secs(60), tokens(10))));
    lab.ok(spend_of_b(10));
    lab.advance(secs(600));
    assert_eq!((lab.used(), lab.budget().resets), ((0, 0), 1));
    lab.ok(spend_of_b(1));
    let told = lab.events(of_kinds([EventKind::BudgetReset]));
    assert_eq!(told.len(), 1);
    assert_eq!(lab.budget().next_reset_at, Some(lab.now() + secs(60)));
}

pub fn an_operator_s_reset_leaves_the_periods_as_they_are(lab: &mut Lab) {
    lab.ok(fund(each(secs(60), tokens(10))));
    lab.ok(spend_of_b(10));
    lab.advance(secs(30));
    let id = lab.submit(costing(0));
    assert!(lab.nothing_to_claim());
    lab.ok(reset());
    assert_eq!(lab.claim("w").id(), id);
    let seen = lab.budget();
    assert_eq!((seen.since, seen.resets), (lab.now(), 1));
    assert_eq!(seen.next_reset_at, Some(Lab::BEGINNING + secs(60)));
}

pub fn what_is_put_by_outlives_a_period(lab: &mut Lab) {
    lab.ok(fund(each(secs(10), tokens(10))));
    let lease = lab.lease(costing(6));
    lab.ok(spend(&lease, 2));
    lab.advance(secs(10));
    assert_eq!(lab.used(), (0, 4));
    lab.ok(complete(&lease));
    assert_eq!(lab.used(), (0, 0));
}

pub fn several_budgets_are_reserved_together_or_not_at_all(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    lab.ok(CreateBudget::new("small", tokens(3)));
    let both = || paid_by([budget("b", 2), budget("small", 2)]);
    let lease = lab.lease(both());
    let id = lab.submit(both());
    assert_eq!(refused_by(lab.ok(by_id(id, "w"))), by_budget("small"));
    assert_eq!((lab.used(), lab.used_of("small")), ((0, 2), (0, 2)));
    lab.ok(complete(&lease));
    lab.take(id);
}

pub fn a_budget_and_a_quota_both_hold(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    lab.ok(make(at_once(1)));
    let both = || {
        let new = costing(2);
        NewExecution { policy: Policy { quotas: vec![quota("q")], ..new.policy.clone() }, ..new }
    };
    let lease = lab.lease(both());
    let id = lab.submit(both());
    assert_eq!(refused_by(lab.ok(by_id(id, "w"))), by_quota("q"));
    assert_eq!((lab.used(), lab.load()), ((0, 2), (1, 1)));
    lab.ok(complete(&lease));
    lab.take(id);
    assert_eq!((lab.used(), lab.load()), ((0, 2), (1, 0)));
}

pub fn work_that_waits_explains_the_budget_its_numbers_and_the_time(lab: &mut Lab) {
    lab.ok(fund(each(hours(1), tokens(10))));
    let lease = lab.lease(costing(4));
    lab.ok(spend(&lease, 1));
    let id = lab.submit(costing(7));
    assert!(lab.nothing_to_claim());
    let at = Lab::BEGINNING + hours(1);
    let said = lab.explain(id);
    for word in ["budget `b`", "1 of 10 are spent and 3 put by", &format!("begins anew at {at}")] {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    lab.ok(spend(&lease, 50));
    let said = lab.explain(id);
    assert!(said.contains("breached") && said.contains("50 more of `tokens`"), "{said}");
}
