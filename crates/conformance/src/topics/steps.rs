//! Recorded steps: what a handler has done, so that it is not done again.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use crate::mail_lab::*;

fn text(payload: Option<&Payload>) -> Option<&str> {
    payload.map(|payload| std::str::from_utf8(&payload.bytes).expect("behaviours record text"))
}

/// The names and results of steps, in one line: `pay:paid mail:`.
fn line(steps: &[StepView]) -> String {
    let told: Vec<_> = steps
        .iter()
        .map(|one| format!("{}:{}", one.name, text(one.result.as_ref()).unwrap_or("…")))
        .collect();
    told.join(" ")
}

/// Replays with these steps.
fn replay_with(id: ExecutionId, steps: KeepSteps) -> Replay {
    Replay { steps, ..replay(id) }
}

fn before(name: &str, occurrence: u32) -> KeepSteps {
    KeepSteps::Before { name: name.to_owned(), occurrence }
}

/// An execution that recorded these steps and was cancelled.
#[track_caller]
fn ended_after<const N: usize>(lab: &mut Lab, steps: [&str; N]) -> ExecutionId {
    let lease = lab.lease(work());
    for name in steps {
        lab.ok(record_step(&lease, name, "done"));
    }
    lab.ok(force_cancel(lease.id()));
    lease.id()
}

pub fn a_step_is_recorded_once_and_the_first_result_counts(lab: &mut Lab) {
    let lease = lab.lease(work());
    let first = lab.ok(record_step(&lease, "pay", "paid"));
    assert_eq!(first, StepRecorded { seq: 1, earlier: None });
    let before = lab.snapshot();
    let again = lab.ok(record_step(&lease, "pay", "paid twice"));
    assert_eq!((again.seq, text(again.earlier.as_ref())), (1, Some("paid")));
    assert_eq!(lab.snapshot(), before);
    let step = lab.steps(lease.id()).remove(0);
    assert_eq!((step.name.as_str(), step.occurrence, step.kind.as_str()), ("pay", 0, "step"));
    assert_eq!((step.at, step.attempt, step.run, step.size), (lab.now(), 1, 1, 4));
}

pub fn every_later_lease_finds_what_was_recorded(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    lab.ok(record_step(&lease, "a", "1"));
    lab.advance(secs(30));
    let lease = lab.take(id);
    assert_eq!((lease.attempt, line(&lease.steps).as_str()), (2, "a:1"));
    let again = lab.ok(record_step(&lease, "a", "other"));
    assert_eq!(text(again.earlier.as_ref()), Some("1"));
    lab.ok(record_step(&lease, "b", "2"));
    lab.ok(retry_after(&lease, secs(0)));
    let lease = lab.claim("other");
    assert_eq!(line(&lease.steps), "a:1 b:2");
    lab.ok(delay(&lease, secs(0)));
    let granted = lab.reserve(id);
    let lease = lab.ok(redeem(&granted));
    assert_eq!(line(&lease.steps), "a:1 b:2");
    assert_eq!(lab.ok(redeem(&granted)).steps, lease.steps);
    lab.reopen();
    lab.ok(RevokeLease::new(id));
    assert_eq!(line(&lab.take(id).steps), "a:1 b:2");
    let attempts: Vec<_> = lab.steps(id).iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, [1, 2]);
}

pub fn a_step_may_occur_more_than_once(lab: &mut Lab) {
    let lease = lab.lease(work());
    for (occurrence, result) in [(0, "first"), (2, "third"), (1, "second")] {
        let step = RecordStep { occurrence, ..record_step(&lease, "poll", result) };
        assert_eq!(lab.ok(step).earlier, None);
    }
    lab.ok(record_step(&lease, "other", "x"));
    assert_eq!(line(&lab.steps(lease.id())), "poll:first poll:third poll:second other:x");
    let again = RecordStep { occurrence: 2, ..record_step(&lease, "poll", "again") };
    let again = lab.ok(again);
    assert_eq!((again.seq, text(again.earlier.as_ref())), (2, Some("third")));
    let last = RecordStep { occurrence: u32::MAX, ..record_step(&lease, "poll", "last") };
    assert_eq!(lab.ok(last.clone()).seq, 5);
    assert_eq!(lab.ok(last).seq, 5);
    assert_eq!(lab.steps(lease.id())[4].occurrence, u32::MAX);
}

pub fn a_step_of_another_kind_under_the_same_name_diverges(lab: &mut Lab) {
    let lease = lab.lease(work());
    let sleep = RecordStep { kind: "sleep".into(), ..record_step(&lease, "wait", "") };
    lab.ok(sleep.clone());
    let error = lab.refused(record_step(&lease, "wait", ""));
    assert_eq!(error.code(), Code::StepsDiverged);
    for word in ["wait", "sleep", "`step`"] {
        assert!(error.message().contains(word), "`{word}` is not in: {error}");
    }
    let details = error.details().expect("it says which");
    assert_eq!((&details["name"], &details["recorded"]), (&"wait".into(), &"sleep".into()));
    lab.ok(RecordStep { kind: "other".into(), occurrence: 1, ..sleep });
}

pub fn bad_steps_are_refused(lab: &mut Lab) {
    let lease = lab.lease(work());
    let good = || record_step(&lease, "a", "x");
    let refuses = |lab: &mut Lab, step: RecordStep, code: Code, field: &str| {
        let error = lab.refused(step);
        assert_eq!((error.code(), error.field()), (code, Some(field)), "{error}");
    };
    refuses(lab, RecordStep { name: String::new(), ..good() }, Code::InvalidInput, "name");
    refuses(lab, RecordStep { name: "x".repeat(257), ..good() }, Code::TooLarge, "name");
    refuses(lab, RecordStep { kind: "two words".into(), ..good() }, Code::InvalidInput, "kind");
    let huge = Payload::bytes(vec![0; (1 << 20) + 1]);
    refuses(lab, RecordStep { result: huge, ..good() }, Code::TooLarge, "result");
    let there = RecordStep { namespace: "there".into(), ..good() };
    assert_eq!(lab.refused(there).code(), Code::NotFound);
    lab.ok(RecordStep { name: "any text: ü".into(), ..good() });
}

pub fn the_bytes_of_a_result_stay_as_they_are(lab: &mut Lab) {
    let lease = lab.lease(work());
    let results = [
        Payload { content_type: "image/x-all".into(), bytes: (0..=255).collect() },
        Payload { content_type: "application/empty".into(), bytes: vec![] },
        Payload::default(),
        Payload::bytes(vec![0xff; 1 << 20]),
    ];
    for (n, result) in results.iter().enumerate() {
        let step = record_step(&lease, &format!("s{n}"), "");
        lab.ok(RecordStep { result: result.clone(), ..step });
    }
    lab.reopen();
    let steps = lab.steps(lease.id());
    for (n, (step, result)) in steps.iter().zip(&results).enumerate() {
        assert_eq!((step.result.as_ref(), step.size), (Some(result), result.bytes.len() as u64));
        let again = lab.ok(record_step(&lease, &format!("s{n}"), "other"));
        assert_eq!(again.earlier.as_ref(), Some(result));
    }
}

pub fn recording_a_step_does_not_prolong_a_lease_or_tell_anyone(lab: &mut Lab) {
    let lease = lab.lease(work());
    let before = (lab.get(lease.id()), lab.history(lease.id()));
    lab.ok(record_step(&lease, "a", "1"));
    assert_eq!((lab.get(lease.id()), lab.history(lease.id())), before);
}

pub fn steps_are_read_page_by_page(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    for n in 0..5 {
        lab.ok(record_step(&lease, &format!("s{n}"), &n.to_string()));
    }
    let mut pages = Vec::new();
    let mut after = 0;
    loop {
        let page = lab.see(ListSteps { after, limit: 2, ..list_steps(id) });
        pages.push(line(&page.steps));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(pages, ["s0:0 s1:1", "s2:2 s3:3", "s4:4"]);
    let never = lab.submit(work());
    assert_eq!(lab.see(list_steps(never)), StepPage::default());
}

pub fn results_that_do_not_fit_into_a_claim_are_read_page_by_page(lab: &mut Lab) {
    lab.settings.limits = Limits { payload_bytes: 10, batch_bytes: 25 };
    let lease = lab.lease(work().input(Payload::bytes("0123456789")));
    for name in ["a", "b", "c"] {
        lab.ok(record_step(&lease, name, "0123456789"));
    }
    lab.ok(release(&lease));
    let lease = lab.take(lease.id());
    assert_eq!(line(&lease.steps), "a:0123456789 b:… c:…", "the input takes room too");
    assert!(!lease.more_steps && lease.steps.iter().all(|one| one.size == 10));
    let rest = lab.see(ListSteps { after: 1, ..list_steps(lease.id()) });
    assert_eq!(line(&rest.steps), "b:0123456789 c:0123456789");
}

pub fn an_execution_records_at_most_ten_thousand_steps(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    for batch in 0..10 {
        let mut calls: Vec<_> = (0..1000)
            .map(|n| RecordStep { occurrence: batch * 1000 + n, ..record_step(&lease, "s", "") })
            .map(|step| lab.call(step))
            .collect();
        let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as _).collect();
        lab.batch(&mut jobs);
        assert!(calls.into_iter().all(|call| call.into_answer().is_ok()));
    }
    let error = lab.apply(record_step(&lease, "one more", "")).unwrap_err();
    assert_eq!(error.code(), Code::TooLarge);
    assert!(error.message().contains("10000"), "{error}");
    assert_eq!(lab.ok(record_step(&lease, "s", "")).seq, 1, "what is known is still found");
    lab.ok(release(&lease));
    let lease = lab.take(id);
    assert_eq!((lease.steps.len(), lease.more_steps), (1000, true));
    let rest = lab.see(ListSteps { after: 9998, ..list_steps(id) });
    assert_eq!((rest.steps.len(), rest.next), (2, None));
}

pub fn a_replay_keeps_all_steps_unless_it_says_otherwise(lab: &mut Lab) {
    let id = ended_after(lab, ["a", "b"]);
    lab.ok(replay(id));
    let lease = lab.take(id);
    assert_eq!((lease.run, line(&lease.steps).as_str()), (2, "a:done b:done"));
    let again = lab.ok(record_step(&lease, "a", "anew"));
    assert_eq!(text(again.earlier.as_ref()), Some("done"));
    lab.ok(record_step(&lease, "c", "new"));
    let runs: Vec<_> = lab.steps(id).iter().map(|one| one.run).collect();
    assert_eq!(runs, [1, 1, 2]);
}

pub fn a_replay_may_keep_no_steps(lab: &mut Lab) {
    let id = ended_after(lab, ["a", "b"]);
    lab.ok(replay_with(id, KeepSteps::None));
    assert_eq!(lab.steps(id), []);
    let lease = lab.take(id);
    assert_eq!(lease.steps, []);
    let kind = "other".to_owned();
    let anew = lab.ok(RecordStep { kind, ..record_step(&lease, "a", "anew") });
    assert_eq!(anew, StepRecorded { seq: 1, earlier: None });
    let never = lab.bring(Status::Failed, work());
    lab.ok(replay_with(never, KeepSteps::None));
}

pub fn a_replay_may_keep_what_was_recorded_before_a_step(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    for (name, occurrence) in [("a", 0), ("poll", 0), ("b", 0), ("poll", 1), ("c", 0)] {
        lab.ok(RecordStep { occurrence, ..record_step(&lease, name, "done") });
    }
    lab.ok(complete(&lease));
    lab.ok(replay_with(id, before("poll", 1)));
    assert_eq!(line(&lab.steps(id)), "a:done poll:done b:done");
    let lease = lab.take(id);
    let anew = RecordStep { occurrence: 1, ..record_step(&lease, "poll", "anew") };
    assert_eq!(lab.ok(anew), StepRecorded { seq: 4, earlier: None });
    lab.ok(complete(&lease));
    lab.ok(replay_with(id, before("a", 0)));
    assert_eq!(lab.steps(id), []);
}

pub fn a_replay_from_a_step_that_was_never_recorded_is_refused(lab: &mut Lab) {
    let id = ended_after(lab, ["a"]);
    for unknown in [before("b", 0), before("a", 1)] {
        let error = lab.refused(replay_with(id, unknown));
        assert_eq!((error.code(), error.field()), (Code::NotFound, Some("steps")));
    }
    let never = lab.bring(Status::Failed, work());
    assert_eq!(lab.refused(replay_with(never, before("a", 0))).code(), Code::NotFound);
    let (open, _) = lab.suspended(Condition::Operator);
    assert_eq!(lab.refused(replay_with(open, KeepSteps::None)).code(), Code::WrongState);
}

pub fn a_replayed_member_keeps_the_steps_that_are_to_be_kept(lab: &mut Lab) {
    for keep in [KeepSteps::All, KeepSteps::None, before("b", 0)] {
        let graph = lab.plant(chain(["n", "m"]));
        let lease = lab.take(graph["n"]);
        for name in ["a", "b"] {
            lab.ok(record_step(&lease, name, "done"));
        }
        lab.fail_lease(&lease);
        let error = lab.refused(replay_with(graph["n"], before("c", 0)));
        assert_eq!(error.code(), Code::NotFound);
        lab.ok(replay_with(graph["n"], keep.clone()));
        lab.settle();
        let lease = lab.take(graph["n"]);
        let expected = match keep {
            KeepSteps::All => "a:done b:done",
            KeepSteps::None => "",
            KeepSteps::Before { .. } => "a:done",
        };
        assert_eq!((lease.run, line(&lease.steps).as_str()), (2, expected));
        lab.ok(CancelFlow::new(graph.id));
    }
}

pub fn a_replayed_flow_keeps_the_steps_of_its_members(lab: &mut Lab) {
    let graph = lab.plant(chain(["n", "m"]));
    let lease = lab.take(graph["n"]);
    lab.ok(record_step(&lease, "a", "done"));
    lab.fail_lease(&lease);
    lab.ok(replay_flow(graph.id, []));
    lab.settle();
    assert_eq!(line(&lab.take(graph["n"]).steps), "a:done");
}

pub fn steps_belong_to_their_execution(lab: &mut Lab) {
    let [one, other] = [lab.lease(work()), lab.lease(work())];
    lab.ok(record_step(&one, "a", "mine"));
    assert_eq!(lab.ok(record_step(&other, "a", "theirs")).earlier, None);
    lab.ok(complete(&one));
    assert_eq!(line(&lab.steps(one.id())), "a:mine", "they stay as long as it does");
    lab.ok(delete(one.id()));
    assert_eq!(lab.ask(list_steps(one.id())).unwrap_err().code(), Code::NotFound);
    assert_eq!(line(&lab.steps(other.id())), "a:theirs");
    lab.submit(work().id(one.id()));
    assert_eq!(lab.take(one.id()).steps, []);
}

pub fn steps_of_one_transaction_are_numbered_one_after_the_other(lab: &mut Lab) {
    let lease = lab.lease(work());
    let mut calls = ["a", "b", "a"].map(|name| lab.call(record_step(&lease, name, name)));
    let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as _).collect();
    lab.batch(&mut jobs);
    let told = calls.map(|call| call.into_answer().map(|one| (one.seq, one.earlier.is_some())));
    assert_eq!(told.map(|one| one.unwrap()), [(1, false), (2, false), (1, true)]);
}
