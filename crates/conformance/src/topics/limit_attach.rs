//! Putting things under limits later, and taking them out again.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use crate::limit_lab::*;
use LimitChanged::{Already, Done};

/// A flow of so many members that wait for nothing, of the kind `member`.
fn wide(count: usize) -> NewFlow {
    let node = |n: usize| NewNode::new(format!("n{n}"), NewExecution::new("member"));
    flow((0..count).map(node).collect::<Vec<_>>())
}

pub fn an_execution_is_put_under_a_limit_and_taken_out_again(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let busy = lab.lease(limited());
    let id = lab.submit(work());
    assert_eq!(lab.ok(attach(AttachTo::Execution(id))), Done);
    assert_eq!(lab.ok(attach(AttachTo::Execution(id))), Already);
    assert_eq!(lab.get(id).policy.quotas, [quota("q")]);
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.load(), (1, 1));
    assert_eq!(lab.ok(detach(AttachTo::Execution(id))), Done);
    assert_eq!(lab.ok(detach(AttachTo::Execution(id))), Already);
    assert_eq!(lab.load(), (1, 0));
    assert_eq!(lab.claim("w").id(), id);
    lab.ok(complete(&busy));
    lab.ok(delete_quota("q"));
}

pub fn running_work_is_limited_from_its_next_claim_on(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let [one, two] = [(); 2].map(|()| lab.lease(work()));
    lab.ok(attach(AttachTo::Execution(one.id())));
    lab.ok(attach(AttachTo::Execution(two.id())));
    assert_eq!(lab.load(), (0, 0));
    lab.ok(release(&one));
    lab.ok(release(&two));
    assert_eq!(lab.load(), (0, 0), "what was never counted is not given back");
    assert_eq!(lab.claims(up_to(10)).len(), 1);
    assert_eq!(lab.load(), (1, 1));
}

pub fn running_work_that_is_taken_out_keeps_its_place_until_it_leaves(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let busy = lab.lease(limited());
    lab.ok(detach(AttachTo::Execution(busy.id())));
    assert_eq!(lab.load(), (1, 0));
    lab.ok(attach(AttachTo::Execution(busy.id())));
    lab.ok(detach(AttachTo::Execution(busy.id())));
    assert_eq!(lab.refused(delete_quota("q")).code(), Code::InUse);
    lab.ok(release(&busy));
    assert_eq!(lab.load(), (0, 0));
    lab.ok(delete_quota("q"));
}

pub fn work_that_is_over_can_not_be_attached(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    for status in ended_states() {
        let id = lab.bring(status, work());
        let error = lab.refused(attach(AttachTo::Execution(id)));
        assert_eq!(error.code(), Code::AlreadyTerminal);
    }
    let graph = lab.plant(chain(["a"]));
    lab.complete(graph["a"]);
    assert_eq!(lab.refused(attach(AttachTo::Flow(graph.id))).code(), Code::AlreadyTerminal);
    assert_eq!(lab.refused(attach(AttachTo::Execution(id(9)))).code(), Code::NotFound);
}

pub fn a_place_is_put_under_a_limit_and_taken_out_again(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let places = [
        (AttachTo::Namespace, LimitPlace::Namespace),
        (AttachTo::Lane("default".into()), LimitPlace::Lane("default".into())),
        (AttachTo::Kind("work".into()), LimitPlace::Kind("work".into())),
    ];
    for (place, told) in places {
        let ids = lab.submit_all([work(), work(), work()]);
        assert_eq!(lab.ok(attach(place.clone())), Done);
        assert_eq!(lab.ok(attach(place.clone())), Already);
        assert_eq!(lab.quota("q").attached_to, [told]);
        let lease = lab.claim("w");
        assert!(lab.nothing_to_claim());
        assert_eq!(lab.load(), (1, 2));
        assert_eq!(lab.refused(delete_quota("q")).code(), Code::InUse);
        assert_eq!(lab.ok(detach(place.clone())), Done);
        assert_eq!(lab.ok(detach(place)), Already);
        lab.settle();
        assert_eq!(lab.claimed_ids(up_to(10)), ids[1..]);
        assert_eq!(lab.load(), (1, 0), "who passed it gives its place back when it leaves");
        lab.ok(complete(&lease));
        assert_eq!(lab.load(), (0, 0));
    }
    lab.ok(delete_quota("q"));
}

pub fn putting_a_lane_or_namespace_keeps_its_limits(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.ok(attach(AttachTo::Namespace));
    lab.ok(attach(AttachTo::Lane("default".into())));
    lab.ok(put_lane("default", Defaults::default()));
    lab.ok(PutNamespace { namespace: ns(), defaults: Defaults::default() });
    assert_eq!(lab.lane("default").limits.quotas, [quota("q")]);
    let all = lab.see(ListNamespaces { after: None, limit: Limits::PAGE }).namespaces;
    assert_eq!(all[0].limits.all.quotas, [quota("q")]);
    lab.reopen();
    lab.submit_all([work(), work()]);
    assert_eq!(lab.claims(up_to(10)).len(), 1);
}

pub fn a_flow_s_limit_applies_to_its_members(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let graph = lab.plant(flow([node("a"), node("b"), waits("c", After::all(["a"]))]));
    assert_eq!(lab.ok(attach(AttachTo::Flow(graph.id))), Done);
    assert_eq!(lab.ok(attach(AttachTo::Flow(graph.id))), Already);
    let lease = lab.claim("w");
    assert!(lab.nothing_to_claim());
    lab.ok(complete(&lease));
    assert_eq!(lab.claims(up_to(10)).len(), 1);
    assert_eq!(lab.load(), (1, 1));
    assert_eq!(lab.ok(detach(AttachTo::Flow(graph.id))), Done);
    assert_eq!(lab.claims(up_to(10)).len(), 1);
    lab.recount(graph.id);
}

pub fn a_flow_may_name_its_limits_when_it_is_submitted(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let mut new = wide(3);
    new.policy.quotas = vec![quota("q")];
    lab.plant(new);
    assert_eq!(lab.claims(up_to(10)).len(), 1);
    assert_eq!(lab.load(), (1, 2));
}

pub fn a_large_flow_is_put_under_a_limit_by_and_by(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let graph = lab.plant(wide(1500));
    lab.ok(attach(AttachTo::Flow(graph.id)));
    assert!(lab.flow(graph.id).settling);
    lab.settle();
    assert!(!lab.flow(graph.id).settling);
    assert_eq!(lab.claims(up_to(1000)).len(), 1);
    assert!(lab.nothing_to_claim());
    lab.ok(detach(AttachTo::Flow(graph.id)));
    lab.settle();
    assert_eq!(lab.claims(up_to(1000)).len(), 1000);
    assert_eq!(lab.load(), (1, 0));
}

pub fn members_that_come_later_are_under_the_flow_s_limit(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let graph = lab.plant(flow([node("a")]));
    lab.ok(attach(AttachTo::Flow(graph.id)));
    let more = ExtendFlow { nodes: vec![node("b")], ..extend(graph.id, 1) };
    lab.ok(more);
    let own = lab.submit(work());
    lab.ok(AddExecution { namespace: ns(), flow: graph.id, execution: own, node: None });
    assert_eq!(lab.get(own).policy.quotas, [quota("q")]);
    assert_eq!(lab.claims(up_to(10)).len(), 1);
    assert_eq!(lab.load(), (1, 2));
}

pub fn a_limit_removed_while_a_large_flow_is_put_under_it_does_no_harm(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    let graph = lab.plant(wide(600));
    lab.ok(attach(AttachTo::Flow(graph.id)));
    lab.settle();
    lab.ok(detach(AttachTo::Flow(graph.id)));
    lab.ok(cancel_flow(graph.id, CancelScope::All));
    while lab.apply(delete_quota("q")).is_err() {
        lab.tick();
    }
    lab.settle();
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Cancelled);
}

pub fn a_budget_attached_later_counts_what_is_spent_from_then_on(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let lease = lab.lease(work());
    assert_eq!(lab.refused(spend(&lease, 1)).field(), Some("budgets"));
    lab.ok(attach_budget(AttachTo::Execution(lease.id())));
    lab.ok(spend(&lease, 4));
    assert_eq!(lab.used(), (4, 0));
    lab.ok(detach_budget(AttachTo::Execution(lease.id())));
    assert_eq!(lab.refused(spend(&lease, 1)).field(), Some("budgets"));
    assert_eq!(lab.ledger(lease.id())[0].total["tokens"], 4, "what is spent stays spent");
}

pub fn an_estimate_can_be_changed_by_attaching_again(lab: &mut Lab) {
    lab.ok(fund(tokens(10)));
    let id = lab.submit(costing(3));
    let estimate = [("tokens".to_owned(), 7)].into();
    let attach = AttachLimit { estimate, ..attach_budget(AttachTo::Execution(id)) };
    assert_eq!(lab.ok(attach), Done);
    lab.take(id);
    assert_eq!(lab.used(), (0, 7));
}
