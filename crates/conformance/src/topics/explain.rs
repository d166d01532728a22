//! Why an execution is where it is, in words.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

#[track_caller]
fn says(lab: &mut Lab, id: ExecutionId, words: &[&str]) {
    let text = lab.explain(id);
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[track_caller]
fn blocked_by(lab: &mut Lab, id: ExecutionId) -> Vec<String> {
    lab.see(Explain { namespace: ns(), execution: id }).blocked_by
}

pub fn every_state_is_explained(lab: &mut Lab) {
    for status in STATES {
        let id = lab.bring(status, work());
        let explained = lab.see(Explain { namespace: ns(), execution: id });
        assert_eq!(explained.status, status);
        assert_eq!(explained.due_at, lab.get(id).due_at);
        assert!(explained.summary.ends_with('.'), "{}", explained.summary);
        let blocked_by = match status {
            Status::Suspended => names(["It waits for an operator."]),
            Status::RateLimited => names([
                "Of `tokens` in the budget `nothing`, 0 of 0 are spent and 0 put by; raise or reset it.",
            ]),
            _ => names([]),
        };
        assert_eq!(explained.blocked_by, blocked_by, "{status}");
    }
}

pub fn waiting_work_tells_lane_priority_and_since_when(lab: &mut Lab) {
    let id = lab.submit(work().lane("mail").priority(77));
    lab.pass(secs(42));
    says(lab, id, &["`mail`", "77", "42 s", "attempt 1"]);
}

pub fn a_hold_a_pause_and_a_full_lane_are_named(lab: &mut Lab) {
    lab.ok(cap("default", 1));
    lab.lease(work());
    let id = lab.submit(work().hold());
    lab.ok(pause("default"));
    let why = blocked_by(lab, id);
    assert_eq!(why.len(), 3);
    says(lab, id, &["held", "`default` is paused", "as many as it may"]);
    lab.ok(unhold(id));
    lab.ok(resume("default"));
    lab.ok(put_lane("default", Defaults::default()));
    assert_eq!(blocked_by(lab, id), names([]));
}

pub fn held_work_that_sleeps_says_both(lab: &mut Lab) {
    let id = lab.submit(work().hold().delay(secs(90)));
    says(lab, id, &["start", "90 s", "held"]);
}

pub fn a_lack_of_workers_that_serve_it_is_named(lab: &mut Lab) {
    let id = lab.submit(NewExecution::new("render").capability("gpu"));
    assert_eq!(blocked_by(lab, id), names([]));
    lab.ok(RegisterWorker::new("pool", "plain"));
    says(lab, id, &["None of the 1 registered workers", "`render`", "gpu"]);
    let able =
        RegisterWorker { capabilities: names(["gpu"]), ..RegisterWorker::new("pool", "able") };
    lab.ok(RegisterWorker { lanes: names(["other"]), ..able.clone() });
    assert_eq!(blocked_by(lab, id).len(), 1);
    lab.ok(able);
    assert_eq!(blocked_by(lab, id), names([]));
}

pub fn a_retry_a_sleep_and_a_start_are_told_apart(lab: &mut Lab) {
    let start = lab.submit(work().delay(secs(5)));
    says(lab, start, &["submitted to start"]);
    let slept = lab.lease(work());
    lab.ok(delay(&slept, secs(5)));
    says(lab, slept.id(), &["Its worker asked to go on"]);
    let failed = lab.lease(work().policy(policy(json!({ "retry": { "max_retries": 7 } }))));
    lab.ok(retry_after(&failed, secs(5)));
    says(lab, failed.id(), &["Attempt 1 failed", "retry 1 of 7"]);
    let lost = lab.submit(work());
    for _ in 0..2 {
        lab.take(lost);
        lab.advance(secs(30));
    }
    says(lab, lost, &["lost its worker 2 times"]);
}

pub fn running_work_tells_who_has_it_and_whether_it_should_stop(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.pass(secs(3));
    says(lab, lease.id(), &["Attempt 1", "3 s", "`w`", &lease.expires_at.to_string()]);
    lab.ok(Cancel { by: "ann".into(), ..Cancel::new(lease.id()) });
    says(lab, lease.id(), &["`ann` asked it to stop"]);
}

pub fn ended_work_tells_how_by_whom_and_why(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(fail(&lease, Failure::permanent("no such host")));
    says(lab, lease.id(), &["failed", "`w`", "permanent", "no such host"]);
}
