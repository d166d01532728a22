//! Limits that make no sense, or that are not there, are refused.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use crate::limit_lab::*;

#[track_caller]
fn refuses(lab: &mut Lab, command: impl Command, code: Code, field: &str) {
    let error = lab.refused(command);
    assert_eq!((error.code(), error.field()), (code, Some(field)), "{error}");
}

#[track_caller]
fn invalid(lab: &mut Lab, command: impl Command, field: &str) {
    refuses(lab, command, Code::InvalidInput, field);
}

#[track_caller]
fn missing(lab: &mut Lab, command: impl Command, field: &str) {
    refuses(lab, command, Code::NotFound, field);
}

pub fn the_same_limit_can_be_made_twice(lab: &mut Lab) {
    assert_eq!(lab.ok(make(at_once(1))), LimitCreated::Created);
    assert_eq!(lab.ok(make(at_once(1))), LimitCreated::Existing);
    refuses(lab, make(at_once(2)), Code::WrongState, "quota");
    assert_eq!(lab.ok(fund(tokens(1))), LimitCreated::Created);
    assert_eq!(lab.ok(fund(tokens(1))), LimitCreated::Existing);
    refuses(lab, fund(tokens(2)), Code::WrongState, "budget");
    lab.ok(CreateQuota::new("b", at_once(1)));
}

pub fn limits_that_are_not_there_can_not_be_changed(lab: &mut Lab) {
    lab.submit(work());
    let codes = [
        lab.refused(update(at_once(1))).code(),
        lab.refused(delete_quota("q")).code(),
        lab.refused(revise(tokens(1))).code(),
        lab.refused(reset()).code(),
        lab.refused(delete_budget("b")).code(),
        lab.refused(spend_of_b(1)).code(),
        lab.refused(attach(AttachTo::Namespace)).code(),
        lab.refused(detach(AttachTo::Namespace)).code(),
    ];
    assert_eq!(codes, [Code::NotFound; 8]);
    let elsewhere = DeleteQuota { namespace: "nowhere".into(), ..delete_quota("q") };
    assert_eq!(lab.refused(elsewhere).code(), Code::NotFound);
}

pub fn terms_of_a_quota_out_of_range_are_refused(lab: &mut Lab) {
    let bad = [
        (QuotaTerms::default(), "rate"),
        (at_once(0), "concurrency"),
        (in_each(0, secs(1)), "rate.limit"),
        (in_each(Limits::RATE + 1, secs(1)), "rate.limit"),
        (in_each(1, secs(0)), "rate.window_ms"),
        (in_each(1, days(32)), "rate.window_ms"),
        (by_tag("two words", at_once(1)), "by_tag"),
    ];
    lab.ok(make(at_once(1)));
    for (terms, field) in bad {
        invalid(lab, CreateQuota::new("new", terms.clone()), field);
        invalid(lab, update(terms), field);
    }
    invalid(lab, CreateQuota::new("two words", at_once(1)), "quota");
}

pub fn terms_of_a_budget_out_of_range_are_refused(lab: &mut Lab) {
    let too_long = days(36_500);
    let many = (0..65).map(|n| (format!("d{n}"), Allowance::default())).collect();
    let bad = [
        (BudgetTerms::default(), "dimensions"),
        (BudgetTerms { dimensions: many, ..BudgetTerms::default() }, "dimensions"),
        (dimensions([("two words", None, None)]), "dimensions"),
        (tokens(1 << 53), "dimensions.tokens.hard"),
        (dimensions([("tokens", Some(1), Some(2))]), "dimensions.tokens.soft"),
        (each(ms(999), tokens(1)), "period_ms"),
        (each(too_long, tokens(1)), "period_ms"),
        (BudgetTerms { aligned_to: Some(lab.now()), ..tokens(1) }, "aligned_to"),
        (BudgetTerms { grace: too_long, ..tokens(1) }, "grace_ms"),
    ];
    lab.ok(fund(tokens(1)));
    for (terms, field) in bad {
        invalid(lab, CreateBudget::new("new", terms.clone()), field);
        invalid(lab, revise(terms), field);
    }
    invalid(lab, CreateBudget::new("two words", tokens(1)), "budget");
}

pub fn work_can_not_name_limits_that_are_not_there(lab: &mut Lab) {
    lab.submit(work());
    missing(lab, submit([limited()]), "executions[0].policy.quotas");
    missing(lab, submit([work(), costing(0)]), "executions[1].policy.budgets");
    let nowhere = Submit { namespace: "new".into(), ..submit([limited()]) };
    missing(lab, nowhere, "executions[0].policy.quotas");
    let mut new = flow([node("a")]);
    new.policy.quotas = vec![quota("q")];
    missing(lab, submit_flow(new.clone()), "policy.quotas");
    let empty = NewFlow { nodes: vec![], ..new };
    missing(lab, CreateFlow { namespace: ns(), flow: empty }, "policy.quotas");
    let member = flow([NewNode::new("a", limited())]);
    missing(lab, submit_flow(member), "nodes[0].execution.policy.quotas");
    let named = || defaults(json!({ "quotas": [{ "quota": "q" }] }));
    missing(lab, put_lane("default", named()), "defaults.policy.quotas");
    let put = PutNamespace { namespace: ns(), defaults: named() };
    missing(lab, put, "defaults.policy.quotas");
}

pub fn defaults_that_name_a_limit_that_was_removed_are_refused_at_submission(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.ok(put_lane("default", defaults(json!({ "quotas": [{ "quota": "q" }] }))));
    lab.ok(delete_quota("q"));
    missing(lab, submit([work()]), "executions[0].policy.quotas");
}

pub fn work_whose_limit_was_removed_can_not_be_replayed(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let lease = lab.lease(limited());
    lab.ok(complete(&lease));
    lab.ok(delete_quota("q"));
    missing(lab, replay(lease.id()), "policy.quotas");
    lab.ok(make(at_once(1)));
    lab.ok(replay(lease.id()));
}

pub fn a_flow_whose_limit_was_removed_takes_no_more_members(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let quotas = policy(json!({ "quotas": [{ "quota": "q" }] }));
    let new = NewFlow { policy: quotas, ..NewFlow::new() };
    let created = lab.ok(CreateFlow { namespace: ns(), flow: new });
    let CreateFlowOutcome::Created { id } = created else { panic!("{created:?}") };
    lab.ok(delete_quota("q"));
    let more = || ExtendFlow { nodes: vec![node("a")], ..extend(id, 0) };
    missing(lab, more(), "flow.policy.quotas");
    let execution = lab.submit(work());
    let add = || AddExecution { namespace: ns(), flow: id, execution, node: None };
    missing(lab, add(), "flow.policy.quotas");
    lab.ok(make(at_once(1)));
    lab.ok(more());
    lab.ok(add());
}

pub fn limits_of_a_policy_are_checked(lab: &mut Lab) {
    let twice = json!([{ "quota": "q" }, { "quota": "q" }]);
    let many: Vec<_> = (0..17).map(|n| json!({ "budget": format!("b{n}") })).collect();
    let bad = [
        (json!({ "quotas": twice }), "quotas"),
        (json!({ "quotas": [{ "quota": "two words" }] }), "quotas"),
        (json!({ "quotas": [{ "quota": "q", "key": "" }] }), "quotas.key"),
        (json!({ "budgets": [{ "budget": "b" }, { "budget": "b" }] }), "budgets"),
        (json!({ "budgets": [{ "budget": "b", "estimate": { "a b": 1 } }] }), "budgets.estimate"),
        (json!({ "concurrency_key": { "key": "k", "limit": 0 } }), "concurrency_key.limit"),
        (json!({ "concurrency_key": { "key": "" } }), "concurrency_key.key"),
        (json!({ "fairness_key": "a\u{1f}" }), "fairness_key"),
    ];
    lab.ok(make(at_once(1)));
    lab.ok(fund(tokens(1)));
    for (json, field) in bad {
        let new = work().policy(policy(json.clone()));
        invalid(lab, submit([new]), &format!("executions[0].policy.{field}"));
        invalid(lab, put_lane("a", defaults(json)), &format!("defaults.policy.{field}"));
    }
    let new = work().policy(policy(json!({ "budgets": many })));
    let error = lab.refused(submit([new]));
    assert_eq!(error.field(), Some("executions[0].policy.budgets"), "{error}");
}

pub fn dimensions_nobody_declared_are_refused(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let calls = || Amounts::from([("calls".to_owned(), 1)]);
    let lease = lab.lease(costing(0));
    invalid(lab, Spend::new(lease.lease.clone(), [("calls", 1)]), "amounts");
    invalid(lab, Spend { amounts: calls(), ..spend_of_b(1) }, "amounts");
    let mut new = costing(0);
    new.policy.budgets[0].estimate = calls();
    invalid(lab, submit([new]), "executions[0].policy.budgets.estimate");
    let attach = attach_budget(AttachTo::Namespace);
    let error = lab.refused(AttachLimit { estimate: calls(), ..attach });
    assert_eq!(error.code(), Code::InvalidInput);
}

pub fn spends_that_make_no_sense_are_refused(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(costing(0));
    let execution = Some(lease.id());
    invalid(lab, Spend { amounts: Amounts::new(), ..spend_of_b(1) }, "amounts");
    invalid(lab, spend_of_b(1 << 53), "amounts.tokens");
    invalid(lab, Spend { budgets: names(["b", "b"]), ..spend_of_b(1) }, "budgets");
    invalid(lab, Spend { budgets: vec![], ..spend_of_b(1) }, "budgets");
    invalid(lab, Spend { execution, ..spend(&lease, 1) }, "execution");
    invalid(lab, spend(&lease, 1).key(""), "key");
    let free = lab.lease(work());
    invalid(lab, spend(&free, 1), "budgets");
    let gone = Spend { execution: Some(id(7)), ..spend_of_b(1) };
    assert_eq!(lab.refused(gone).code(), Code::NotFound);
}

pub fn attachments_that_make_no_sense_are_refused(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.ok(fund(tokens(1)));
    invalid(lab, attach(AttachTo::Lane("two words".into())), "to");
    invalid(lab, detach(AttachTo::Kind("two words".into())), "from");
    let key = Some("k".to_owned());
    invalid(lab, AttachLimit { key, ..attach_budget(AttachTo::Namespace) }, "key");
    let estimate = [("tokens".to_owned(), 1)].into();
    invalid(lab, AttachLimit { estimate, ..attach(AttachTo::Namespace) }, "estimate");
}

pub fn a_limit_that_is_in_use_is_not_removed(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.ok(fund(tokens(1)));
    for status in open_states() {
        let mut new = limited();
        new.policy.budgets = vec![budget("b", 0)];
        let id = lab.bring(status, new);
        refuses(lab, delete_quota("q"), Code::InUse, "quota");
        refuses(lab, delete_budget("b"), Code::InUse, "budget");
        lab.ok(force_cancel(id));
    }
    lab.ok(attach(AttachTo::Namespace));
    lab.ok(attach_budget(AttachTo::Kind("work".into())));
    refuses(lab, delete_quota("q"), Code::InUse, "quota");
    refuses(lab, delete_budget("b"), Code::InUse, "budget");
    lab.ok(detach(AttachTo::Namespace));
    lab.ok(detach_budget(AttachTo::Kind("work".into())));
    lab.ok(delete_quota("q"));
    lab.ok(delete_budget("b"));
    assert_eq!(lab.see(list_budgets("default")).budgets.len(), 1, "only what bring has made");
}
