//! Every bad input is refused, says where and why, and changes nothing.

use std::time::Duration;

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

const CENTURY: Duration = days(36_500);

#[track_caller]
fn refuses(lab: &mut Lab, command: impl Command, code: Code, field: &str, words: &[&str]) {
    let error = lab.refused(command);
    assert_eq!((error.code(), error.field()), (code, Some(field)), "{error}");
    for word in words {
        assert!(error.message().contains(word), "`{word}` is not in: {error}");
    }
    assert!(!error.is_retryable());
}

#[track_caller]
fn invalid(lab: &mut Lab, command: impl Command, field: &str, words: &[&str]) {
    refuses(lab, command, Code::InvalidInput, field, words);
}

#[track_caller]
fn too_large(lab: &mut Lab, command: impl Command, field: &str, words: &[&str]) {
    refuses(lab, command, Code::TooLarge, field, words);
}

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

fn many(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n}")).collect()
}

/// Some of everything, so that there is something a refused command could change.
fn populated(lab: &mut Lab) -> Leased {
    for status in STATES {
        lab.bring(status, work().tag("a", "b").key(status.as_str()));
    }
    lab.ok(RegisterWorker::new("pool", "i"));
    lab.lease(work())
}

pub fn names_are_checked_wherever_they_occur(lab: &mut Lab) {
    let lease = populated(lab);
    let id = lease.id();
    for bad in ["", "two words", "-dash", ".dot", "a/b", "ü", "tab\t", "nul\0", &long(129)] {
        let bad = || bad.to_owned();
        let namespace = Submit { namespace: bad(), ..submit([work()]) };
        invalid(lab, namespace, "namespace", &["128"]);
        invalid(lab, submit([NewExecution::new(bad())]), "executions[0].kind", &["128"]);
        invalid(lab, submit([work().lane(bad())]), "executions[0].lane", &["128"]);
        invalid(lab, submit([work().tag(bad(), "")]), "executions[0].tags", &["128"]);
        invalid(lab, submit([work().created_by(bad())]), "executions[0].created_by", &["128"]);
        let capability = submit([work().capability(bad())]);
        invalid(lab, capability, "executions[0].capabilities", &["128"]);
        invalid(lab, Claim::new(bad()), "worker", &["128"]);
        let claim = || Claim::new("w");
        invalid(lab, Claim { lanes: vec![bad()], ..claim() }, "lanes", &["128"]);
        invalid(lab, Claim { kinds: vec![bad()], ..claim() }, "kinds", &["128"]);
        invalid(lab, Claim { capabilities: vec![bad()], ..claim() }, "capabilities", &["128"]);
        invalid(lab, Claim { namespace: bad(), ..claim() }, "namespace", &["128"]);
        invalid(lab, by_id(id, &bad()), "worker", &["128"]);
        invalid(lab, Cancel { by: bad(), ..Cancel::new(id) }, "by", &["128"]);
        invalid(lab, RevokeLease { by: bad(), ..RevokeLease::new(id) }, "by", &["128"]);
        let category = Failure { category: Some(bad()), ..Failure::transient("x") };
        invalid(lab, fail(&lease, category), "failure.category", &["128"]);
        invalid(lab, set_tags(id, [(&bad(), Some("x"))]), "tags", &["128"]);
        invalid(lab, cap(&bad(), 1), "lane", &["128"]);
        invalid(lab, PutLane { namespace: bad(), ..cap("x", 1) }, "namespace", &["128"]);
        let put = PutNamespace { namespace: bad(), defaults: Defaults::default() };
        invalid(lab, put, "namespace", &["128"]);
        let worker = || RegisterWorker::new("pool", "new");
        invalid(lab, RegisterWorker { instance: bad(), ..worker() }, "instance", &["128"]);
        invalid(lab, RegisterWorker { name: bad(), ..worker() }, "name", &["128"]);
        invalid(lab, RegisterWorker { lanes: vec![bad()], ..worker() }, "lanes", &["128"]);
        invalid(lab, RegisterWorker { namespace: bad(), ..worker() }, "namespace", &["128"]);
    }
}

pub fn what_nothing_can_be_called_is_not_found(lab: &mut Lab) {
    let known = lab.submit(work().tag("a", "b"));
    let nothing = "\0".to_owned();
    let elsewhere = Cancel { namespace: nothing.clone(), ..force_cancel(known) };
    let pause = PauseLane { namespace: ns(), lane: nothing.clone() };
    let dead = MarkWorkerDead { namespace: ns(), instance: nothing.clone(), reason: None };
    // They share a transaction with someone who must not notice.
    let (mut cancel, mut pause, mut dead) = (lab.call(elsewhere), lab.call(pause), lab.call(dead));
    let mut innocent = lab.call(submit([work()]));
    lab.batch(&mut [&mut cancel, &mut pause, &mut dead, &mut innocent]);
    assert_eq!(cancel.into_answer().unwrap_err().code(), Code::NotFound);
    assert_eq!(pause.into_answer().unwrap_err().code(), Code::NotFound);
    assert_eq!(dead.into_answer().unwrap(), MarkedDead::NotRegistered);
    assert!(innocent.into_answer().is_ok());

    let get = GetExecution { namespace: nothing.clone(), execution: known };
    assert_eq!(lab.ask(get).unwrap_err().code(), Code::NotFound);
    let all = ListExecutions::default();
    for list in [
        ListExecutions { lane: Some(nothing.clone()), ..all.clone() },
        ListExecutions { worker: Some(nothing.clone()), ..all.clone() },
        ListExecutions { created_by: Some(nothing.clone()), ..all.clone() },
        ListExecutions { text: Some(nothing.clone()), ..all.clone() },
        ListExecutions { tags: tags([("a", "\0")]), ..all.clone() },
        ListExecutions { tags: tags([("\0", "b")]), ..all },
    ] {
        assert_eq!(lab.see(list).executions, []);
    }
    let after = ListNamespaces { after: Some(nothing), limit: 10 };
    assert_eq!(lab.see(after).namespaces.len(), 1, "it comes before every name");
}

pub fn payloads_are_limited(lab: &mut Lab) {
    let lease = populated(lab);
    let huge = || Payload::bytes(vec![0; 2 << 20]);
    let sizes = ["2097152", "1048576"];
    too_large(lab, submit([work().input(huge())]), "executions[0].input", &sizes);
    too_large(lab, Complete { result: huge(), ..complete(&lease) }, "result", &sizes);
    let detail = Failure { detail: Some(long(2 << 20).into()), ..Failure::transient("x") };
    too_large(lab, fail(&lease, detail), "failure.detail", &["1048576"]);
    let typed = |content_type: String| Payload { content_type: content_type.into(), bytes: vec![] };
    let typeless = submit([work().input(typed(String::new()))]);
    invalid(lab, typeless, "executions[0].input", &["content type"]);
    let wordy = submit([work().input(typed(long(129)))]);
    too_large(lab, wordy, "executions[0].input", &["129", "128"]);
    let broken = submit([work().input(typed("text/\n".into()))]);
    invalid(lab, broken, "executions[0].input", &["control"]);
}

pub fn the_limit_on_payloads_can_be_set(lab: &mut Lab) {
    lab.settings.limits = Limits { payload_bytes: 10, batch_bytes: 25 };
    let of = |bytes| work().input(Payload::bytes(vec![0; bytes]));
    too_large(lab, submit([of(11)]), "executions[0].input", &["11", "10"]);
    too_large(lab, submit([of(10), of(10), of(10)]), "executions", &["30", "25"]);
    lab.submit_all([of(10), of(10), of(5)]);
}

pub fn batches_are_limited(lab: &mut Lab) {
    let lease = populated(lab);
    invalid(lab, submit([]), "executions", &["0", "1000"]);
    invalid(lab, submit((0..1001).map(|_| work())), "executions", &["1001", "1000"]);
    let renewing = |count| Renew { leases: vec![lease.lease.clone(); count], ..renew(&lease) };
    invalid(lab, renewing(0), "leases", &["0", "1000"]);
    invalid(lab, renewing(1001), "leases", &["1001", "1000"]);
    invalid(lab, up_to(0), "max", &["0", "1000"]);
    invalid(lab, up_to(1001), "max", &["1001", "1000"]);
}

pub fn priorities_are_limited(lab: &mut Lab) {
    let id = populated(lab).id();
    for bad in [-1, 9001, i32::MAX, i32::MIN] {
        let value = bad.to_string();
        let words = ["9000", value.as_str()];
        invalid(lab, submit([work().priority(bad)]), "executions[0].priority", &words);
        invalid(lab, prioritise(id, bad), "priority", &words);
        let defaults = || Defaults { priority: Some(bad), ..Defaults::default() };
        invalid(lab, put_lane("default", defaults()), "defaults.priority", &words);
        let put = PutNamespace { namespace: ns(), defaults: defaults() };
        invalid(lab, put, "defaults.priority", &words);
    }
}

pub fn leases_grants_and_waits_are_limited(lab: &mut Lab) {
    let lease = populated(lab);
    let waiting = lab.submit(work());
    let waiting_grant = lab.reserve(waiting);
    for (bad, value) in [(secs(0), "0"), (ms(999), "999"), (secs(3601), "3601000")] {
        let words = ["1000", "3600000", value];
        invalid(lab, Claim { lease_ttl: bad, ..up_to(1) }, "lease_ttl_ms", &words);
        let by_id = ClaimExecution { lease_ttl: bad, ..by_id(waiting, "w") };
        invalid(lab, by_id, "lease_ttl_ms", &words);
        let redeem = RedeemGrant { lease_ttl: bad, ..redeem(&waiting_grant) };
        invalid(lab, redeem, "lease_ttl_ms", &words);
        invalid(lab, Renew { ttl: Some(bad), ..renew(&lease) }, "lease_ttl_ms", &words);
        let worker = RegisterWorker { ttl: bad, ..RegisterWorker::new("pool", "i") };
        invalid(lab, worker, "ttl_ms", &words);
    }
    for (bad, value) in [(secs(0), "0"), (ms(60_001), "60001")] {
        let words = ["60000", value];
        invalid(lab, Claim { reserve: Some(bad), ..up_to(1) }, "reserve_ms", &words);
        let by_id = ClaimExecution { reserve: Some(bad), ..by_id(waiting, "w") };
        invalid(lab, by_id, "reserve_ms", &words);
    }
    invalid(lab, Claim { wait: ms(60_001), ..up_to(1) }, "wait_ms", &["60000", "60001"]);
}

pub fn durations_are_limited(lab: &mut Lab) {
    let lease = populated(lab);
    invalid(lab, submit([work().delay(CENTURY)]), "executions[0].delay_ms", &["not"]);
    let both = submit([work().delay(secs(1)).start_at(lab.now())]);
    invalid(lab, both, "executions[0].delay_ms", &["start_at"]);
    invalid(lab, retry_after(&lease, CENTURY), "retry_after_ms", &["not"]);
    invalid(lab, delay(&lease, CENTURY), "for_ms", &["not"]);
    invalid(lab, Cancel { grace: CENTURY, ..Cancel::new(lease.id()) }, "grace_ms", &["not"]);
}

pub fn keys_are_limited(lab: &mut Lab) {
    populated(lab);
    let field = "executions[0].key";
    invalid(lab, submit([work().key("")]), field, &["empty"]);
    too_large(lab, submit([work().key(long(257))]), field, &["257", "256"]);
    invalid(lab, submit([work().key("a\u{7f}")]), field, &["control"]);
}

pub fn tags_are_limited(lab: &mut Lab) {
    let id = populated(lab).id();
    let with = |count: usize| (0..count).fold(work(), |new, n| new.tag(format!("t{n}"), ""));
    invalid(lab, submit([with(65)]), "executions[0].tags", &["65", "64"]);
    let wordy = submit([work().tag("a", long(1025))]);
    too_large(lab, wordy, "executions[0].tags", &["1025", "1024"]);
    too_large(lab, set_tags(id, [("a", Some(&long(1025)))]), "tags", &["1025", "1024"]);
    let tags = (0..65).map(|n| (format!("t{n}"), Some(String::new()))).collect();
    invalid(lab, SetTags { namespace: ns(), execution: id, tags }, "tags", &["65", "64"]);
}

pub fn capabilities_are_limited(lab: &mut Lab) {
    populated(lab);
    let requiring = |capabilities| submit([NewExecution { capabilities, ..work() }]);
    let field = "executions[0].capabilities";
    invalid(lab, requiring(many(257)), field, &["257", "256"]);
    let wide: Vec<_> = (0..33).map(|n| format!("{n:0>128}")).collect();
    too_large(lab, requiring(wide.clone()), field, &["4224", "4096"]);
    invalid(lab, Claim { capabilities: many(257), ..up_to(1) }, "capabilities", &["257", "256"]);
    let worker = RegisterWorker { capabilities: wide, ..RegisterWorker::new("pool", "i") };
    too_large(lab, worker, "capabilities", &["4224", "4096"]);
    invalid(lab, Claim { lanes: many(257), ..up_to(1) }, "lanes", &["257", "256"]);
    invalid(lab, Claim { kinds: many(257), ..up_to(1) }, "kinds", &["257", "256"]);
}

pub fn reasons_and_messages_are_limited(lab: &mut Lab) {
    let lease = populated(lab);
    let id = lease.id();
    let bad =
        [(Code::TooLarge, long(1025), "1025"), (Code::InvalidInput, "a\nb".into(), "control")];
    for (code, text, word) in bad {
        let words = [word];
        let reason = || Some(text.clone());
        refuses(lab, Cancel { reason: reason(), ..Cancel::new(id) }, code, "reason", &words);
        let revoke = RevokeLease { reason: reason(), ..RevokeLease::new(id) };
        refuses(lab, revoke, code, "reason", &words);
        refuses(lab, Release { reason: reason(), ..release(&lease) }, code, "reason", &words);
        let stop = AcknowledgeCancel { reason: reason(), ..acknowledge(&lease) };
        refuses(lab, stop, code, "reason", &words);
        let report = ReportProgress { message: reason(), ..progress(&lease) };
        refuses(lab, report, code, "message", &words);
        let message = text.clone();
        let broken = fail(&lease, Failure { message, ..Failure::transient("") });
        refuses(lab, broken, code, "failure.message", &words);
        let dead = MarkWorkerDead { reason: reason(), ..mark_dead("i") };
        refuses(lab, dead, code, "reason", &words);
    }
}

pub fn percentages_are_limited(lab: &mut Lab) {
    let lease = populated(lab);
    for bad in [101, 255] {
        let report = ReportProgress { percent: Some(bad), ..progress(&lease) };
        invalid(lab, report, "percent", &["100", &bad.to_string()]);
    }
}

pub fn policies_are_checked_wherever_they_are_set(lab: &mut Lab) {
    populated(lab);
    let backoff = |json| json!({ "retry": { "backoff": json } });
    let exponential = |initial: u64, factor: f64, max: u64| {
        let kind = "exponential";
        backoff(json!({ "type": kind, "initial_ms": initial, "factor": factor, "max_ms": max }))
    };
    let fixed = backoff(json!({ "type": "fixed", "delay_ms": 4_000_000_000_000_u64 }));
    let bad = [
        (json!({ "retry": { "max_retries": 10_001 } }), "retry.max_retries", "10001"),
        (fixed, "retry.backoff.delay_ms", "4000000000000"),
        (exponential(1, 0.5, 10), "retry.backoff.factor", "0.5"),
        (exponential(1, 101.0, 10), "retry.backoff.factor", "101"),
        (exponential(20, 2.0, 10), "retry.backoff.max_ms", "10"),
        (
            json!({ "retry": { "retry_on": { "classes": ["permanent"] } } }),
            "retry.retry_on",
            "never",
        ),
        (
            json!({ "retry": { "retry_on": { "categories": ["a b"] } } }),
            "retry.retry_on.categories",
            "a b",
        ),
        (json!({ "attempt_timeout_ms": 999 }), "attempt_timeout_ms", "999"),
        (json!({ "deadline_ms": 0 }), "deadline_ms", "0"),
        (json!({ "retention_ms": 4_000_000_000_000_u64 }), "retention_ms", "4000000000000"),
        (json!({ "key_window_ms": 4_000_000_000_000_u64 }), "key_window_ms", "4000000000000"),
        (json!({ "suspension": { "timeout_ms": 0 } }), "suspension.timeout_ms", "0"),
        (json!({ "fallbacks": vec![json!({}); 17] }), "fallbacks", "17"),
        (json!({ "fallbacks": [{ "model": "a\nb" }] }), "fallbacks", "control"),
    ];
    for (json, field, word) in bad {
        let new = work().policy(policy(json.clone()));
        invalid(lab, submit([new]), &format!("executions[0].policy.{field}"), &[word]);
        let lane = put_lane("default", defaults(json.clone()));
        invalid(lab, lane, &format!("defaults.policy.{field}"), &[word]);
        let put = PutNamespace { namespace: ns(), defaults: defaults(json) };
        invalid(lab, put, &format!("defaults.policy.{field}"), &[word]);
    }
}

pub fn a_lane_that_may_own_nothing_is_refused(lab: &mut Lab) {
    populated(lab);
    invalid(lab, cap("default", 0), "max_active", &["pause"]);
}

pub fn pages_are_limited(lab: &mut Lab) {
    let id = populated(lab).id();
    for limit in [0, 1001] {
        let errors = [
            lab.ask(ListExecutions { limit, ..ListExecutions::default() }).unwrap_err(),
            lab.ask(ListAttempts { limit, ..attempts(id) }).unwrap_err(),
            lab.ask(ListLanes { limit, ..lanes() }).unwrap_err(),
            lab.ask(ListNamespaces { after: None, limit }).unwrap_err(),
            lab.ask(ListWorkers { limit, ..workers() }).unwrap_err(),
            lab.ask(ListExpiredLeases { limit, ..expired_leases() }).unwrap_err(),
            lab.ask(ReadEvents { limit, ..ReadEvents::default() }).unwrap_err(),
        ];
        for error in errors {
            assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("limit")));
            assert!(error.message().contains(&limit.to_string()), "{error}");
        }
    }
}

pub fn what_is_just_within_its_limit_is_accepted(lab: &mut Lab) {
    let name = long(128);
    let full = (0..64).fold(work(), |new, n| new.tag(format!("t{n}"), long(1024)));
    let biggest = Payload::bytes(vec![7; 1 << 20]);
    let id = lab.submit(
        NewExecution { kind: "9.a_b:c@d-e".into(), ..full }
            .lane(name.clone())
            .key(long(256))
            .priority(9000)
            .input(biggest.clone()),
    );
    assert_eq!(lab.see(input_of(id)), biggest);
    lab.submit(work().priority(0));
    lab.submit_all((0..1000).map(|_| work().lane("many")));
    assert_eq!(lab.claims(from_lanes(["many"])).len(), 1000);
    let claim = Claim { lease_ttl: secs(1), ..from_lanes([name.as_str()]) };
    let lease = lab.claims(claim).remove(0);
    lab.ok(Renew { ttl: Some(secs(3600)), ..renew(&lease) });
    for percent in [0, 100] {
        let message = Some(long(1024));
        lab.ok(ReportProgress { percent: Some(percent), message, ..progress(&lease) });
    }
    lab.ok(Complete { result: biggest.clone(), ..complete(&lease) });
    assert_eq!(lab.see(result_of(id)).result, Some(biggest));
}
