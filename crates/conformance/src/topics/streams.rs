//! Appending to streams, and their end.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::flow_lab::*;
use crate::mail_lab::*;
use crate::stream_lab::*;

#[track_caller]
fn refuses(lab: &mut Lab, append: Append, code: Code, field: &str) {
    let error = lab.refused(append);
    assert_eq!((error.code(), error.field()), (code, Some(field)), "{error}");
}

/// What the log tells of the ends of a stream.
#[track_caller]
fn closings(lab: &mut Lab, id: ExecutionId) -> Vec<serde_json::Value> {
    let filter = EventFilter { kinds: [EventKind::StreamClosed].into(), ..about(id) };
    lab.events(filter).into_iter().map(|event| event.data.expect("it says why")).collect()
}

pub fn frames_are_numbered_one_after_the_other(lab: &mut Lab) {
    let lease = lab.lease(work());
    let first = lab.ok(append(&lease, [frame("a"), frame("b")]));
    assert_eq!((first.first, first.last, first.kept, first.summary_version), (1, 2, 2, 0));
    lab.pass(secs(3));
    let second = lab.ok(append(&lease, [live("c"), frame("d")]));
    assert_eq!((second.first, second.last, second.kept), (3, 4, 3));
    let page = lab.see(read(lease.id()));
    assert_eq!((seqs(&page.frames), texts(&page.frames)), (vec![1, 2, 3, 4], "a b c d".into()));
    assert_eq!((page.next, page.last, page.at_end, page.closed), (4, 4, true, None));
    let ages: Vec<_> = page.frames.iter().map(|frame| lab.now().since(frame.at)).collect();
    assert_eq!(ages, [secs(3), secs(3), secs(0), secs(0)]);
    let lives: Vec<_> = page.frames.iter().map(|frame| frame.live).collect();
    assert_eq!(lives, [false, false, true, false]);
}

pub fn numbers_go_on_across_attempts_and_runs_and_each_frame_tells_its_attempt(lab: &mut Lab) {
    let id = lab.submit(work());
    let lease = lab.take(id);
    lab.ok(append(&lease, [frame("a"), frame("b")]));
    lab.ok(fail(&lease, Failure::transient("again")));
    lab.advance(hours(1));
    let lease = lab.take(id);
    lab.ok(append(&lease, [frame("c")]));
    lab.ok(complete(&lease));
    lab.ok(replay(id));
    let lease = lab.take(id);
    let appended = lab.ok(append(&lease, [frame("d")]));
    assert_eq!((appended.first, appended.last), (4, 4));
    let told: Vec<_> = lab.frames(read(id)).iter().map(|one| (one.seq, one.attempt)).collect();
    assert_eq!(told, [(1, 1), (2, 1), (3, 2), (4, 3)]);
}

pub fn a_call_appends_one_to_a_thousand_frames(lab: &mut Lab) {
    let lease = lab.lease(work());
    refuses(lab, append(&lease, []), Code::InvalidInput, "frames");
    refuses(lab, append(&lease, frames(1001)), Code::InvalidInput, "frames");
    assert_eq!(lab.ok(append(&lease, frames(1000))).last, 1000);
    assert_eq!(lab.kept(lease.id()), (1..=1000).collect::<Vec<_>>());
}

pub fn bytes_and_everything_else_of_a_frame_stay_as_they_are(lab: &mut Lab) {
    let typed = |content_type: &str, bytes: Vec<u8>| Payload {
        content_type: content_type.to_owned().into(),
        bytes,
    };
    let payloads = [
        typed("image/x-all", (0..=255).collect()),
        typed("application/empty", vec![]),
        Payload::default(),
        typed("text/plain; charset=utf-8", "ü\0".into()),
        Payload::bytes(vec![0xff; Limits::FRAME_BYTES]),
        typed("", vec![0]),
        typed(Payload::JSON, b"{ \"b\":1,\"a\" :2}".to_vec()),
    ];
    let kinds = [FrameKind::Stdout, FrameKind::Stderr, FrameKind::Event, FrameKind::Blob];
    let new: Vec<_> = payloads
        .into_iter()
        .zip(kinds.into_iter().cycle())
        .enumerate()
        .map(|(index, (payload, kind))| NewFrame {
            kind,
            name: (index % 2 == 0).then(|| format!("n{index}")),
            correlation: (index % 3 == 0).then(|| format!("ü {index}")),
            keep: match index {
                3 => FrameMode::Live(Liveness::default()),
                _ => FrameMode::Durable,
            },
            ..NewFrame::new(payload)
        })
        .collect();
    let lease = lab.lease(work());
    lab.ok(append(&lease, new.clone()));
    lab.reopen();
    let seen = lab.frames(read(lease.id()));
    assert_eq!(seen.len(), new.len());
    for (seen, new) in seen.into_iter().zip(new) {
        assert_eq!(seen.payload, new.payload);
        let (name, correlation) = (new.name, new.correlation);
        assert_eq!((seen.kind, seen.name, seen.correlation), (new.kind, name, correlation));
        assert_eq!((seen.live, seen.summary_version), (new.keep.is_live(), None));
    }
}

pub fn bad_frames_are_refused_with_their_places_and_nothing_is_appended(lab: &mut Lab) {
    use Code::{InvalidInput, TooLarge};
    let lease = lab.lease(work());
    lab.ok(append(&lease, [frame("before")]));
    let bad = |lab: &mut Lab, bad: NewFrame, code: Code, field: &str| {
        let frames = [frame("good"), NewFrame::patch(&json!({ "a": 1 })), bad];
        refuses(lab, append(&lease, frames), code, &format!("frames[2].{field}"));
    };
    for name in ["", "two words", "a/b", "ü", &"x".repeat(129)] {
        bad(lab, frame("x").named(name), InvalidInput, "name");
    }
    let connected = |text: &str| NewFrame { correlation: Some(text.into()), ..frame("x") };
    bad(lab, connected(""), InvalidInput, "correlation");
    bad(lab, connected("a\nb"), InvalidInput, "correlation");
    bad(lab, connected(&"x".repeat(257)), TooLarge, "correlation");
    let large = NewFrame::new(Payload::bytes(vec![0; Limits::FRAME_BYTES + 1]));
    bad(lab, large.clone(), TooLarge, "payload");
    bad(lab, NewFrame { keep: FrameMode::Live(Liveness::default()), ..large }, TooLarge, "payload");
    let typed = |content_type: String| {
        NewFrame::new(Payload { content_type: content_type.into(), bytes: vec![] })
    };
    bad(lab, typed("x".repeat(129)), TooLarge, "payload");
    bad(lab, typed("a\nb".into()), InvalidInput, "payload");
    bad(lab, NewFrame { nulls: names(["/a"]), ..frame("x") }, InvalidInput, "nulls");
    bad(lab, NewFrame { nulls: names(["/a"]), ..live("x") }, InvalidInput, "nulls");
    assert_eq!(lab.kept(lease.id()), [1]);
    assert_eq!(lab.summary(lease.id()), None);
}

pub fn the_frames_of_a_call_have_so_many_bytes_together(lab: &mut Lab) {
    let lease = lab.lease(work());
    let many = |count| {
        std::iter::repeat_n(NewFrame::new(Payload::bytes(vec![7; Limits::FRAME_BYTES])), count)
    };
    lab.settings.limits.batch_bytes = 4 * Limits::FRAME_BYTES;
    let one_too_many = many(4).chain([frame("x")]);
    refuses(lab, append(&lease, one_too_many), Code::TooLarge, "frames");
    assert_eq!(lab.ok(append(&lease, many(4))).last, 4);
    assert_eq!(lab.ok(append(&lease, many(4))).last, 8);
    let page = lab.see(read(lease.id()));
    assert_eq!((seqs(&page.frames), page.next, page.at_end), (vec![1, 2, 3, 4], 4, false));
    let page = lab.see(ReadStream { backward: true, ..read(lease.id()) });
    assert_eq!((seqs(&page.frames), page.next, page.at_end), (vec![8, 7, 6, 5], 4, false));
    assert_eq!(lab.kept(lease.id()), (1..=8).collect::<Vec<_>>());
}

pub fn every_violation_of_a_call_is_listed(lab: &mut Lab) {
    let lease = lab.lease(work());
    let error = lab.refused(append(
        &lease,
        [
            frame("x").named("a b"),
            frame("good"),
            NewFrame { nulls: names(["/a"]), ..frame("x").named("") },
        ],
    ));
    let fields: Vec<_> = error.violations().into_iter().map(|one| one.field).collect();
    assert_eq!(fields, ["frames[0].name", "frames[2].name", "frames[2].nulls"]);
}

pub fn only_who_holds_the_lease_appends(lab: &mut Lab) {
    let id = lab.submit(work());
    let old = lab.take(id);
    lab.ok(append(&old, [frame("mine")]));
    let expect = |lab: &mut Lab, lease: &Leased, why: LeaseLost| {
        assert_eq!(lab.lost(append(lease, [frame("late")])), why);
        assert_eq!(lab.lost(close_stream(lease)), why);
    };
    lab.pass(secs(31));
    expect(lab, &old, LeaseLost::Expired);
    lab.advance(hours(1));
    let new = lab.take(id);
    expect(lab, &old, LeaseLost::Expired);
    lab.ok(append(&new, [frame("anew")]));
    let page = lab.see(read(id));
    assert_eq!(texts(&page.frames), "mine anew");
    lab.ok(complete(&new));
    expect(lab, &new, LeaseLost::Finished);
    let mut unknown = append(&new, [frame("x")]);
    unknown.lease.execution = self::id(9);
    assert_eq!(lab.refused(unknown).code(), Code::NotFound);
    let elsewhere = Append { namespace: "there".into(), ..append(&new, [frame("x")]) };
    assert_eq!(lab.refused(elsewhere).code(), Code::NotFound);
}

pub fn a_released_or_suspended_lease_appends_no_more(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(release(&lease));
    assert!(lab.refused(append(&lease, [frame("x")])).why_lease_lost().is_some());
    let lease = lab.lease(work());
    lab.suspend(suspend(&lease, Condition::Operator));
    assert!(lab.refused(append(&lease, [frame("x")])).why_lease_lost().is_some());
    assert_eq!(lab.see(read(lease.id())).last, 0);
}

pub fn a_stream_closes_when_its_execution_ends_and_tells_how(lab: &mut Lab) {
    let streaming = |lab: &mut Lab, new: NewExecution| {
        let lease = lab.lease(new);
        lab.ok(append(&lease, [frame("a"), live("b")]));
        assert_eq!(lab.closed(lease.id()), None);
        lease
    };
    let completed = streaming(lab, work());
    lab.ok(complete(&completed));
    let failed = streaming(lab, work());
    lab.ok(fail(&failed, Failure::permanent("broken")));
    let cancelled = streaming(lab, work());
    lab.run(force_cancel(cancelled.id()));
    let stopped = streaming(lab, work());
    lab.run(Cancel::new(stopped.id()));
    assert_eq!(lab.closed(stopped.id()), None, "it runs until it is told");
    lab.ok(append(&stopped, [frame("bye")]));
    lab.ok(acknowledge(&stopped));
    let at = lab.now();
    let mut late = work();
    late.deadline_at = Some(at + secs(5));
    let expired = streaming(lab, late);
    lab.advance(secs(5));
    for (lease, why, frames, age) in [
        (completed, StreamEnd::Completed, 2, 5),
        (failed, StreamEnd::Failed, 2, 5),
        (cancelled, StreamEnd::Cancelled, 2, 5),
        (stopped, StreamEnd::Cancelled, 3, 5),
        (expired, StreamEnd::Expired, 2, 0),
    ] {
        let closed = lab.see(read(lease.id())).closed.expect("it is closed");
        assert_eq!((closed.why, lab.now().since(closed.at)), (why, secs(age)));
        assert_eq!(closings(lab, lease.id()), [json!({ "why": why, "frames": frames })]);
        assert_eq!(lab.history(lease.id()).last(), Some(&EventKind::StreamClosed));
    }
}

pub fn an_execution_without_frames_has_an_empty_stream_that_closes_with_it(lab: &mut Lab) {
    for status in STATES {
        let id = lab.bring(status, work());
        let page = lab.see(read(id));
        assert_eq!((page.frames, page.next, page.last, page.at_end), (vec![], 0, 0, true));
        let view = lab.get(id);
        let ended = view.end.map(|end| StreamClosed {
            at: view.since,
            why: end.outcome.into(),
            attempt: None,
        });
        assert_eq!(page.closed, ended, "{status}");
        assert_eq!(closings(lab, id), Vec::<serde_json::Value>::new());
        assert_eq!(lab.summary(id), None);
    }
}

pub fn a_replay_opens_the_stream_again(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, [frame("a")]));
    lab.ok(complete(&lease));
    assert_eq!(lab.closed(lease.id()), Some(StreamEnd::Completed));
    lab.ok(replay(lease.id()));
    assert_eq!(lab.closed(lease.id()), None);
    let lease = lab.take(lease.id());
    lab.ok(append(&lease, [frame("b")]));
    lab.ok(fail(&lease, Failure::permanent("broken")));
    assert_eq!(lab.closed(lease.id()), Some(StreamEnd::Failed));
    let told = closings(lab, lease.id());
    let first = json!({ "why": "completed", "frames": 1 });
    assert_eq!(told, [first, json!({ "why": "failed", "frames": 2 })]);
}

pub fn a_worker_may_close_the_stream_before_the_end(lab: &mut Lab) {
    for count in [0, 2] {
        let lease = lab.lease(work());
        if count > 0 {
            lab.ok(append(&lease, frames(count)));
        }
        let closed = lab.ok(close_stream(&lease));
        assert_eq!((closed.at, closed.why), (lab.now(), StreamEnd::Finished));
        lab.pass(secs(1));
        assert_eq!(lab.ok(close_stream(&lease)), closed, "the first call counts");
        let error = lab.refused(append(&lease, [frame("late")]));
        assert_eq!(error.code(), Code::StreamClosed);
        assert_eq!(error.details(), Some(&json!({ "why": "finished" })));
        assert_eq!(lab.status(lease.id()), Status::Active);
        lab.ok(complete(&lease));
        let page = lab.see(read(lease.id()));
        assert_eq!((page.closed, page.last), (Some(closed), count as u64));
        let told = closings(lab, lease.id());
        assert_eq!(told, [json!({ "why": "finished", "frames": count })]);
        lab.ok(replay(lease.id()));
        let lease = lab.take(lease.id());
        assert_eq!(lab.ok(append(&lease, [frame("anew")])).first, count as u64 + 1);
    }
}

pub fn a_stream_closed_by_hand_stays_closed_while_its_attempt_goes_on(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, [frame("a")]));
    let closed = lab.ok(close_stream(&lease));
    assert_eq!(closed.attempt, Some(1));
    lab.ok(delay(&lease, secs(5)));
    lab.advance(secs(5));
    let lease = lab.take(lease.id());
    assert_eq!(lab.refused(append(&lease, [frame("late")])).code(), Code::StreamClosed);
    lab.suspend(suspend(&lease, Condition::at("door")));
    lab.ok(signal_at(lease.id(), "door", "go"));
    let lease = lab.take(lease.id());
    assert_eq!(lab.refused(append(&lease, [frame("late")])).code(), Code::StreamClosed);
    assert_eq!(lab.ok(close_stream(&lease)), closed);
    assert_eq!(lab.see(read(lease.id())).closed, Some(closed));
}

pub fn a_stream_closed_by_hand_takes_frames_again_in_the_next_attempt(lab: &mut Lab) {
    let ends: [fn(&mut Lab, &Leased); 4] = [
        |lab, lease| lab.run(retry_after(lease, secs(0))),
        |lab, lease| lab.run(release(lease)),
        |lab, lease| lab.run(RevokeLease::new(lease.id())),
        |lab, _| lab.pass(secs(31)),
    ];
    for end in ends {
        let lease = lab.lease(work());
        lab.ok(append(&lease, [frame("a")]));
        let closed = lab.ok(close_stream(&lease));
        end(lab, &lease);
        lab.advance(secs(1));
        let lease = lab.take(lease.id());
        assert_eq!(lease.attempt, 2);
        assert_eq!(lab.see(read(lease.id())).closed, Some(closed), "nothing more has come");
        assert_eq!(lab.ok(append(&lease, [frame("b")])).first, 2);
        assert_eq!(lab.closed(lease.id()), None);
        let again = lab.ok(close_stream(&lease));
        assert_eq!((again.at, again.attempt), (lab.now(), Some(2)));
        assert_eq!(lab.refused(append(&lease, [frame("c")])).code(), Code::StreamClosed);
        lab.ok(complete(&lease));
        assert_eq!(lab.see(read(lease.id())).closed, Some(again));
        let told = |frames: u64| json!({ "why": "finished", "frames": frames });
        assert_eq!(closings(lab, lease.id()), [told(1), told(2)]);
    }
}

pub fn a_later_attempt_may_close_the_stream_without_a_frame(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(close_stream(&lease));
    lab.ok(release(&lease));
    let lease = lab.take(lease.id());
    lab.pass(secs(1));
    let closed = lab.ok(close_stream(&lease));
    assert_eq!((closed.at, closed.attempt), (lab.now(), Some(2)));
    assert_eq!(lab.refused(append(&lease, [frame("late")])).code(), Code::StreamClosed);
}

pub fn what_ends_before_an_attempt_closes_its_stream_too(lab: &mut Lab) {
    // Without a frame there is nothing to close: its end says so.
    let graph = lab.plant(chain(["a", "b"]));
    lab.fail(graph["a"]);
    assert_eq!(lab.status(graph["b"]), Status::Skipped);
    assert_eq!(lab.closed(graph["b"]), Some(StreamEnd::Skipped));
    assert_eq!(closings(lab, graph["b"]), Vec::<serde_json::Value>::new());
    // What an earlier run has put out is closed again.
    for why in [StreamEnd::Cancelled, StreamEnd::Expired] {
        let lease = lab.lease(work().policy(policy(json!({ "deadline_ms": 60_000 }))));
        lab.ok(append(&lease, [frame("a")]));
        lab.ok(complete(&lease));
        lab.ok(replay(lease.id()));
        assert_eq!(lab.closed(lease.id()), None);
        match why {
            StreamEnd::Cancelled => lab.run(Cancel::new(lease.id())),
            _ => lab.advance(hours(1)),
        }
        assert_eq!(lab.closed(lease.id()), Some(why));
        let told = |why| json!({ "why": why, "frames": 1 });
        assert_eq!(closings(lab, lease.id()), [told(StreamEnd::Completed), told(why)]);
    }
    let graph = lab.plant(chain(["a", "b"]));
    lab.complete(graph["a"]);
    let lease = lab.take(graph["b"]);
    lab.ok(append(&lease, [frame("a")]));
    lab.fail_lease(&lease);
    lab.ok(replay_flow(graph.id, ["a"]));
    assert_eq!(lab.closed(graph["b"]), None);
    lab.fail(graph["a"]);
    assert_eq!(lab.closed(graph["b"]), Some(StreamEnd::Skipped));
}

pub fn a_stream_stays_open_while_its_execution_waits(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, [frame("a")]));
    lab.suspend(suspend(&lease, Condition::at("door")));
    assert_eq!(lab.closed(lease.id()), None);
    lab.ok(signal_at(lease.id(), "door", "go"));
    let lease = lab.take(lease.id());
    lab.ok(append(&lease, [frame("b")]));
    lab.ok(delay(&lease, secs(5)));
    assert_eq!(lab.closed(lease.id()), None);
    lab.advance(secs(5));
    let lease = lab.take(lease.id());
    lab.ok(append(&lease, [frame("c")]));
    let told: Vec<_> =
        lab.frames(read(lease.id())).iter().map(|one| (one.seq, one.attempt)).collect();
    assert_eq!(told, [(1, 1), (2, 1), (3, 1)]);
    lab.suspend(suspend(&lease, Condition::Operator));
    lab.run(Cancel::new(lease.id()));
    assert_eq!(lab.closed(lease.id()), Some(StreamEnd::Cancelled));
}

pub fn an_append_tells_nobody_but_the_stream(lab: &mut Lab) {
    let lease = lab.lease(work());
    let before = (lab.history(lease.id()), lab.get(lease.id()));
    let mut call = lab.call(append(&lease, [frame("a")]));
    let wakes = lab.batch(&mut [&mut call]);
    assert_eq!(wakes.streams, [lease.id()]);
    assert_eq!((lab.history(lease.id()), lab.get(lease.id())), before);
    let mut call = lab.call(append(&lease, []));
    assert_eq!(lab.batch(&mut [&mut call]).streams, []);
    let mut call = lab.call(complete(&lease));
    assert_eq!(lab.batch(&mut [&mut call]).streams, [lease.id()]);
}

pub fn what_is_appended_in_one_transaction_is_numbered_on(lab: &mut Lab) {
    let (one, other) = (lab.lease(work()), lab.lease(work()));
    let mut calls: Vec<_> = (0..30)
        .map(|index| match index % 3 {
            0 => lab.call(append(&other, [frame("o")])),
            1 => lab.call(append(&one, [frame("x"), live("y")])),
            _ => {
                lab.call(append(&one, [NewFrame::patch(&json!({ "a": 1 })), frame("x").named("")]))
            }
        })
        .collect();
    let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as _).collect();
    lab.batch(&mut jobs);
    let done: Vec<_> = calls.into_iter().map(|call| call.into_answer().ok()).collect();
    let numbers = |rest| done.iter().skip(rest).step_by(3).flatten().map(|one| one.last);
    assert_eq!(numbers(0).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    assert_eq!(numbers(1).collect::<Vec<_>>(), (1..=10).map(|n| 2 * n).collect::<Vec<_>>());
    assert_eq!(numbers(2).count(), 0);
    assert_eq!(lab.kept(one.id()), (1..=20).collect::<Vec<_>>());
    assert_eq!(lab.summary(one.id()), None);
}

pub fn a_removed_execution_leaves_nothing_of_its_stream(lab: &mut Lab) {
    for by_hand in [true, false] {
        let new = || work().id(id(7)).policy(policy(json!({ "retention_ms": 1000 })));
        let lease = lab.lease(new());
        let patch = NewFrame::patch(&json!({ "a": 1 }));
        lab.ok(append(&lease, [frame("a"), live("b"), patch]));
        lab.ok(complete(&lease));
        match by_hand {
            true => lab.run(delete(lease.id())),
            false => lab.advance(days(2)),
        }
        let error = lab.ask(read(id(7))).expect_err("it is gone");
        assert_eq!(error.code(), Code::NotFound);
        let summary = ReadSummary { namespace: ns(), execution: id(7) };
        assert_eq!(lab.ask(summary).expect_err("it is gone").code(), Code::NotFound);
        let lease = lab.lease(new());
        assert_eq!((lab.kept(id(7)), lab.summary(id(7))), (vec![], None));
        let appended = lab.ok(append(&lease, [frame("new")]));
        assert_eq!((appended.first, appended.kept, appended.summary_version), (1, 1, 0));
        lab.ok(complete(&lease));
        lab.run(delete(id(7)));
    }
}

pub fn a_stream_survives_a_restart(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, [frame("a"), live("b"), NewFrame::patch(&json!({ "a": 1 }))]));
    let before = (lab.see(read(lease.id())), lab.summary(lease.id()));
    lab.reopen();
    assert_eq!((lab.see(read(lease.id())), lab.summary(lease.id())), before);
    assert_eq!(lab.ok(append(&lease, [frame("c")])).first, 4);
}

pub fn streams_belong_to_their_namespace(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, [frame("a")]));
    let there = || "there".to_owned();
    let submitted = Submit { namespace: there(), executions: vec![work().id(lease.id())] };
    lab.run(submitted);
    let page = lab.see(ReadStream { namespace: there(), ..read(lease.id()) });
    assert_eq!((page.frames, page.last), (vec![], 0));
    assert_eq!(lab.kept(lease.id()), [1]);
}
