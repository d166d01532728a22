//! Spending, and what is told of it.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::limit_lab::*;

/// Both dimensions at once.
fn spend_both(leased: &Leased, tokens: u64, calls: u64) -> Spend {
    Spend::new(leased.lease.clone(), [("tokens", tokens), ("calls", calls)])
}

#[track_caller]
fn is_hard(spent: &Spent) -> bool {
    matches!(spent, Spent::HardBreach { .. })
}

pub fn what_is_spent_is_counted(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(0));
    assert_eq!(lab.ok(spend(&lease, 3)), Spent::Ok);
    assert_eq!(lab.ok(spend(&lease, 7)), Spent::Ok);
    assert_eq!(lab.used(), (10, 0));
    lab.reopen();
    assert_eq!(lab.used(), (10, 0));
}

pub fn more_than_the_hard_limit_spends_nothing(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(0));
    lab.ok(spend(&lease, 4));
    let breach = Spent::HardBreach {
        budget: "b".into(),
        dimension: "tokens".into(),
        asked: 7,
        spent: 4,
        reserved: 0,
        hard: 10,
        next_reset_at: None,
    };
    assert_eq!(lab.ok(spend(&lease, 7)), breach);
    assert_eq!(lab.used(), (4, 0));
    assert_eq!(lab.ok(spend(&lease, 6)), Spent::Ok, "what is left can be spent");
    assert_eq!(lab.used(), (10, 0));
}

pub fn more_than_the_soft_limit_is_spent_and_told(lab: &mut Lab) {
    lab.ok(fund(dimensions([("tokens", Some(10), Some(5))])));
    let lease = lab.lease(costing(0));
    assert_eq!(lab.ok(spend(&lease, 5)), Spent::Ok);
    let soft = |spent| Spent::SoftBreach {
        budget: "b".into(),
        dimension: "tokens".into(),
        spent,
        soft: 5,
    };
    assert_eq!(lab.ok(spend(&lease, 1)), soft(6));
    assert_eq!(lab.ok(spend(&lease, 1)), soft(7));
    assert_eq!((lab.used(), lab.budget().soft_breaches), ((7, 0), 1));
    let told = lab.events(of_kinds([EventKind::BudgetSoftBreached]));
    assert_eq!(told.len(), 1, "the log tells once that it was passed");
}

pub fn all_dimensions_are_spent_or_none(lab: &mut Lab) {
    lab.ok(fund(dimensions([("tokens", Some(100), None), ("calls", Some(2), None)])));
    let lease = lab.lease(costing(0));
    lab.ok(spend_both(&lease, 10, 2));
    assert!(is_hard(&lab.ok(spend_both(&lease, 10, 1))));
    let usage = lab.budget().usage;
    assert_eq!((usage["tokens"].spent, usage["calls"].spent), (10, 2));
}

pub fn a_dimension_without_limits_is_only_counted(lab: &mut Lab) {
    lab.ok(fund(dimensions([("tokens", None, None)])));
    let lease = lab.lease(costing(5));
    assert_eq!(lab.ok(spend(&lease, 1_000_000)), Spent::Ok);
    assert_eq!(lab.used(), (1_000_000, 0));
}

pub fn all_budgets_are_charged_or_none(lab: &mut Lab) {
    lab.ok(fund(tokens(100)));
    lab.ok(CreateBudget::new("small", tokens(5)));
    let lease = lab.lease(paid_by([budget("b", 0), budget("small", 0)]));
    lab.ok(spend(&lease, 4));
    assert_eq!((lab.used(), lab.used_of("small")), ((4, 0), (4, 0)));
    assert!(is_hard(&lab.ok(spend(&lease, 4))));
    assert_eq!((lab.used(), lab.used_of("small")), ((4, 0), (4, 0)));
}

pub fn a_spend_counts_in_everything_the_work_is_in(lab: &mut Lab) {
    for name in ["own", "flow", "lane", "kind", "b"] {
        lab.ok(CreateBudget::new(name, tokens(10)));
    }
    let to = |name: &str, to| AttachLimit { limit: LimitName::Budget(name.into()), ..attach(to) };
    lab.ok(to("b", AttachTo::Namespace));
    lab.ok(to("lane", AttachTo::Lane("default".into())));
    lab.ok(to("kind", AttachTo::Kind("work".into())));
    let mut new = crate::flow_lab::flow([NewNode::new("a", paid_by([budget("own", 0)]))]);
    new.policy.budgets = vec![budget("flow", 0)];
    let graph = lab.plant(new);
    let lease = lab.take(graph["a"]);
    lab.ok(spend(&lease, 3));
    for name in ["own", "flow", "lane", "kind", "b"] {
        assert_eq!(lab.used_of(name), (3, 0), "{name}");
    }
    assert_eq!(lab.ledger(lease.id()).len(), 5);
}

pub fn named_budgets_are_charged_instead_of_ones_own(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    lab.ok(CreateBudget::new("other", tokens(10)));
    let lease = lab.lease(costing(0));
    lab.ok(Spend { budgets: names(["other"]), ..spend(&lease, 2) });
    assert_eq!((lab.used(), lab.used_of("other")), ((0, 0), (2, 0)));
}

pub fn each_budget_counts_what_it_has_a_dimension_for(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    lab.ok(CreateBudget::new("calls", dimensions([("calls", Some(10), None)])));
    let lease = lab.lease(paid_by([budget("b", 0), budget("calls", 0)]));
    lab.ok(spend_both(&lease, 3, 1));
    assert_eq!((lab.used().0, lab.budget_named("calls").usage["calls"].spent), (3, 1));
}

pub fn a_keyed_spend_is_spent_once(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(0));
    assert_eq!(lab.ok(spend(&lease, 3).key("k")), Spent::Ok);
    assert_eq!(lab.ok(spend(&lease, 3).key("k")), Spent::AlreadyApplied);
    lab.ok(release(&lease));
    let again = lab.take(lease.id());
    assert_eq!(lab.ok(spend(&again, 3).key("k")), Spent::AlreadyApplied);
    lab.reopen();
    assert_eq!(lab.ok(Spend { key: Some("k".into()), ..spend_of_b(3) }), Spent::AlreadyApplied);
    assert_eq!(lab.ok(spend(&again, 3).key("other")), Spent::Ok);
    assert_eq!(lab.used(), (6, 0));
}

pub fn a_key_is_used_once_in_each_budget(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    lab.ok(CreateBudget::new("other", tokens(10)));
    lab.ok(Spend { key: Some("k".into()), ..spend_of_b(3) });
    let both = Spend { budgets: names(["b", "other"]), key: Some("k".into()), ..spend_of_b(3) };
    assert_eq!(lab.ok(both.clone()), Spent::Ok);
    assert_eq!((lab.used(), lab.used_of("other")), ((3, 0), (3, 0)));
    assert_eq!(lab.ok(both), Spent::AlreadyApplied);
}

pub fn a_key_with_other_amounts_is_a_conflict(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(0));
    lab.ok(spend(&lease, 3).key("k"));
    assert_eq!(lab.refused(spend(&lease, 4).key("k")).code(), Code::IdempotencyConflict);
}

pub fn a_key_of_a_spend_is_no_key_of_a_submission(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(0).key("k"));
    assert_eq!(lab.ok(spend(&lease, 3).key("k")), Spent::Ok);
    let again = lab.submission(costing(0).key("k")).expect("a duplicate is no refusal");
    assert!(again.is_duplicate());
}

pub fn a_refused_spend_can_be_repeated_after_a_raise(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(0));
    assert!(is_hard(&lab.ok(spend(&lease, 11).key("k"))));
    assert!(is_hard(&lab.ok(spend(&lease, 11).key("k"))));
    lab.ok(revise(tokens(11)));
    assert_eq!(lab.ok(spend(&lease, 11).key("k")), Spent::Ok);
    assert_eq!(lab.ok(spend(&lease, 11).key("k")), Spent::AlreadyApplied);
    assert_eq!((lab.used(), lab.budget().breaches), ((11, 0), 2));
}

pub fn a_lost_lease_spends_nothing(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(0));
    lab.ok(RevokeLease::new(lease.id()));
    assert_eq!(lab.lost(spend(&lease, 1)), LeaseLost::Revoked);
    let again = lab.take(lease.id());
    lab.ok(complete(&again));
    assert_eq!(lab.lost(spend(&again, 1)), LeaseLost::Finished);
    assert_eq!(lab.used(), (0, 0));
}

pub fn an_operator_spends_for_an_execution_or_for_nobody(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let id = lab.submit(costing(0));
    lab.ok(spend_of_b(1));
    lab.ok(Spend { execution: Some(id), budgets: vec![], ..spend_of_b(2) });
    assert_eq!(lab.used(), (3, 0));
    assert_eq!(lab.ledger(id)[0].total["tokens"], 2);
    lab.ok(Cancel::new(id));
    lab.ok(Spend { execution: Some(id), ..spend_of_b(4) });
    assert_eq!(lab.ledger(id)[0].total["tokens"], 6, "also after its end");
    lab.ok(delete(id));
    lab.ok(delete_budget("b"));
}

pub fn the_ledger_tells_of_this_period_and_of_all(lab: &mut Lab) {
    lab.ok(fund(each(secs(60), tokens(10))));
    let lease = lab.lease(costing(5));
    lab.ok(spend(&lease, 3));
    let entry = |spent: u64, total: u64, reserved: u64| {
        let of =
            |amount: u64| Amounts::from_iter((amount > 0).then(|| ("tokens".to_owned(), amount)));
        LedgerEntry {
            budget: "b".into(),
            spent: of(spent),
            total: of(total),
            reserved: of(reserved),
        }
    };
    assert_eq!(lab.ledger(lease.id()), [entry(3, 3, 2)]);
    lab.ok(Renew { ttl: Some(hours(1)), ..renew(&lease) });
    lab.pass(secs(60));
    assert_eq!(lab.ledger(lease.id()), [entry(0, 3, 2)]);
    lab.ok(spend(&lease, 2));
    assert_eq!(lab.ledger(lease.id()), [entry(2, 5, 0)]);
    lab.ok(complete(&lease));
    assert_eq!(lab.ledger(lease.id()), [entry(2, 5, 0)], "it is kept with its execution");
}

pub fn what_an_execution_has_spent_can_be_given_back(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let [one, two] = [(); 2].map(|()| lab.lease(costing(0)));
    lab.ok(spend(&one, 4));
    lab.ok(spend(&two, 5));
    let blocked = lab.submit(costing(0));
    assert!(is_hard(&lab.ok(spend(&two, 5))));
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.ok(give_back(one.id())).amounts["tokens"], 4);
    assert_eq!((lab.used(), lab.status(blocked)), ((5, 0), Status::Waiting));
    assert_eq!(lab.ok(give_back(one.id())), BudgetReleased::default(), "only once");
    lab.ok(reset());
    assert_eq!(lab.ok(give_back(two.id())), BudgetReleased::default(), "it is not in the count");
    assert_eq!(lab.used(), (0, 0));
}

pub fn a_budget_tells_how_it_stands(lab: &mut Lab) {
    let now = lab.now();
    let terms = each(hours(1), dimensions([("tokens", Some(10), Some(8))]));
    lab.ok(fund(terms.clone()));
    lab.ok(attach_budget(AttachTo::Lane("a".into())));
    let lease = lab.lease(costing(4));
    lab.submit(costing(7));
    assert!(lab.nothing_to_claim());
    lab.ok(spend(&lease, 1));
    let seen = lab.budget();
    assert_eq!((seen.active, seen.blocked, seen.resets, seen.breaches), (1, 1, 0, 0));
    let usage = DimensionStatus { spent: 1, reserved: 3, hard: Some(10), soft: Some(8) };
    assert_eq!(seen.usage["tokens"], usage);
    assert_eq!((seen.terms, seen.created_at), (terms.clone(), now));
    assert_eq!((seen.since, seen.next_reset_at), (now, Some(now + hours(1))));
    assert_eq!(seen.attached_to, [LimitPlace::Lane("a".into())]);
    assert!(is_hard(&lab.ok(spend(&lease, 11))));
    let seen = lab.budget();
    let breach = Breach { at: now, dimension: "tokens".into(), asked: 11 };
    assert_eq!((seen.breach, seen.last_breach), (Some(breach.clone()), Some(breach)));
}

pub fn budgets_are_listed_by_name_in_pages(lab: &mut Lab) {
    for name in ["c", "a", "b"] {
        lab.ok(CreateBudget::new(name, tokens(1)));
    }
    let page = lab.see(ListBudgets { limit: 2, ..list_budgets("default") });
    let names: Vec<_> = page.budgets.iter().map(|one| one.budget.as_str()).collect();
    assert_eq!((names, page.next.as_deref()), (vec!["a", "b"], Some("b")));
    let rest = lab.see(ListBudgets { after: page.next, ..list_budgets("default") });
    assert_eq!((rest.budgets.len(), rest.next), (1, None));
    assert_eq!(lab.see(list_budgets("nowhere")).budgets, []);
}

pub fn a_dimension_that_comes_back_counts_what_was_used(lab: &mut Lab) {
    lab.ok(fund(dimensions([("tokens", Some(10), None), ("calls", None, None)])));
    let lease = lab.lease(costing(5));
    lab.ok(spend(&lease, 2));
    lab.ok(revise(dimensions([("calls", None, None)])));
    lab.ok(revise(tokens(10)));
    assert_eq!(lab.used(), (2, 3));
    let other = lab.lease(costing(5));
    lab.ok(complete(&lease));
    assert_eq!(lab.used(), (2, 5), "the other one keeps what is put by for it");
    lab.ok(complete(&other));
    assert_eq!(lab.used(), (2, 0));
}
