//! Submitting the same thing twice.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

#[track_caller]
fn finish(lab: &mut Lab, id: ExecutionId) {
    let lease = lab.take(id);
    lab.ok(complete(&lease));
}

#[track_caller]
fn duplicate_of(lab: &mut Lab, new: NewExecution) -> (ExecutionId, Option<Status>) {
    match lab.submission(new) {
        Ok(Submission::Duplicate { id, status }) => (id, status),
        other => panic!("not a duplicate: {other:?}"),
    }
}

pub fn the_same_request_under_the_same_key_is_a_duplicate_of_the_first(lab: &mut Lab) {
    let first = lab.submit(work().key("k").input(Payload::bytes("x")));
    let before = lab.snapshot();
    let again = duplicate_of(lab, work().key("k").input(Payload::bytes("x")));
    assert_eq!(again, (first, Some(Status::Waiting)));
    assert_eq!(lab.snapshot(), before);
}

pub fn another_request_under_the_same_key_is_a_conflict(lab: &mut Lab) {
    let first = || work().key("k").input(Payload::bytes("x")).delay(secs(1));
    lab.submit(first());
    let others = [
        NewExecution { kind: "other".into(), ..first() },
        first().input(Payload::bytes("y")),
        first().input(Payload { content_type: "text/plain".into(), bytes: b"x".into() }),
        first().id(id(1)),
        first().lane("other"),
        first().priority(1000),
        first().capability("gpu"),
        first().delay(secs(2)),
        first().deadline_at(lab.now() + secs(9)),
        first().hold(),
        first().tag("a", "b"),
        first().policy(policy(json!({ "max_reclaims": 1 }))),
        first().created_by("someone"),
    ];
    for other in others {
        let error = lab.refused(submit([other]));
        assert_eq!(error.code(), Code::IdempotencyConflict);
        assert_eq!(error.field(), Some("executions[0].key"));
        assert!(error.message().contains("`k`"), "{error}");
    }
}

pub fn a_repeated_wish_to_start_later_is_the_same_request_at_any_time(lab: &mut Lab) {
    let first = lab.submit(work().key("k").delay(hours(1)));
    lab.advance(secs(10));
    assert_eq!(duplicate_of(lab, work().key("k").delay(hours(1))).0, first);
}

pub fn the_same_request_under_two_keys_is_two_executions(lab: &mut Lab) {
    assert_ne!(lab.submit(work().key("a")), lab.submit(work().key("b")));
}

pub fn the_same_request_under_the_same_id_is_a_duplicate(lab: &mut Lab) {
    lab.submit(work().id(id(1)));
    assert_eq!(duplicate_of(lab, work().id(id(1))), (id(1), Some(Status::Waiting)));
    lab.reopen();
    finish(lab, id(1));
    assert_eq!(duplicate_of(lab, work().id(id(1))), (id(1), Some(Status::Completed)));
}

pub fn another_request_under_the_same_id_is_a_conflict(lab: &mut Lab) {
    lab.submit(work().id(id(1)));
    let minted = lab.submit(work());
    for taken in [id(1), minted] {
        let error = lab.refused(submit([NewExecution::new("other").id(taken)]));
        assert_eq!(error.code(), Code::IdempotencyConflict);
        assert_eq!(error.field(), Some("executions[0].id"));
    }
}

pub fn the_same_key_twice_in_a_batch_is_one_execution(lab: &mut Lab) {
    let answers = lab.ok(submit([work().key("k"), work(), work().key("k")])).executions;
    let Submission::Created { id, .. } = answers[0] else { panic!("{answers:?}") };
    assert_eq!(answers[2], Submission::Duplicate { id, status: Some(Status::Waiting) });
    assert_eq!(lab.counts().total(), 2);
}

pub fn the_same_id_twice_in_a_batch_is_one_execution(lab: &mut Lab) {
    let answers = lab.ok(submit([work().id(id(1)), work().id(id(1))])).executions;
    assert!(answers[1].is_duplicate());
    assert_eq!(lab.counts().total(), 1);
}

pub fn a_key_used_twice_in_a_batch_for_two_requests_refuses_all_of_it(lab: &mut Lab) {
    let error = lab.refused(submit([work().key("k"), NewExecution::new("other").key("k")]));
    assert_eq!(error.code(), Code::IdempotencyConflict);
    assert_eq!(error.field(), Some("executions[1].key"));
    let error = lab.refused(submit([work().id(id(1)), NewExecution::new("other").id(id(1))]));
    assert_eq!(error.field(), Some("executions[1].id"));
}

pub fn a_batch_may_hold_both_new_work_and_duplicates(lab: &mut Lab) {
    let first = lab.submit(work().key("k"));
    let answers = lab.ok(submit([work(), work().key("k")])).executions;
    assert!(!answers[0].is_duplicate());
    assert_eq!(answers[1].id(), first);
    assert_eq!(lab.counts().total(), 2);
}

pub fn submissions_that_share_a_transaction_share_their_keys(lab: &mut Lab) {
    let mut first = lab.call(submit([work().key("k")]));
    let mut second = lab.call(submit([work().key("k")]));
    let mut third = lab.call(submit([NewExecution::new("other").key("k")]));
    lab.batch(&mut [&mut first, &mut second, &mut third]);
    let first = first.into_answer().unwrap().executions[0];
    let second = second.into_answer().unwrap().executions[0];
    assert!(second.is_duplicate());
    assert_eq!(second.id(), first.id());
    assert_eq!(third.into_answer().unwrap_err().code(), Code::IdempotencyConflict);
}

pub fn a_key_is_held_as_long_as_its_execution_is_not_over(lab: &mut Lab) {
    let first = lab.submit(work().key("k").hold());
    lab.advance(days(400));
    assert_eq!(duplicate_of(lab, work().key("k").hold()).0, first);
}

pub fn a_key_is_forgotten_a_day_after_the_end(lab: &mut Lab) {
    let first = lab.submit(work().key("k"));
    lab.advance(hours(5));
    finish(lab, first);
    lab.advance(hours(24) - ms(1));
    assert_eq!(duplicate_of(lab, work().key("k")), (first, Some(Status::Completed)));
    lab.advance(ms(1));
    assert_ne!(lab.submit(work().key("k")), first);
}

pub fn the_window_of_a_key_is_a_policy(lab: &mut Lab) {
    let short = || work().key("k").policy(policy(json!({ "key_window_ms": 5000 })));
    let first = lab.submit(short());
    finish(lab, first);
    lab.advance(ms(4999));
    assert_eq!(duplicate_of(lab, short()).0, first);
    lab.advance(ms(1));
    lab.submit(short());
    let gone = || work().key("gone").policy(policy(json!({ "key_window_ms": 0 })));
    let first = lab.submit(gone());
    finish(lab, first);
    lab.submit(gone());
}

pub fn a_key_outlives_its_removed_execution_until_its_window_is_over(lab: &mut Lab) {
    let brief = || work().key("k").policy(policy(json!({ "retention_ms": 1000 })));
    let first = lab.submit(brief());
    finish(lab, first);
    lab.advance(hours(1));
    assert_eq!(lab.ask(get(first)).unwrap_err().code(), Code::NotFound);
    assert_eq!(duplicate_of(lab, brief()), (first, None));
    let conflict = lab.refused(submit([work().key("k")]));
    assert_eq!(conflict.code(), Code::IdempotencyConflict);
    lab.advance(hours(22));
    assert_eq!(duplicate_of(lab, brief()), (first, None));
    lab.advance(hours(1));
    assert_ne!(lab.submit(brief()), first);
}

pub fn an_explicit_delete_frees_key_and_id(lab: &mut Lab) {
    let first = lab.submit(work().key("k").id(id(1)));
    finish(lab, first);
    lab.ok(delete(first));
    assert_eq!(lab.submit(NewExecution::new("other").key("k")), lab.claim("w").id());
    lab.submit(NewExecution::new("other").id(id(1)));
}

pub fn a_replayed_execution_holds_its_key_again(lab: &mut Lab) {
    let first = lab.submit(work().key("k"));
    finish(lab, first);
    lab.ok(replay(first));
    lab.advance(days(30));
    assert_eq!(duplicate_of(lab, work().key("k")), (first, Some(Status::Waiting)));
}

pub fn the_end_of_an_execution_does_not_free_a_key_another_took_over(lab: &mut Lab) {
    let brief = || work().key("k").policy(policy(json!({ "key_window_ms": 1000 })));
    let old = lab.submit(brief());
    finish(lab, old);
    lab.advance(secs(1));
    let new = lab.submit(brief());
    lab.ok(delete(old));
    assert_eq!(duplicate_of(lab, brief()).0, new);
}

pub fn the_retention_of_an_execution_does_not_free_a_key_another_took_over(lab: &mut Lab) {
    let policy = || policy(json!({ "key_window_ms": 1000, "retention_ms": 60_000 }));
    let old = lab.submit(work().key("k").policy(policy()));
    finish(lab, old);
    lab.advance(secs(1));
    let new = lab.submit(work().key("k").policy(policy()));
    lab.advance(hours(1));
    assert_eq!(lab.ask(get(old)).unwrap_err().code(), Code::NotFound);
    assert_eq!(duplicate_of(lab, work().key("k").policy(policy())).0, new);
}

pub fn a_key_belongs_to_its_namespace(lab: &mut Lab) {
    let there = |kind: &str| Submit {
        namespace: "there".into(),
        executions: vec![NewExecution::new(kind).key("k")],
    };
    let here = lab.submit(work().key("k"));
    let made = lab.ok(there("other")).executions[0];
    assert!(!made.is_duplicate());
    assert_eq!(lab.ok(there("other")).executions[0].id(), made.id());
    assert_eq!(duplicate_of(lab, work().key("k")).0, here);
}

pub fn keys_survive_a_restart(lab: &mut Lab) {
    let first = lab.submit(work().key("k"));
    lab.reopen();
    assert_eq!(duplicate_of(lab, work().key("k")).0, first);
    let other = NewExecution::new("other").key("k");
    assert_eq!(lab.refused(submit([other])).code(), Code::IdempotencyConflict);
}
