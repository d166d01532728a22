//! What nodes wait for, and what follows when it is decided.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;

fn race(after: After) -> NewFlow {
    flow([node("a"), node("b"), node("c"), waits("t", after)])
}

pub fn all_needs_every_source_and_the_first_failure_skips(lab: &mut Lab) {
    let graph = lab.plant(race(After::all(["a", "b", "c"])));
    let other = lab.take(graph["c"]);
    lab.complete(graph["a"]);
    lab.fail(graph["b"]);
    assert_eq!(lab.states(graph.id), "a:completed b:failed c:active t:skipped");
    let end = lab.end(graph["t"]);
    assert_eq!(end.reason, EndReason::Unreachable);
    assert_eq!(end.message.as_deref(), Some("`b` failed"));
    lab.ok(complete(&other));
    let view = lab.recount(graph.id);
    assert_eq!(view.status, FlowStatus::Failed);
}

pub fn any_fires_with_the_first_and_cancels_the_losers(lab: &mut Lab) {
    let graph = lab.plant(race(After::any(["a", "b", "c"])));
    let loser = lab.take(graph["a"]);
    lab.complete(graph["b"]);
    assert_eq!(lab.states(graph.id), "a:cancelled b:completed c:cancelled t:waiting");
    assert_eq!(lab.end(graph["a"]).reason, EndReason::NotNeeded);
    assert_eq!(lab.lost(complete(&loser)), LeaseLost::Cancelled);
    lab.complete(graph["t"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn the_rest_may_run_on(lab: &mut Lab) {
    let graph = lab.plant(race(After::any(["a", "b", "c"]).run_rest()));
    lab.complete(graph["b"]);
    assert_eq!(lab.states(graph.id), "a:waiting b:completed c:waiting t:waiting");
    lab.complete(graph["t"]);
    lab.fail(graph["a"]);
    lab.complete(graph["c"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed);
}

pub fn a_join_that_needs_all_may_cancel_the_rest_when_it_is_impossible(lab: &mut Lab) {
    let graph = lab.plant(race(After::all(["a", "b", "c"]).cancel_rest()));
    let running = lab.take(graph["a"]);
    lab.fail(graph["b"]);
    assert_eq!(lab.states(graph.id), "a:cancelled b:failed c:cancelled t:skipped");
    lab.lost(complete(&running));
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed);
}

pub fn a_count_is_satisfied_when_it_is_reached(lab: &mut Lab) {
    let graph = lab.plant(race(After::count(2, ["a", "b", "c"]).run_rest()));
    lab.complete(graph["a"]);
    lab.fail(graph["b"]);
    assert_eq!(lab.status(graph["t"]), Status::WaitingChildren);
    lab.complete(graph["c"]);
    assert_eq!(lab.status(graph["t"]), Status::Waiting);
    let join = lab.node(graph.id, "t").join.expect("it waited");
    assert_eq!((join.met, join.unmet, join.verdict), (2, 1, Some(Verdict::Satisfied)));
    lab.recount(graph.id);
}

pub fn a_count_that_can_not_be_reached_any_more_skips(lab: &mut Lab) {
    let graph = lab.plant(race(After::count(2, ["a", "b", "c"]).run_rest()));
    lab.fail(graph["a"]);
    assert_eq!(lab.status(graph["t"]), Status::WaitingChildren);
    lab.fail(graph["b"]);
    assert_eq!(lab.states(graph.id), "a:failed b:failed c:waiting t:skipped");
    lab.complete(graph["c"]);
    lab.recount(graph.id);
}

pub fn sources_are_counted_once_however_many_edges_they_have(lab: &mut Lab) {
    let twice = After::count(2, ["a", "a", "b"]).run_rest();
    let graph = lab.plant(race(twice));
    lab.complete(graph["a"]);
    assert_eq!(lab.status(graph["t"]), Status::WaitingChildren);
    lab.complete(graph["b"]);
    assert_eq!(lab.status(graph["t"]), Status::Waiting);
    let either = After::any([Upstream::new("a").failure(), Upstream::new("a")]).run_rest();
    let graph = lab.plant(race(either));
    lab.fail(graph["a"]);
    assert_eq!(lab.status(graph["t"]), Status::Waiting);
    let both = After::all([Upstream::new("a").failure(), Upstream::new("a")]);
    let graph = lab.plant(race(both));
    lab.complete(graph["a"]);
    assert_eq!(lab.status(graph["t"]), Status::Skipped);
}

pub fn a_source_that_something_else_needs_survives(lab: &mut Lab) {
    let nodes = [
        node("a"),
        node("b"),
        waits("fast", After::any(["a", "b"])),
        waits("both", After::all(["a", "b"])),
    ];
    let graph = lab.plant(flow(nodes));
    lab.complete(graph["a"]);
    assert_eq!(lab.states(graph.id), "a:completed b:waiting both:waiting_children fast:waiting");
    lab.complete(graph["b"]);
    assert_eq!(lab.status(graph["both"]), Status::Waiting);
    lab.complete(graph["both"]);
    lab.complete(graph["fast"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn a_join_fires_once(lab: &mut Lab) {
    let graph = lab.plant(race(After::any(["a", "b", "c"]).run_rest()));
    lab.complete(graph["a"]);
    lab.complete(graph["b"]);
    lab.complete(graph["t"]);
    lab.complete(graph["c"]);
    let kinds = lab.history(graph["t"]);
    let ready = kinds.iter().filter(|kind| **kind == EventKind::BecameReady).count();
    assert_eq!(ready, 1);
    assert_eq!(lab.get(graph["t"]).run, 1);
    lab.recount(graph.id);
}

pub fn winners_of_one_transaction_fire_a_join_once(lab: &mut Lab) {
    let graph = lab.plant(race(After::any(["a", "b", "c"])));
    let (a, b) = (lab.take(graph["a"]), lab.take(graph["b"]));
    let (mut one, mut two) = (lab.call(complete(&a)), lab.call(complete(&b)));
    lab.batch(&mut [&mut one, &mut two]);
    assert!(one.into_answer().is_ok());
    let late = two.into_answer().expect_err("cancelled in between");
    assert_eq!(late.why_lease_lost(), Some(LeaseLost::Cancelled));
    assert_eq!(lab.states(graph.id), "a:completed b:cancelled c:cancelled t:waiting");
    lab.recount(graph.id);
}

pub fn all_sources_may_end_in_one_transaction(lab: &mut Lab) {
    let graph = lab.plant(race(After::all(["a", "b", "c"])));
    let leases = lab.claims(up_to(3));
    let mut calls: Vec<_> = leases.iter().map(|lease| lab.call(complete(lease))).collect();
    let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as &mut dyn Job).collect();
    lab.batch(&mut jobs);
    assert!(calls.into_iter().all(|call| call.into_answer().is_ok()));
    assert_eq!(lab.status(graph["t"]), Status::Waiting);
    lab.recount(graph.id);
}

pub fn a_failure_branch_runs_when_its_source_does_not_succeed(lab: &mut Lab) {
    for how in ["fail", "cancel", "expire"] {
        let new = NewNode::new("a", work().deadline_at(lab.now() + secs(10)));
        let nodes = [
            new,
            waits("good", After::all(["a"])),
            waits("bad", After::all([Upstream::new("a").failure()])),
            waits("after", After::all([Upstream::new("a").done()])),
        ];
        let graph = lab.plant(flow(nodes));
        match how {
            "fail" => lab.fail(graph["a"]),
            "cancel" => lab.run(Cancel::new(graph["a"])),
            _ => lab.advance(secs(10)),
        }
        for (name, status) in
            [("good", Status::Skipped), ("bad", Status::Waiting), ("after", Status::Waiting)]
        {
            assert_eq!(lab.status(graph[name]), status, "{how} {name}");
        }
        lab.complete(graph["bad"]);
        lab.complete(graph["after"]);
        assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed, "{how} is handled");
    }
}

pub fn a_failure_branch_is_skipped_when_its_source_succeeds(lab: &mut Lab) {
    let nodes = [
        node("a"),
        waits("bad", After::all([Upstream::new("a").failure()])),
        waits("below", After::all(["bad"])),
        waits("anyway", After::all([Upstream::new("below").done()])),
    ];
    let graph = lab.plant(flow(nodes));
    lab.complete(graph["a"]);
    assert_eq!(lab.states(graph.id), "a:completed anyway:waiting bad:skipped below:skipped");
    lab.complete(graph["anyway"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn a_skipped_source_is_no_failure(lab: &mut Lab) {
    let nodes = [
        node("a"),
        waits("b", After::all(["a"])),
        waits("heals", After::all([Upstream::new("b").failure()])),
    ];
    let graph = lab.plant(flow(nodes));
    lab.fail(graph["a"]);
    assert_eq!(lab.states(graph.id), "a:failed b:skipped heals:skipped");
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed);
}

pub fn results_are_handed_over_by_name(lab: &mut Lab) {
    let of = vec![
        Upstream::new("a").bind("left"),
        Upstream::new("b").done().bind("right"),
        Upstream::new("c"),
    ];
    let t = NewNode::new("t", work().input(Payload::bytes("own")));
    let t = t.after(After { of, ..After::default() });
    let graph = lab.plant(flow([node("a"), node("b"), node("c"), t]));
    let result = Payload { content_type: "text/plain".into(), ..Payload::bytes("1") };
    let lease = lab.take(graph["a"]);
    lab.ok(Complete { result: result.clone(), ..complete(&lease) });
    lab.fail(graph["b"]);
    lab.complete_with(graph["c"], "3");
    let lease = lab.take(graph["t"]);
    assert_eq!(lease.input, Some(Payload::bytes("own")));
    assert_eq!(lease.bound.keys().collect::<Vec<_>>(), ["left", "right"]);
    let (left, right) = (&lease.bound["left"], &lease.bound["right"]);
    assert_eq!(
        (left.execution, left.status, &left.result),
        (graph["a"], Status::Completed, &Some(result))
    );
    assert_eq!((right.status, &right.result), (Status::Failed, &None));
    assert_eq!(right.message.as_deref(), Some("broken"));
    lab.ok(retry_after(&lease, secs(0)));
    assert_eq!(lab.take(graph["t"]).bound, lease.bound, "every attempt gets them");
}

pub fn a_source_without_a_result_binds_none(lab: &mut Lab) {
    let graph = lab.plant(flow([node("a"), waits("t", After::all(["a"]).bind_all())]));
    lab.complete(graph["a"]);
    let lease = lab.take(graph["t"]);
    assert_eq!((lease.bound["a"].status, &lease.bound["a"].result), (Status::Completed, &None));
    assert!(!lease.bound["a"].left_out);
}

pub fn only_what_satisfied_a_join_is_handed_over(lab: &mut Lab) {
    let graph = lab.plant(race(After::any(["a", "b", "c"]).bind_all()));
    lab.fail(graph["a"]);
    lab.complete_with(graph["b"], "2");
    let lease = lab.take(graph["t"]);
    assert_eq!(lease.bound.keys().collect::<Vec<_>>(), ["b"]);
}

pub fn results_that_do_not_fit_are_left_to_be_read(lab: &mut Lab) {
    lab.settings.limits.payload_bytes = 100;
    lab.settings.limits.batch_bytes = 150;
    let graph = lab.plant(race(After::all(["a", "b", "c"]).bind_all()));
    for name in ["a", "b", "c"] {
        lab.complete_with(graph[name], &name.repeat(70));
    }
    let lease = lab.take(graph["t"]);
    let left_out: Vec<_> = lease.bound.values().map(|bound| bound.left_out).collect();
    assert_eq!(left_out, [false, false, true]);
    let full = lab.see(result_of(lease.bound["c"].execution)).result;
    assert_eq!(full, Some(Payload::bytes("c".repeat(70))));
}

pub fn a_member_failure_may_cancel_the_rest(lab: &mut Lab) {
    let nodes = [node("a"), node("b"), waits("c", After::all(["b"]))];
    let graph = lab.plant(flow(nodes).cancel_rest_on_failure());
    let running = lab.take(graph["b"]);
    lab.fail(graph["a"]);
    assert_eq!(lab.states(graph.id), "a:failed b:cancelled c:cancelled");
    assert_eq!(lab.lost(complete(&running)), LeaseLost::Cancelled);
    assert_eq!(lab.end(graph["c"]).reason, EndReason::MemberFailed);
    let view = lab.recount(graph.id);
    assert_eq!(view.status, FlowStatus::Failed);
    let closing = view.closing.expect("it was closed");
    assert_eq!(closing.cause, ClosingCause::MemberFailure);
    assert_eq!(closing.extent, Extent { stopped: 2, running: 0, finished: 1 });
    assert_eq!(lab.refused(CancelFlow::new(graph.id)).code(), Code::AlreadyTerminal);
}

pub fn a_handled_failure_does_not_cancel_the_rest(lab: &mut Lab) {
    let nodes = [node("a"), node("b"), waits("heals", After::all([Upstream::new("a").failure()]))];
    let graph = lab.plant(flow(nodes).cancel_rest_on_failure());
    lab.fail(graph["a"]);
    assert_eq!(lab.states(graph.id), "a:failed b:waiting heals:waiting");
    lab.complete(graph["b"]);
    lab.complete(graph["heals"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed);
}

pub fn every_way_to_end_reaches_those_who_wait(lab: &mut Lab) {
    type Act = fn(&mut Lab, ExecutionId);
    let cases: [(&str, Status, Act); 9] = [
        ("complete", Status::Completed, |lab, id| lab.complete(id)),
        ("fail", Status::Failed, |lab, id| lab.fail(id)),
        ("cancel", Status::Cancelled, |lab, id| lab.run(Cancel::new(id))),
        ("acknowledge", Status::Cancelled, |lab, id| {
            let lease = lab.take(id);
            lab.ok(Cancel::new(id));
            lab.ok(acknowledge(&lease));
        }),
        ("grace", Status::Cancelled, |lab, id| {
            lab.take(id);
            lab.ok(Cancel { grace: secs(5), ..Cancel::new(id) });
            lab.advance(secs(5));
        }),
        ("deadline", Status::Expired, |lab, _| lab.advance(hours(1))),
        ("timeout", Status::Failed, |lab, id| {
            lab.take(id);
            lab.advance(secs(10));
        }),
        ("reclaims", Status::Failed, |lab, id| {
            let claim = ClaimExecution { lease_ttl: secs(2), ..by_id(id, "w") };
            lab.ok(claim);
            lab.advance(secs(2));
        }),
        ("claimed too late", Status::Expired, |lab, _| {
            lab.pass(hours(1));
            // The same claim gets what the end has unblocked.
            for unblocked in lab.claims(up_to(10)) {
                lab.ok(release(&unblocked));
            }
        }),
    ];
    for (how, status, act) in cases {
        let own = policy(json!({
            "deadline_ms": 3_600_000,
            "attempt_timeout_ms": 10_000,
            "max_reclaims": 0,
            "retry": { "max_retries": 0 },
        }));
        let nodes = [
            NewNode::new("a", work().policy(own)),
            waits("good", After::all(["a"])),
            waits("bad", After::all([Upstream::new("a").failure()])),
        ];
        let graph = lab.plant(flow(nodes));
        act(lab, graph["a"]);
        assert_eq!(lab.status(graph["a"]), status, "{how}");
        let succeeded = status == Status::Completed;
        let expected = |runs: bool| if runs { Status::Waiting } else { Status::Skipped };
        assert_eq!(lab.status(graph["good"]), expected(succeeded), "{how}");
        assert_eq!(lab.status(graph["bad"]), expected(!succeeded), "{how}");
        lab.complete(graph[if succeeded { "good" } else { "bad" }]);
        assert_eq!(lab.recount(graph.id).status, FlowStatus::Completed, "{how}");
    }
}

pub fn what_ends_together_in_time_ends_once(lab: &mut Lab) {
    let due = lab.now() + secs(10);
    let late = |name: &str| NewNode::new(name, work().deadline_at(due));
    let nodes =
        [late("a"), late("b"), late("c"), waits("t", After::all(["a", "b", "c"]).cancel_rest())];
    let graph = lab.plant(flow(nodes));
    lab.take(graph["c"]);
    lab.advance(secs(10));
    assert_eq!(lab.states(graph.id), "a:expired b:cancelled c:cancelled t:skipped");
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed);
}

pub fn a_claim_that_ends_one_does_not_take_what_ended_with_it(lab: &mut Lab) {
    let nodes = [
        NewNode::new("a", work().deadline_at(lab.now() + secs(10))),
        node("b"),
        waits("t", After::all(["a", "b"]).cancel_rest()),
    ];
    let graph = lab.plant(flow(nodes));
    lab.pass(secs(10));
    assert!(lab.ok(up_to(10)).is_empty());
    assert_eq!(lab.states(graph.id), "a:expired b:cancelled t:skipped");
    lab.recount(graph.id);
}

pub fn a_skip_reaches_a_thousand_levels_down(lab: &mut Lab) {
    let names: Vec<_> = (0..1000).map(|n| format!("n{n:04}")).collect();
    let last = waits("last", After::all([Upstream::new("n0999").done()]));
    let graph = lab.plant(chain(&names).node(last));
    lab.fail(graph["n0000"]);
    let view = lab.recount(graph.id);
    assert!(view.settling, "a thousand levels do not fit into one transaction");
    assert_eq!(view.status, FlowStatus::Open);
    assert_eq!(lab.status(graph["n0001"]), Status::Skipped);
    assert_eq!(lab.status(graph["last"]), Status::WaitingChildren);
    lab.reopen();
    lab.settle();
    assert_eq!(lab.recount(graph.id).counts.skipped, 999);
    lab.complete(graph["last"]);
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed);
    let events = EventFilter { kinds: vec![EventKind::Skipped], ..about_flow(graph.id) };
    let order: Vec<_> = lab.events(events).iter().filter_map(|event| event.execution).collect();
    let expected: Vec<_> = names[1..].iter().map(|name| graph[name.as_str()]).collect();
    assert_eq!(order, expected, "level by level");
}

pub fn a_skip_reaches_ten_thousand_at_once(lab: &mut Lab) {
    let below = (1..10_000).map(|n| waits(&format!("n{n:04}"), After::all(["root"])));
    let graph = lab.plant(flow([node("root")].into_iter().chain(below)));
    lab.fail(graph["root"]);
    assert!(lab.recount(graph.id).settling);
    lab.settle();
    let view = lab.recount(graph.id);
    assert_eq!((view.status, view.counts.skipped), (FlowStatus::Failed, 9999));
}

pub fn while_a_flow_settles_its_graph_does_not_change(lab: &mut Lab) {
    let names: Vec<_> = (0..50).map(|n| format!("n{n:02}")).collect();
    let graph = lab.plant(chain(&names).node(node("other")));
    lab.fail(graph["n00"]);
    let revision = lab.flow(graph.id).revision;
    let error = lab.refused(ExtendFlow { nodes: vec![node("x")], ..extend(graph.id, revision) });
    assert_eq!(error.code(), Code::Unavailable);
    let error = lab.refused(replay_flow(graph.id, ["n00"]));
    assert_eq!(error.code(), Code::Unavailable);
    lab.complete(graph["other"]);
    assert_eq!(lab.flow(graph.id).status, FlowStatus::Open);
    lab.settle();
    assert_eq!(lab.recount(graph.id).status, FlowStatus::Failed);
}

pub fn a_wide_fan_is_released_whole(lab: &mut Lab) {
    let below = (0..1500).map(|n| waits(&format!("n{n:04}"), After::all(["root"])));
    let graph = lab.plant(flow([node("root")].into_iter().chain(below)));
    lab.complete(graph["root"]);
    lab.settle();
    assert_eq!(lab.claims(up_to(1000)).len() + lab.claims(up_to(1000)).len(), 1500);
    lab.recount(graph.id);
}
