//! Submitting work.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

pub fn a_submission_can_be_claimed_right_after_the_call(lab: &mut Lab) {
    let made = lab.submission(work()).unwrap();
    assert!(matches!(made, Submission::Created { status: Status::Waiting, .. }));
    assert_eq!(lab.claim("w").id(), made.id());
}

pub fn a_submission_without_wishes_gets_the_usual_place(lab: &mut Lab) {
    let id = lab.submit(work());
    let view = lab.get(id);
    assert_eq!((view.lane.as_str(), view.namespace.as_str()), ("default", "default"));
    assert_eq!((view.priority, view.run, view.attempt, view.epoch), (1000, 1, 0, Epoch(0)));
    assert_eq!((view.created_at, view.started_at, view.due_at), (lab.now(), None, None));
    assert!(!view.held && view.worker.is_none() && view.end.is_none());
}

pub fn everything_a_submission_says_is_kept(lab: &mut Lab) {
    let deadline = lab.now() + hours(2);
    let id = lab.submit(
        NewExecution::new("send_mail")
            .id(id(7))
            .lane("mail")
            .priority(2000)
            .capability("smtp")
            .tag("customer", "acme corp ü")
            .key("order-17")
            .deadline_at(deadline)
            .created_by("shop")
            .policy(policy(json!({ "max_reclaims": 4 }))),
    );
    let view = lab.get(id);
    assert_eq!(view.id, crate::fixtures::id(7));
    assert_eq!(
        (view.kind.as_str(), view.lane.as_str(), view.priority),
        ("send_mail", "mail", 2000)
    );
    assert_eq!(view.capabilities, names(["smtp"]));
    assert_eq!(view.tags, tags([("customer", "acme corp ü")]));
    assert_eq!((view.key.as_deref(), view.created_by.as_deref()), (Some("order-17"), Some("shop")));
    assert_eq!((view.deadline_at, view.due_at), (Some(deadline), Some(deadline)));
    assert_eq!(view.policy.max_reclaims(), 4);
}

pub fn input_bytes_stay_bytes(lab: &mut Lab) {
    let input = Payload { content_type: "image/png".into(), bytes: (0..=255).collect() };
    let id = lab.submit(work().input(input.clone()));
    assert_eq!(lab.see(input_of(id)), input);
    lab.reopen();
    assert_eq!(lab.claim("w").input, Some(input));
}

pub fn an_empty_input_is_an_empty_payload(lab: &mut Lab) {
    let id = lab.submit(work());
    assert_eq!(lab.see(input_of(id)), Payload::default());
    let typed = Payload { content_type: "text/plain".into(), bytes: vec![] };
    let id = lab.submit(work().input(typed.clone()));
    assert_eq!(lab.see(input_of(id)), typed);
}

pub fn a_delayed_submission_waits_for_its_time(lab: &mut Lab) {
    let made = lab.submission(work().delay(secs(60))).unwrap();
    assert!(matches!(made, Submission::Created { status: Status::Delayed, .. }));
    assert_eq!(lab.get(made.id()).due_at, Some(lab.now() + secs(60)));
    lab.advance(ms(59_999));
    assert!(lab.nothing_to_claim());
    lab.advance(ms(1));
    assert_eq!(lab.status(made.id()), Status::Waiting);
    assert_eq!(lab.claim("w").id(), made.id());
}

pub fn a_submission_may_name_the_moment_it_starts(lab: &mut Lab) {
    let id = lab.submit(work().start_at(lab.now() + secs(5)));
    assert_eq!(lab.status(id), Status::Delayed);
    lab.advance(secs(5));
    assert_eq!(lab.claim("w").id(), id);
}

pub fn a_start_in_the_past_or_now_is_claimable_at_once(lab: &mut Lab) {
    let now = lab.now();
    let early = [work().start_at(now.before(secs(60))), work().start_at(now), work().delay(ms(0))];
    for new in early {
        let made = lab.submission(new).unwrap();
        assert!(matches!(made, Submission::Created { status: Status::Waiting, .. }));
        assert_eq!(lab.claim("w").id(), made.id());
    }
}

pub fn a_held_submission_is_claimable_only_when_unheld(lab: &mut Lab) {
    let id = lab.submit(work().hold());
    assert_eq!((lab.status(id), lab.get(id).held), (Status::Waiting, true));
    assert!(lab.nothing_to_claim());
    lab.ok(unhold(id));
    assert_eq!(lab.claim("w").id(), id);
}

pub fn a_held_and_delayed_submission_needs_both_to_pass(lab: &mut Lab) {
    let id = lab.submit(work().hold().delay(secs(10)));
    lab.advance(secs(10));
    assert_eq!(lab.status(id), Status::Waiting);
    assert!(lab.nothing_to_claim());
    lab.ok(unhold(id));
    assert_eq!(lab.claim("w").id(), id);
}

pub fn a_paused_lane_takes_submissions_in(lab: &mut Lab) {
    lab.ok(put_lane("default", Defaults::default()));
    lab.ok(pause("default"));
    let id = lab.submit(work());
    assert!(lab.nothing_to_claim());
    lab.ok(resume("default"));
    assert_eq!(lab.claim("w").id(), id);
}

pub fn a_draining_lane_refuses_submissions(lab: &mut Lab) {
    let first = lab.submission(work().key("k")).unwrap();
    lab.ok(drain("default"));
    let error = lab.refused(submit([work()]));
    assert_eq!(error.code(), Code::WrongState);
    assert_eq!(error.field(), Some("executions[0].lane"));
    let again = lab.submission(work().key("k")).unwrap();
    assert_eq!(again, Submission::Duplicate { id: first.id(), status: Some(Status::Waiting) });
    lab.submit(work().lane("other"));
}

pub fn a_deadline_in_the_past_is_refused(lab: &mut Lab) {
    for at in [lab.now(), lab.now().before(ms(1))] {
        let error = lab.refused(submit([work().deadline_at(at)]));
        assert_eq!(error.code(), Code::InvalidInput);
        assert_eq!(error.field(), Some("executions[0].deadline_at"));
    }
}

pub fn a_batch_is_answered_in_its_order(lab: &mut Lab) {
    let ids: Vec<_> = (0..1000).map(id).collect();
    let made = lab.submit_all(ids.iter().map(|id| work().id(*id)));
    assert_eq!(made, ids);
    assert_eq!(lab.claimed_ids(up_to(1000)), ids);
}

pub fn a_batch_with_one_bad_item_submits_nothing(lab: &mut Lab) {
    let batch = submit([work(), work().priority(9001), work()]);
    let error = lab.refused(batch);
    assert_eq!(error.field(), Some("executions[1].priority"));
    assert_eq!(lab.counts().total(), 0);
}

pub fn a_refused_batch_lists_every_violation(lab: &mut Lab) {
    let error = lab.refused(submit([
        NewExecution::new("two words").priority(-1),
        work(),
        work().lane("a/b").tag("", "x"),
    ]));
    assert_eq!(error.code(), Code::InvalidInput);
    let fields: Vec<_> = error.violations().into_iter().map(|one| one.field).collect();
    assert_eq!(
        fields,
        [
            "executions[0].kind",
            "executions[0].priority",
            "executions[2].lane",
            "executions[2].tags"
        ]
    );
}

pub fn a_batch_refused_by_the_state_of_things_lists_every_reason(lab: &mut Lab) {
    lab.submit(work().key("used"));
    lab.submit(work().lane("closing"));
    lab.ok(drain("closing"));
    let error = lab.refused(submit([
        NewExecution::new("other").key("used"),
        work(),
        work().lane("closing"),
        work().deadline_at(lab.now()),
    ]));
    let found: Vec<_> = error.violations().into_iter().map(|one| (one.field, one.code)).collect();
    let expected = [
        ("executions[0].key", Code::IdempotencyConflict),
        ("executions[2].lane", Code::WrongState),
        ("executions[3].deadline_at", Code::InvalidInput),
    ];
    assert_eq!(found, expected.map(|(field, code)| (field.to_owned(), code)));
}

pub fn a_uuid_of_any_version_may_be_the_id(lab: &mut Lab) {
    for text in [
        "c232ab00-9414-11ec-b3c8-9f6bdeced846",
        "5df41881-3aed-3515-88a7-2f4a814cf09e",
        "919108f7-52d1-4320-9bac-f847db4148a8",
        "2ed6657d-e927-568b-95e1-2665a8aea6a2",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ] {
        let id = text.parse().unwrap();
        assert_eq!(lab.submit(work().id(id)), id);
        let lease = lab.claim("w");
        assert_eq!(lease.id(), id);
        lab.ok(complete(&lease));
        assert_eq!(lab.status(id), Status::Completed);
    }
}

pub fn minted_ids_are_of_version_seven_and_in_order_of_time(lab: &mut Lab) {
    let first = lab.submit(work()).to_string();
    lab.pass(ms(1));
    let second = lab.submit(work()).to_string();
    assert_eq!((&first[14..15], &second[14..15]), ("7", "7"));
    assert!(first < second);
}

pub fn a_submission_is_told_as_one_event(lab: &mut Lab) {
    let id = lab.submit(work().lane("mail").tag("a", "b"));
    let events = lab.events(EventFilter::default());
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].kind, events[0].execution), (EventKind::Submitted, Some(id)));
    assert_eq!((events[0].at, events[0].lane.as_deref()), (lab.now(), Some("mail")));
    assert_eq!(events[0].tags, tags([("a", "b")]));
}
