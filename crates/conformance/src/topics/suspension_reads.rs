//! What others see and do while an execution waits.

use everloom_core::*;
use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

const RESUMED: Effect = Effect::Resumed { status: Status::Resumable };

pub fn a_held_execution_waits_on_and_is_not_claimed_when_resumed(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::at("door"));
    assert_eq!(lab.ok(hold(id)), HoldOutcome::Done);
    let view = lab.get(id);
    assert_eq!((view.status, view.held), (Status::Suspended, true));
    assert_eq!(lab.deliver(signal_at(id, "door", "go")), RESUMED);
    assert!(lab.nothing_to_claim() && lab.get(id).held);
    lab.ok(unhold(id));
    assert!(lab.claim("w").resumed);
    let (other, _) = lab.suspended(Condition::at("door"));
    lab.ok(hold(other));
    lab.ok(unhold(other));
    assert_eq!(lab.deliver(signal_at(other, "door", "go")), RESUMED);
    assert_eq!(lab.claim("w").id(), other);
}

pub fn time_passes_for_a_held_execution_that_waits(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.suspend(Suspend { timeout: Some(secs(5)), ..suspend(&lease, Condition::at("door")) });
    lab.ok(hold(lease.id()));
    lab.advance(secs(5));
    let view = lab.get(lease.id());
    assert_eq!((view.status, view.held), (Status::Failed, false));
}

pub fn a_priority_changed_meanwhile_counts(lab: &mut Lab) {
    let ids = [(); 3].map(|()| lab.suspended(Condition::at("door")).0);
    lab.ok(prioritise(ids[2], 9000));
    for id in ids {
        lab.ok(signal_at(id, "door", "go"));
    }
    assert_eq!(lab.claimed_ids(up_to(3)), [ids[2], ids[0], ids[1]]);
}

pub fn a_paused_lane_takes_back_what_is_resumed_and_keeps_it(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::at("door"));
    lab.ok(pause("default"));
    assert_eq!(lab.deliver(signal_at(id, "door", "go")), RESUMED);
    assert!(lab.nothing_to_claim());
    lab.ok(resume("default"));
    assert!(lab.claim("w").resumed);
    let (id, _) = lab.suspended(Condition::at("door"));
    lab.ok(drain("default"));
    lab.ok(signal_at(id, "door", "go"));
    assert_eq!(lab.claim("w").id(), id, "a draining lane lets go what it has");
}

pub fn a_full_lane_keeps_what_is_resumed(lab: &mut Lab) {
    lab.ok(cap("default", 1));
    let (id, _) = lab.suspended(Condition::at("door"));
    let other = lab.lease(work());
    lab.ok(signal_at(id, "door", "go"));
    assert!(lab.nothing_to_claim());
    lab.ok(complete(&other));
    assert_eq!(lab.claim("w").id(), id);
    assert_eq!(lab.lane("default").free, Some(0));
}

pub fn the_death_of_its_worker_does_not_touch_what_waits(lab: &mut Lab) {
    lab.ok(RegisterWorker::new("pool", "w"));
    let (id, _) = lab.suspended(Condition::at("door"));
    lab.pass(ms(1));
    let before = lab.get(id);
    lab.ok(RegisterWorker::new("pool", "w"));
    lab.ok(mark_dead("w"));
    lab.ok(RegisterWorker::new("pool", "w"));
    lab.advance(hours(1));
    let revoked = lab.ok(RevokeLease::new(id));
    let why = NothingToRevoke::NotOwned { status: Status::Suspended };
    assert_eq!(revoked, RevokeOutcome::NothingToRevoke { why });
    assert_eq!(lab.get(id), before);
    assert_eq!(lab.deliver(signal_at(id, "door", "go")), RESUMED);
}

pub fn what_waits_is_explained_in_words(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    let keys = ["finance", "legal", "ops"];
    let call = Suspend {
        reason: SuspendReason::WaitingForCallback,
        note: Some("invoice 7".into()),
        timeout: Some(hours(3)),
        ..suspend(&lease, Condition::count(2, Distinct::Waitpoints, keys))
    };
    lab.suspend(call);
    lab.ok(signal_at(id, "legal", "x"));
    lab.pass(secs(90));
    let said = lab.see(Explain { namespace: ns(), execution: id });
    for word in ["Suspended for 90 s", "waiting_for_callback", "in 2 h"] {
        assert!(said.summary.contains(word), "`{word}` is not in: {}", said.summary);
    }
    assert_eq!(
        said.blocked_by,
        ["It waits for 1 of 2 waitpoints: waiting for finance, ops.", "Its worker says: invoice 7",]
    );
    assert_eq!(said.due_at, Some(lab.now() + hours(3).saturating_sub(secs(90))));
    lab.ok(signal_at(id, "ops", "x"));
    assert!(lab.explain(id).contains("go on with attempt 1"), "{}", lab.explain(id));
}

pub fn what_waits_is_listed_and_counted_as_such(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::at("door"));
    lab.submit(work());
    let listed = ListExecutions { statuses: vec![Status::Suspended], ..ListExecutions::default() };
    let found: Vec<_> = lab.list(listed.clone()).iter().map(|view| view.id).collect();
    assert_eq!(found, [id]);
    let counts = lab.counts();
    assert_eq!((counts.of(Status::Suspended), counts.open(), counts.total()), (1, 2, 2));
    let lane = lab.lane("default");
    assert_eq!(lane.depth, 1, "what waits is no work for anyone");
    lab.ok(signal_at(id, "door", "go"));
    assert_eq!(lab.list(listed), []);
    assert_eq!(lab.lane("default").depth, 2);
}

pub fn the_vector_tells_why_it_waits(lab: &mut Lab) {
    use SuspendReason::*;
    for (reason, blocking) in [
        (WaitingForSignal, Blocking::WaitingForSignal),
        (WaitingForApproval, Blocking::WaitingForApproval),
        (WaitingForCallback, Blocking::WaitingForCallback),
        (WaitingForToolResult, Blocking::WaitingForToolResult),
        (WaitingForOperatorReview, Blocking::PausedByOperator),
        (PausedByPolicy, Blocking::PausedByPolicy),
        (PausedByBudget, Blocking::WaitingForBudget),
        (StepBoundary, Blocking::WaitingForSignal),
        (ManualPause, Blocking::PausedByOperator),
    ] {
        let lease = lab.lease(work());
        lab.suspend(Suspend { reason, ..suspend(&lease, Condition::Operator) });
        let axes = lab.get(lease.id()).axes;
        assert_eq!((axes.lifecycle_phase, axes.blocking_reason), (Phase::Suspended, blocking));
        assert_eq!(axes.attempt_state, Attempt::AttemptInterrupted);
        assert_eq!(axes.ownership_state, Ownership::Unowned);
        assert_eq!(axes.eligibility_state, Eligibility::NotApplicable);
        assert_eq!(lab.suspensions(lease.id())[0].terms.reason, reason);
        lab.ok(Resume::new(lease.id()));
        assert_eq!(lab.get(lease.id()).axes.lifecycle_phase, Phase::Runnable);
        lab.complete(lease.id());
    }
}

pub fn each_lease_of_a_suspended_attempt_is_told_apart(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    lab.pass(secs(2));
    lab.suspend(suspend(&lease, Condition::at("door")));
    lab.pass(secs(60));
    lab.ok(signal_at(id, "door", "go"));
    let second = lab.claim("other");
    lab.ok(complete(&second));
    let attempts = lab.attempts(id);
    let told: Vec<_> = attempts
        .iter()
        .map(|one| (one.attempt, one.epoch, one.worker.as_str(), one.end.clone()))
        .collect();
    let suspended = Some(LeaseEnd::Suspended { suspension: 1 });
    let completed = Some(LeaseEnd::Completed);
    let expected =
        [(1, lease.lease.epoch, "w", suspended), (1, second.lease.epoch, "other", completed)];
    assert_eq!(told, expected);
    assert_eq!(attempts[0].ended_at, Some(attempts[0].claimed_at + secs(2)));
    assert_eq!(attempts[1].claimed_at, attempts[0].claimed_at + secs(62));
}

/// The events about an execution with some of what they say.
#[track_caller]
fn log(lab: &mut Lab, id: ExecutionId, fields: &[&str]) -> Vec<String> {
    let told = lab.events(about(id));
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let line = |event: &Event| {
        let data = event.data.clone().unwrap_or_default();
        let said = fields.iter().filter_map(|field| Some(text(data.get(field)?)));
        [event.kind.as_str().to_owned()].into_iter().chain(said).collect::<Vec<_>>().join(" ")
    };
    told.iter().map(line).collect()
}

pub fn a_wait_is_told_from_its_beginning_to_its_end(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    lab.ok(create_waitpoint(&lease, "a"));
    let both = Condition::all(["a", "b"].map(Condition::at));
    lab.suspend(suspend(&lease, both));
    lab.ok(from("ann", signal_at(id, "a", "yes")));
    lab.ok(from("bob", signal_at(id, "a", "yes")));
    lab.ok(from("cid", signal(id, "unheard")));
    let key = keyed("k", from("bob", signal_at(id, "b", "yes")));
    lab.ok(key.clone());
    lab.ok(key);
    lab.take(id);
    let fields = ["key", "why", "name", "source", "waitpoint", "effect", "suspension", "waits_for"];
    let waitpoints = lab.waitpoints(id);
    let [a, b] = [&waitpoints[0].id, &waitpoints[1].id];
    assert_eq!(
        log(lab, id, &fields),
        [
            "execution.submitted".to_owned(),
            "lease.claimed".to_owned(),
            format!("waitpoint.created a {a}"),
            format!("waitpoint.created b {b}"),
            "execution.suspended 1 all of (a signal at a; a signal at b)".to_owned(),
            "signal.delivered yes ann a recorded 1".to_owned(),
            "signal.delivered yes bob a ignored 1".to_owned(),
            "signal.delivered unheard cid null buffered null".to_owned(),
            "signal.delivered yes bob b resumed 1".to_owned(),
            "execution.resumed 1".to_owned(),
            format!("waitpoint.closed a satisfied {a}"),
            format!("waitpoint.closed b satisfied {b}"),
            "lease.claimed".to_owned(),
        ],
        "a duplicate is no event"
    );
    let events = lab.events(about(id));
    let suspended = events.iter().find(|one| one.kind == EventKind::Suspended).expect("told");
    assert_eq!(suspended.worker.as_deref(), Some("w"));
    assert_eq!(
        (suspended.attempt, suspended.epoch),
        (Some(1), Some(Epoch(lease.lease.epoch.0 + 1)))
    );
}

pub fn who_resumed_it_is_told(lab: &mut Lab) {
    let resumed = |lab: &mut Lab, id| {
        let kinds = vec![EventKind::Resumed];
        let told = lab.events(EventFilter { kinds, ..about(id) }).remove(0);
        told.data.expect("it says why")["resumed"].clone()
    };
    let (id, _) = lab.suspended(Condition::at("door"));
    let signal = lab.ok(signal_at(id, "door", "go")).signal;
    assert_eq!(resumed(lab, id), json!({ "ended_by": "signal", "signal": signal }));
    let (id, _) = lab.suspended(Condition::Operator);
    let reason = Some("by phone".to_owned());
    lab.ok(Resume { by: "ann".into(), reason, ..Resume::new(id) });
    let expected = json!({ "ended_by": "operator", "by": "ann", "reason": "by phone" });
    assert_eq!(resumed(lab, id), expected);
    let lease = lab.lease(work());
    lab.suspend(Suspend { timeout: Some(secs(1)), ..suspend(&lease, Condition::Timeout) });
    lab.advance(secs(1));
    assert_eq!(resumed(lab, lease.id()), json!({ "ended_by": "timeout" }));
}

pub fn a_wait_in_vain_is_told(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    lab.ok(create_waitpoint(&lease, "other"));
    lab.suspend(Suspend { timeout: Some(secs(1)), ..suspend(&lease, Condition::at("door")) });
    lab.advance(secs(1));
    let told = log(lab, id, &["key", "why", "reason", "by"]);
    let mut end = told[told.len() - 3..].to_vec();
    end.sort_unstable();
    let expected = [
        "execution.failed suspension_timeout clock",
        "waitpoint.closed door timed_out",
        "waitpoint.closed other ended",
    ];
    assert_eq!(end, expected);
    let lease = lab.lease(work());
    let timed = Suspend { timeout: Some(secs(1)), ..suspend(&lease, Condition::at("door")) };
    let note = Some("ask bob".into());
    lab.suspend(Suspend { on_timeout: Some(OnTimeout::Escalate), note, ..timed });
    lab.advance(secs(1));
    let told = log(lab, lease.id(), &["suspension", "waits_for", "note"]);
    let last = told.last().map(String::as_str);
    assert_eq!(last, Some("execution.escalated 1 a signal at door ask bob"));
}

pub fn the_log_tells_causes_before_effects(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(create_waitpoint(&lease, "door"));
    lab.ok(complete(&lease));
    let told = log(lab, lease.id(), &["why"]);
    assert_eq!(told[told.len() - 2..], ["execution.completed", "waitpoint.closed ended"]);
    let lease = lab.lease(work());
    lab.suspend(Suspend { timeout: Some(secs(1)), ..suspend(&lease, Condition::at("door")) });
    lab.advance(secs(1));
    let told = log(lab, lease.id(), &["why"]);
    assert_eq!(told[told.len() - 2..], ["execution.failed", "waitpoint.closed timed_out"]);
}
