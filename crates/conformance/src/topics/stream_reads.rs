//! Reading streams: every frame once, in either direction, and what retention leaves.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::stream_lab::*;
use crate::walk::random::Random;

/// An execution that has put out frames of both sorts in several attempts, and what they are.
#[track_caller]
fn random_stream(lab: &mut Lab, random: &mut Random) -> (ExecutionId, Vec<FrameView>) {
    let id = lab.submit(work().policy(policy(json!({ "retry": { "max_retries": 100 } }))));
    let mut lease = lab.take(id);
    let mut model = Vec::new();
    for _ in 0..40 {
        if random.percent(10) {
            lab.ok(retry_after(&lease, secs(0)));
            lab.advance(secs(1));
            lease = lab.take(id);
        }
        let most = random.one_of(&[1, 3, 30]);
        let new: Vec<_> = (0..1 + random.below(most))
            .map(|_| {
                let bytes = vec![7; random.index(20)];
                match random.percent(40) {
                    true => NewFrame::live(Payload::bytes(bytes)),
                    false => NewFrame::new(Payload::bytes(bytes)),
                }
            })
            .collect();
        let appended = lab.ok(append(&lease, new.clone()));
        assert_eq!(appended.first, model.len() as u64 + 1);
        for frame in new {
            model.push(FrameView {
                seq: model.len() as u64 + 1,
                at: lab.now(),
                attempt: lease.attempt,
                kind: frame.kind,
                name: None,
                correlation: None,
                live: frame.keep.is_live(),
                summary_version: None,
                payload: frame.payload,
            });
        }
        assert_eq!(appended.last, model.len() as u64);
        lab.pass(ms(random.below(3)));
    }
    (id, model)
}

/// What a read comes to, by looking at every frame.
fn expected(model: &[FrameView], read: &ReadStream) -> Vec<FrameView> {
    let last = model.len() as u64;
    let after = match read.from {
        StreamFrom::Oldest => 0,
        StreamFrom::Now => last,
        StreamFrom::After(after) => after,
    };
    let wanted = |frame: &&FrameView| {
        frame.seq > after
            && read.to.is_none_or(|to| frame.seq <= to)
            && read.attempt.is_none_or(|attempt| frame.attempt == attempt)
            && !(read.durable_only && frame.live)
    };
    let mut frames: Vec<_> = model.iter().filter(wanted).cloned().collect();
    if read.backward {
        frames.reverse();
    }
    frames
}

pub fn every_read_is_what_looking_at_each_frame_comes_to(lab: &mut Lab) {
    let seed = std::env::var("EVERLOOM_SEED").ok().and_then(|text| text.parse().ok());
    let mut random = Random::new(seed.unwrap_or(1));
    for _ in 0..5 {
        lab.settings.limits.batch_bytes = 16 << 20;
        let (id, model) = random_stream(lab, &mut random);
        let last = model.len() as u64;
        for _ in 0..100 {
            let most = random.one_of(&[5, 200]);
            let wish = ReadStream {
                from: match random.percent(20) {
                    true => random.one_of(&[StreamFrom::Oldest, StreamFrom::Now]),
                    false => StreamFrom::After(random.below(last + 1)),
                },
                to: random.percent(50).then(|| random.below(last + 3)),
                attempt: random.percent(30).then(|| 1 + random.index(5) as u32),
                durable_only: random.percent(40),
                backward: random.percent(50),
                limit: 1 + random.index(most),
                ..read(id)
            };
            lab.settings.limits.batch_bytes = random.one_of(&[30, 200, 16 << 20]);
            assert_eq!(lab.frames(wish.clone()), expected(&model, &wish), "{wish:?}");
            let page = lab.see(wish.clone());
            assert_eq!((page.last, page.closed), (last, None));
            assert!(expected(&model, &wish).starts_with(&page.frames), "{wish:?}");
        }
    }
}

pub fn a_page_says_where_to_read_on(lab: &mut Lab) {
    let lease = lab.lease(work());
    let id = lease.id();
    lab.ok(append(&lease, frames(5)));
    let page = lab.see(ReadStream { limit: 2, ..read(id) });
    assert_eq!((seqs(&page.frames), page.next, page.at_end), (vec![1, 2], 2, false));
    let page = lab.see(ReadStream { limit: 3, ..read_after(id, 2) });
    assert_eq!((seqs(&page.frames), page.next, page.at_end), (vec![3, 4, 5], 5, true));
    let page = lab.see(read_after(id, 5));
    assert_eq!((seqs(&page.frames), page.next, page.at_end), (vec![], 5, true));
    let page = lab.see(ReadStream { limit: 2, backward: true, ..read(id) });
    assert_eq!((seqs(&page.frames), page.next, page.at_end), (vec![5, 4], 3, false));
    let rest = ReadStream { limit: 3, backward: true, to: Some(3), ..read(id) };
    let page = lab.see(rest.clone());
    assert_eq!((seqs(&page.frames), page.at_end), (vec![3, 2, 1], true));
    let page = lab.see(ReadStream { from: StreamFrom::After(1), ..rest });
    assert_eq!((seqs(&page.frames), page.next, page.at_end), (vec![3, 2], 1, true));
}

pub fn a_reader_at_the_end_gets_what_comes_and_nothing_else(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, frames(5)));
    let now = lab.see(ReadStream { from: StreamFrom::Now, ..read(lease.id()) });
    assert_eq!((seqs(&now.frames), now.next, now.last, now.at_end), (vec![], 5, 5, true));
    lab.ok(append(&lease, [live("a"), frame("b")]));
    let page = lab.see(read_after(lease.id(), now.next));
    assert_eq!((seqs(&page.frames), page.next), (vec![6, 7], 7));
    let durable = ReadStream { durable_only: true, ..read_after(lease.id(), now.next) };
    assert_eq!(seqs(&lab.see(durable).frames), [7]);
}

pub fn a_page_without_the_frames_that_do_not_match_goes_on_past_them(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, [live("a"), live("b")]));
    let durable = ReadStream { durable_only: true, ..read(lease.id()) };
    let page = lab.see(durable);
    assert_eq!((seqs(&page.frames), page.next, page.last, page.at_end), (vec![], 2, 2, true));
    let other = ReadStream { attempt: Some(2), ..read(lease.id()) };
    let page = lab.see(other);
    assert_eq!((seqs(&page.frames), page.next, page.at_end), (vec![], 2, true));
}

pub fn bad_reads_are_refused(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, frames(3)));
    for limit in [0, Limits::PAGE + 1] {
        let error = lab.ask(ReadStream { limit, ..read(lease.id()) }).expect_err("refused");
        assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("limit")));
    }
    for after in [4, u64::MAX] {
        for backward in [false, true] {
            let beyond = ReadStream { backward, ..read_after(lease.id(), after) };
            let error = lab.ask(beyond).expect_err("refused");
            assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("from")));
        }
    }
    assert_eq!(lab.ask(read(id(9))).expect_err("refused").code(), Code::NotFound);
    for to in [0, u64::MAX] {
        let count = lab.see(ReadStream { to: Some(to), ..read(lease.id()) }).frames.len();
        assert_eq!(count, if to == 0 { 0 } else { 3 });
    }
}

pub fn never_fewer_durable_frames_are_kept_than_the_policy_says(lab: &mut Lab) {
    let mut random = Random::new(1);
    for retention in [1, 7, 50] {
        let wish = policy(json!({ "stream_retention": retention }));
        let lease = lab.lease(work().policy(wish));
        let mut last = 0;
        for _ in 0..60 {
            let count = 1 + random.index(9);
            let appended = lab.ok(append(&lease, frames(count)));
            last += count as u64;
            let kept = lab.kept(lease.id());
            assert_eq!((appended.last, appended.kept), (last, kept.len() as u64));
            assert!(appended.kept >= retention.min(last), "{} of {retention}", appended.kept);
            assert!(appended.kept < retention + 9, "{} of {retention}", appended.kept);
            assert_eq!(kept, (last + 1 - appended.kept..=last).collect::<Vec<_>>());
        }
    }
}

pub fn ten_thousand_durable_frames_are_kept_where_no_policy_says_otherwise(lab: &mut Lab) {
    let lease = lab.lease(work());
    for _ in 0..10 {
        lab.ok(append(&lease, frames(1000)));
    }
    assert_eq!(lab.ok(append(&lease, frames(999))).kept, 10_999, "together or not at all");
    assert_eq!(lab.ok(append(&lease, frames(1))).kept, 10_000);
    assert_eq!(lab.see(read(lease.id())).frames[0].seq, 1001);
}

pub fn the_retention_of_a_stream_has_its_limits(lab: &mut Lab) {
    for bad in [0, Limits::STREAM_FRAMES + 1] {
        let wish = work().policy(policy(json!({ "stream_retention": bad })));
        let error = lab.submission(wish).expect_err("refused");
        assert_eq!(error.code(), Code::InvalidInput);
        assert_eq!(error.field(), Some("executions[0].policy.stream_retention"));
    }
}

pub fn a_cursor_below_what_is_kept_has_expired(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "stream_retention": 5 }))));
    let id = lease.id();
    for _ in 0..20 {
        lab.ok(append(&lease, [frame("a"), frame("b")]));
    }
    assert_eq!(lab.kept(id), (35..=40).collect::<Vec<_>>());
    for after in [0, 1, 33] {
        let error = lab.ask(read_after(id, after)).expect_err("expired");
        assert_eq!(error.code(), Code::CursorExpired, "{after}");
    }
    assert_eq!(seqs(&lab.see(read_after(id, 34)).frames), [35, 36, 37, 38, 39, 40]);
    let back = lab.see(ReadStream { backward: true, limit: 4, ..read(id) });
    assert_eq!((seqs(&back.frames), back.next, back.at_end), (vec![40, 39, 38, 37], 36, false));
    let back = lab.see(ReadStream { backward: true, to: Some(back.next), ..read(id) });
    assert_eq!((seqs(&back.frames), back.at_end), (vec![36, 35], true));
}

pub fn live_frames_older_than_what_is_kept_do_not_lead_a_reader_astray(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "stream_retention": 2 }))));
    for _ in 0..10 {
        lab.ok(append(&lease, [frame("a"), live("b"), frame("c")]));
    }
    for limit in [1, 2, 100] {
        for backward in [false, true] {
            let mut seen = seqs(&lab.frames(ReadStream { limit, backward, ..read(lease.id()) }));
            seen.sort_unstable();
            assert_eq!(seen, [28, 29, 30]);
        }
    }
}
