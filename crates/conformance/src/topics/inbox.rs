use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

fn counts(waiting: u64, refused: u64) -> RequestCounts {
    RequestCounts { waiting, refused }
}

fn all(lab: &mut Lab) -> Vec<ExecutionView> {
    let mut all = lab.list(ListExecutions::default());
    all.reverse();
    all
}

/// Makes a lane that takes nothing new.
fn close(lab: &mut Lab, lane: &str) {
    lab.ok(put_lane(lane, Defaults::default()));
    lab.ok(drain(lane));
}

/// Applies a request that is refused and tells why.
#[track_caller]
fn refusal(lab: &mut Lab, request: NewRequest) -> Refusal {
    lab.request(request);
    assert_eq!(lab.apply_inbox(), (0, 1));
    lab.refused_requests().pop().expect("it stays").refusal
}

pub fn a_request_becomes_an_execution_and_disappears(lab: &mut Lab) {
    lab.request(request());
    assert!(lab.nothing_to_claim());
    assert_eq!(lab.apply_inbox(), (1, 0));
    assert_eq!(lab.see(CountRequests {}), counts(0, 0));
    let leased = lab.claim("w");
    assert_eq!((leased.kind.as_str(), leased.attempt), ("work", 1));
    assert_eq!(lab.apply_inbox(), (0, 0));
    assert_eq!(all(lab).len(), 1);
}

pub fn everything_the_options_say_is_kept(lab: &mut Lab) {
    lab.request(request_with(json!({
        "namespace": "shop",
        "id": id(7),
        "key": "order-7",
        "lane": "mail",
        "priority": 77,
        "capabilities": ["gpu"],
        "delay_ms": 5000,
        "hold": true,
        "tags": { "order": "7" },
        "policy": { "attempt_timeout_ms": 9000 },
        "created_by": "psql",
    })));
    assert_eq!(lab.apply_inbox(), (1, 0));
    let one = lab.see(GetExecution { namespace: "shop".into(), execution: id(7) });
    assert_eq!((one.status, one.held, one.priority), (Status::Delayed, true, 77));
    assert_eq!((one.lane.as_str(), one.key.as_deref()), ("mail", Some("order-7")));
    assert_eq!((one.tags, one.capabilities), (tags([("order", "7")]), names(["gpu"])));
    assert_eq!(one.created_by.as_deref(), Some("psql"));
    assert_eq!(one.policy.attempt_timeout, Some(secs(9)));
}

pub fn the_input_of_a_request_stays_as_it_is(lab: &mut Lab) {
    for (content_type, bytes) in
        [("image/png", &[0, 255, 7][..]), (Payload::JSON, b"{ \"a\": 1 }"), (Payload::BYTES, b"")]
    {
        let input = Payload { content_type: content_type.into(), bytes: bytes.to_vec() };
        lab.request(NewRequest { input: input.clone(), ..request() });
        assert_eq!(lab.apply_inbox(), (1, 0));
        assert_eq!(lab.claim("w").input, Some(input));
    }
}

pub fn requests_are_applied_in_the_order_they_came_in(lab: &mut Lab) {
    for number in 0..5 {
        lab.request(NewRequest { execution: Some(id(number)), ..request() });
    }
    lab.apply_inbox();
    let claimed = lab.claimed_ids(Claim { max: 5, ..Claim::new("w") });
    assert_eq!(claimed, (0..5).map(id).collect::<Vec<_>>());
}

pub fn a_request_is_due_at_once(lab: &mut Lab) {
    lab.request(request());
    lab.advance(ms(0));
    assert_eq!(all(lab).len(), 1);
}

pub fn the_clock_tells_that_requests_wait(lab: &mut Lab) {
    assert!(!lab.tick().requests);
    lab.request(request_with(json!({ "priority": -1 })));
    assert!(lab.tick().requests);
    lab.apply_inbox();
    assert!(!lab.tick().requests);
}

pub fn a_promised_id_is_kept(lab: &mut Lab) {
    lab.request(NewRequest { execution: Some(id(3)), ..request() });
    lab.apply_inbox();
    assert_eq!(lab.status(id(3)), Status::Waiting);
}

pub fn a_promised_id_is_no_part_of_what_was_asked_for(lab: &mut Lab) {
    let first = lab.submit(work().key("k"));
    let keyed = request_with(json!({ "key": "k" }));
    lab.request(NewRequest { execution: Some(id(3)), ..keyed });
    assert_eq!(lab.apply_inbox(), (1, 0));
    assert_eq!(all(lab).iter().map(|one| one.id).collect::<Vec<_>>(), [first]);
}

pub fn a_promised_id_that_was_taken_is_refused(lab: &mut Lab) {
    lab.submit(work().id(id(3)));
    let said = refusal(lab, NewRequest { execution: Some(id(3)), ..request() });
    assert_eq!(said.code, Code::IdempotencyConflict);
}

pub fn a_request_under_a_used_key_is_a_duplicate(lab: &mut Lab) {
    let keyed = || request_with(json!({ "key": "k" }));
    lab.request(keyed());
    lab.request(keyed());
    assert_eq!(lab.apply_inbox(), (2, 0));
    assert_eq!(all(lab).len(), 1);
    let other = NewRequest { kind: "other".into(), ..keyed() };
    assert_eq!(refusal(lab, other).code, Code::IdempotencyConflict);
}

pub fn a_request_the_rule_refuses_stays_with_its_error(lab: &mut Lab) {
    close(lab, "full");
    let options = json!({ "lane": "full" });
    lab.request(NewRequest { execution: Some(id(4)), ..request_with(options.clone()) });
    lab.apply_inbox();
    let refused = lab.refused_requests().pop().expect("it stays");
    assert_eq!((refused.kind.as_str(), refused.execution), ("work", Some(id(4))));
    assert_eq!(refused.options, options.to_string());
    let Refusal { at, code, message } = refused.refusal;
    assert_eq!((at, code), (lab.now(), Code::WrongState));
    assert!(message.starts_with("lane: lane `full` is draining"), "{message}");
    assert!(all(lab).is_empty());
}

pub fn options_that_can_not_be_read_are_refused_with_their_error(lab: &mut Lab) {
    for (options, said) in [
        ("{", "JSON object"),
        ("7", "JSON object"),
        (r#"{"lain":"mail"}"#, "`lain`"),
        (r#"{"input":"x"}"#, "`input`"),
        (r#"{"delay_ms":-1}"#, "-1"),
    ] {
        let refusal = refusal(lab, NewRequest { options: options.into(), ..request() });
        assert_eq!(refusal.code, Code::InvalidInput, "{options}");
        assert!(refusal.message.contains(said), "{options}: {}", refusal.message);
    }
    let kind = refusal(lab, NewRequest { kind: "not a name".into(), ..request() });
    assert!(kind.message.starts_with("kind: "), "{}", kind.message);
}

pub fn a_refused_request_does_not_hold_up_the_others(lab: &mut Lab) {
    for options in [json!({}), json!({ "priority": 9999 }), json!({ "lane": "new" }), json!(7)] {
        lab.request(request_with(options));
    }
    assert_eq!(lab.apply_inbox(), (2, 2));
    assert_eq!(all(lab).len(), 2);
}

pub fn a_refused_request_is_not_tried_again_by_itself(lab: &mut Lab) {
    lab.request(request_with(json!({ "priority": -1 })));
    assert_eq!(lab.apply_inbox(), (0, 1));
    assert_eq!(lab.apply_inbox(), (0, 0));
    assert_eq!(lab.see(CountRequests {}), counts(0, 1));
}

pub fn a_refused_request_can_be_retried(lab: &mut Lab) {
    close(lab, "full");
    lab.request(request_with(json!({ "lane": "full" })));
    lab.apply_inbox();
    let request = lab.refused_requests()[0].request;
    lab.ok(ResumeLane { namespace: ns(), lane: "full".into() });
    lab.ok(RetryRequest { request });
    assert_eq!(lab.see(CountRequests {}), counts(1, 0));
    assert_eq!(lab.apply_inbox(), (1, 0));
    assert!(lab.refused_requests().is_empty());
}

pub fn a_request_can_be_deleted(lab: &mut Lab) {
    lab.request(request_with(json!({ "priority": -1 })));
    lab.apply_inbox();
    let request = lab.refused_requests()[0].request;
    lab.ok(DeleteRequest { request });
    assert_eq!(lab.see(CountRequests {}), counts(0, 0));
}

pub fn a_request_that_is_not_there_can_not_be_retried_or_deleted(lab: &mut Lab) {
    let request = RequestId(4711);
    assert_eq!(lab.refused(RetryRequest { request }).code(), Code::NotFound);
    assert_eq!(lab.refused(DeleteRequest { request }).code(), Code::NotFound);
}

pub fn requests_are_counted(lab: &mut Lab) {
    lab.request(request_with(json!({ "priority": -1 })));
    lab.apply_inbox();
    lab.request(request());
    lab.request(request());
    assert_eq!(lab.see(CountRequests {}), counts(2, 1));
}

pub fn the_inbox_is_applied_in_slices(lab: &mut Lab) {
    for _ in 0..5 {
        lab.request(request());
    }
    let done = lab.ok(ApplyInbox { slice: 3 });
    assert_eq!(done, InboxApplied { applied: 3, refused: 0, more: true });
    let done = lab.ok(ApplyInbox { slice: 3 });
    assert_eq!(done, InboxApplied { applied: 2, refused: 0, more: false });
}

pub fn two_that_apply_the_inbox_share_it(lab: &mut Lab) {
    for _ in 0..5 {
        lab.request(request());
    }
    let mut tick = lab.call(Tick::default());
    let mut one = lab.call(ApplyInbox { slice: 3 });
    let mut two = lab.call(ApplyInbox { slice: 3 });
    lab.batch(&mut [&mut tick, &mut one, &mut two]);
    assert!(tick.into_answer().unwrap().requests);
    let applied = one.into_answer().unwrap().applied + two.into_answer().unwrap().applied;
    assert!(applied >= 3, "{applied}");
    lab.apply_inbox();
    assert_eq!(all(lab).len(), 5);
}

pub fn refused_requests_are_listed_in_pages(lab: &mut Lab) {
    for number in 0..5 {
        lab.request(NewRequest { execution: Some(id(number)), ..request_with(json!([number])) });
    }
    lab.apply_inbox();
    let mut seen = Vec::new();
    let mut query = ListRefusedRequests { after: None, limit: 2 };
    loop {
        let page = lab.see(query);
        assert!(page.requests.len() <= 2);
        seen.extend(page.requests.into_iter().filter_map(|one| one.execution));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, (0..5).map(id).collect::<Vec<_>>());
    assert_eq!(
        lab.ask(ListRefusedRequests { after: None, limit: 0 }).unwrap_err().code(),
        Code::InvalidInput
    );
}

pub fn the_inbox_survives_a_restart(lab: &mut Lab) {
    lab.request(request_with(json!({ "priority": -1 })));
    lab.apply_inbox();
    lab.request(request());
    lab.reopen();
    assert_eq!(lab.see(CountRequests {}), counts(1, 1));
    assert_eq!(lab.apply_inbox(), (1, 0));
}
