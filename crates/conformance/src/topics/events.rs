//! The event log and those who follow it.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::limit_lab::*;
use crate::mail_lab::*;
use crate::sabotage::{How, Sabotage};
use crate::stream_lab::*;

/// Reads on from a cursor to the end, in pages of three.
#[track_caller]
fn read_on(lab: &mut Lab, filter: &EventFilter, cursor: &mut From) -> Vec<Event> {
    let mut seen = Vec::new();
    loop {
        let page = lab.see(ReadEvents { filter: filter.clone(), from: *cursor, limit: 3 });
        assert!(page.events.len() <= 3);
        seen.extend(page.events);
        *cursor = From::After(page.next);
        if page.at_end {
            return seen;
        }
    }
}

/// Makes a handful of events of several kinds, in several lanes and namespaces.
fn something_happens(lab: &mut Lab, round: u32) {
    let lane = ["default", "other"][round as usize % 2];
    let tagged = work().id(id(round)).lane(lane).tag("round", round.to_string());
    let lease = lab.lease(tagged.tag("all", "yes"));
    lab.submit(work().lane("idle"));
    let there = Submit { namespace: "there".into(), executions: vec![work().id(id(round))] };
    lab.ok(there);
    lab.ok(retry_after(&lease, secs(1)));
    lab.ok(set_tags(lease.id(), [("all", None), ("later", Some("yes"))]));
    lab.advance(secs(1));
    let lease = lab.take(lease.id());
    lab.ok(complete(&lease));
}

#[track_caller]
fn a_follower_sees_all_of(lab: &mut Lab, filter: &EventFilter, wanted: fn(&Event) -> bool) {
    let mut cursor = From::Oldest;
    let mut seen = Vec::new();
    for round in 0..6 {
        something_happens(lab, round);
        seen.extend(read_on(lab, filter, &mut cursor));
        if round % 2 == 1 {
            lab.reopen();
        }
    }
    let mut expected = lab.events(EventFilter::default());
    expected.retain(wanted);
    assert!(!expected.is_empty());
    assert_eq!(seen, expected);
    assert_eq!(read_on(lab, filter, &mut cursor), []);
}

pub fn a_follower_misses_nothing_and_repeats_nothing(lab: &mut Lab) {
    a_follower_sees_all_of(lab, &EventFilter::default(), |_| true);
}

pub fn a_follower_of_kinds_misses_nothing_and_repeats_nothing(lab: &mut Lab) {
    let filter = of_kinds([EventKind::Completed, EventKind::Claimed]);
    a_follower_sees_all_of(lab, &filter, |event| {
        matches!(event.kind, EventKind::Completed | EventKind::Claimed)
    });
}

pub fn a_follower_of_a_namespace_misses_nothing_and_repeats_nothing(lab: &mut Lab) {
    a_follower_sees_all_of(lab, &in_namespace("there"), |event| event.namespace == "there");
}

pub fn a_follower_of_a_lane_misses_nothing_and_repeats_nothing(lab: &mut Lab) {
    let filter = EventFilter { lane: Some("other".into()), ..in_namespace(DEFAULT_NAME) };
    a_follower_sees_all_of(lab, &filter, |event| event.lane.as_deref() == Some("other"));
}

pub fn a_follower_of_an_execution_misses_nothing_and_repeats_nothing(lab: &mut Lab) {
    let everywhere = EventFilter { execution: Some(id(2)), ..EventFilter::default() };
    a_follower_sees_all_of(lab, &everywhere, |event| event.execution == Some(id(2)));
}

pub fn a_follower_of_an_execution_in_its_namespace_misses_nothing(lab: &mut Lab) {
    a_follower_sees_all_of(lab, &about(id(3)), |event| {
        event.execution == Some(id(3)) && event.namespace == DEFAULT_NAME
    });
}

pub fn a_follower_of_tags_sees_what_had_them_when_it_happened(lab: &mut Lab) {
    let filter = EventFilter { tags: tags([("all", "yes")]), ..EventFilter::default() };
    a_follower_sees_all_of(lab, &filter, |event| event.tags.contains_key("all"));
    let kinds: Vec<_> = lab.events(filter).iter().take(3).map(|event| event.kind).collect();
    use EventKind::{Claimed, Completed, Retrying, Submitted, Tagged};
    assert_eq!(kinds, [Submitted, Claimed, Retrying]);
    let later = tags([("later", "yes"), ("round", "0")]);
    let later = lab.events(EventFilter { tags: later, ..EventFilter::default() });
    let kinds: Vec<_> = later.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Tagged, EventKind::BecameReady, Claimed, Completed]);
}

pub fn a_follower_of_an_execution_sees_its_removal_and_its_second_life(lab: &mut Lab) {
    let first = lab.bring(Status::Completed, work().id(id(1)));
    let mut cursor = From::Now;
    assert_eq!(read_on(lab, &about(first), &mut cursor), []);
    lab.ok(delete(first));
    lab.submit(work().id(id(1)));
    let seen = read_on(lab, &about(first), &mut cursor);
    let kinds: Vec<_> = seen.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Deleted, EventKind::Submitted]);
    let whole = lab.history(first);
    assert_eq!((whole[0], whole.len()), (EventKind::Submitted, 5));
}

pub fn a_follower_may_begin_now(lab: &mut Lab) {
    lab.submit(work());
    let mut cursor = From::Now;
    assert_eq!(read_on(lab, &EventFilter::default(), &mut cursor), []);
    let id = lab.submit(work());
    let seen = read_on(lab, &EventFilter::default(), &mut cursor);
    assert_eq!((seen.len(), seen[0].execution), (1, Some(id)));
}

pub fn a_follower_of_what_does_not_exist_yet_sees_it_come(lab: &mut Lab) {
    lab.submit(work());
    let filter = EventFilter { lane: Some("late".into()), ..in_namespace("later") };
    let mut cursor = From::Oldest;
    assert_eq!(read_on(lab, &filter, &mut cursor), []);
    let new = work().lane("late");
    lab.ok(Submit { namespace: "later".into(), executions: vec![new] });
    assert_eq!(read_on(lab, &filter, &mut cursor).len(), 1);
}

pub fn a_page_without_matches_still_moves_the_cursor(lab: &mut Lab) {
    lab.submit_all((0..10).map(|_| work()));
    let page =
        lab.see(ReadEvents { filter: of_kinds([EventKind::Completed]), ..ReadEvents::default() });
    assert_eq!((page.events.len(), page.at_end), (0, true));
    let last = lab.events(EventFilter::default()).pop().unwrap();
    assert_eq!(page.next, last.cursor);
}

pub fn an_empty_log_can_be_followed(lab: &mut Lab) {
    for from in [From::Oldest, From::Now] {
        let page = lab.see(ReadEvents { from, ..ReadEvents::default() });
        assert_eq!((page.events.len(), page.at_end), (0, true));
        lab.see(ReadEvents { from: From::After(page.next), ..ReadEvents::default() });
    }
}

pub fn a_cursor_whose_events_were_removed_says_so(lab: &mut Lab) {
    lab.settings.event_retention = hours(1);
    lab.submit_all((0..5).map(|_| work()));
    let old = lab.events(EventFilter::default());
    lab.advance(hours(2));
    lab.submit(work());
    lab.advance(secs(60));
    let after = |cursor| ReadEvents { from: From::After(cursor), ..ReadEvents::default() };
    let error = lab.ask(after(old[0].cursor)).unwrap_err();
    assert_eq!(error.code(), Code::CursorExpired);
    assert!(error.message().contains("oldest"), "{error}");
    let kept = lab.see(ReadEvents::default()).events;
    assert!(kept.iter().all(|event| !old[..4].contains(event)));
    let first_kept = Cursor(kept[0].cursor.0 - 1);
    assert_eq!(lab.see(after(first_kept)).events, kept);
}

pub fn a_cursor_at_the_end_never_expires(lab: &mut Lab) {
    lab.settings.event_retention = hours(1);
    lab.submit_all((0..5).map(|_| work()));
    let mut cursor = From::Oldest;
    read_on(lab, &EventFilter::default(), &mut cursor);
    lab.advance(days(30));
    lab.reopen();
    assert_eq!(read_on(lab, &EventFilter::default(), &mut cursor), []);
    lab.submit(work());
    assert_eq!(read_on(lab, &EventFilter::default(), &mut cursor).len(), 1);
}

pub fn a_cursor_beyond_the_end_is_refused(lab: &mut Lab) {
    lab.submit(work());
    let last = lab.events(EventFilter::default())[0].cursor;
    for beyond in [last.0 + 1, i64::MAX] {
        let from = From::After(Cursor(beyond));
        let error = lab.ask(ReadEvents { from, ..ReadEvents::default() }).unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("from")));
    }
}

pub fn a_lane_filter_needs_its_namespace(lab: &mut Lab) {
    let filter = EventFilter { lane: Some("default".into()), ..EventFilter::default() };
    let error = lab.ask(ReadEvents { filter, ..ReadEvents::default() }).unwrap_err();
    assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("filter.namespace")));
}

pub fn a_command_that_failed_after_its_work_leaves_no_trace(lab: &mut Lab) {
    let lease = lab.lease(work());
    for how in [How::Error, How::Panic] {
        let before = lab.snapshot();
        let seed = lab.seed();
        let mut submitting = Sabotage::new(submit([work().key("k").lane("new")]), seed, how);
        let mut completing = Sabotage::new(complete(&lease), seed, how);
        let mut registering = Sabotage::new(RegisterWorker::new("pool", "w"), seed, how);
        lab.batch(&mut [&mut submitting, &mut completing, &mut registering]);
        let code = match how {
            How::Error => Code::WrongState,
            How::Panic => Code::Internal,
        };
        assert_eq!(submitting.refusal().code(), code);
        assert_eq!(completing.refusal().code(), code);
        assert_eq!(registering.refusal().code(), code);
        assert_eq!(lab.snapshot(), before);
    }
    lab.reopen();
    lab.ok(complete(&lease));
}

pub fn a_command_that_failed_does_not_harm_those_beside_it(lab: &mut Lab) {
    let lease = lab.lease(work());
    let mut before = lab.call(submit([work().id(id(1))]));
    let mut bad = Sabotage::new(force_cancel(lease.id()), lab.seed(), How::Panic);
    let mut refused = lab.call(replay(lease.id()));
    let mut after = lab.call(complete(&lease));
    lab.batch(&mut [&mut before, &mut bad, &mut refused, &mut after]);
    assert_eq!(before.into_answer().unwrap().executions[0].id(), id(1));
    assert_eq!(bad.refusal().code(), Code::Internal);
    assert_eq!(refused.into_answer().unwrap_err().code(), Code::WrongState);
    assert!(!after.into_answer().unwrap().repeated);
    use EventKind::{Claimed, Completed, Submitted};
    assert_eq!(lab.history(lease.id()), [Submitted, Claimed, Completed]);
    assert_eq!(lab.history(id(1)), [Submitted]);
}

pub fn renewals_are_told_only_when_asked_for(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(renew(&lease));
    assert_eq!(lab.events(of_kinds([EventKind::Renewed])), []);
    lab.settings.log_renewals = true;
    lab.ok(renew(&lease));
    let told = lab.events(of_kinds([EventKind::Renewed]));
    assert_eq!((told.len(), told[0].worker.as_deref()), (1, Some("w")));
}

pub fn every_end_is_told_exactly_once(lab: &mut Lab) {
    for status in ended_states() {
        let id = lab.bring(status, work());
        lab.advance(hours(1));
        let ends = lab.history(id).into_iter().filter(|kind| kind.is_terminal()).count();
        assert_eq!(ends, 1, "{status}");
    }
}

pub fn causes_come_before_effects(lab: &mut Lab) {
    for round in 0..4 {
        something_happens(lab, round);
    }
    let events = lab.events(EventFilter::default());
    assert!(events.is_sorted_by(|a, b| a.cursor < b.cursor && a.at <= b.at));
    let submitted = |event: &Event| (event.kind == EventKind::Submitted).then_some(event.execution);
    for (index, event) in events.iter().enumerate() {
        let earlier = &events[..index];
        let same = |other: &&Event| {
            (other.execution, &other.namespace) == (event.execution, &event.namespace)
        };
        if event.kind != EventKind::Submitted && event.execution.is_some() {
            assert!(earlier.iter().filter(same).any(|other| submitted(other).is_some()));
        }
        if let Some(last) = earlier.iter().rfind(same) {
            assert!(last.epoch <= event.epoch && last.attempt <= event.attempt);
        }
    }
}

pub fn an_event_says_what_it_is_about(lab: &mut Lab) {
    let id = lab.submit(work().lane("mail").tag("a", "b"));
    lab.pass(secs(2));
    let lease = lab.take(id);
    let event = lab.events(of_kinds([EventKind::Claimed])).remove(0);
    assert_eq!((event.at, event.namespace.as_str()), (lab.now(), "default"));
    assert_eq!((event.execution, event.lane.as_deref()), (Some(id), Some("mail")));
    assert_eq!((event.attempt, event.epoch), (Some(1), Some(lease.lease.epoch)));
    assert_eq!((event.worker.as_deref(), event.tags), (Some("w"), tags([("a", "b")])));
}

fn limits_happen(lab: &mut Lab) {
    lab.ok(make(at_once(1)));
    lab.ok(update(at_once(2)));
    lab.ok(attach(AttachTo::Kind("other".into())));
    lab.ok(detach(AttachTo::Kind("other".into())));
    lab.ok(delete_quota("q"));
    let terms = dimensions([("tokens", Some(10), Some(5))]);
    lab.ok(fund(on_breach(OnBreach::Pause, terms.clone())));
    let paused = lab.lease(costing(0));
    lab.ok(spend(&paused, 6));
    lab.ok(spend(&paused, 6));
    lab.advance(secs(0));
    lab.advance(secs(29));
    lab.ok(renew(&paused));
    lab.advance(secs(1));
    lab.ok(give_back(paused.id()));
    lab.ok(reset());
    lab.ok(revise(terms));
    lab.ok(Cancel::new(paused.id()));
    lab.ok(delete_budget("b"));
    lab.bring(Status::RateLimited, work());
}

pub fn every_kind_of_event_happens(lab: &mut Lab) {
    lab.settings.log_renewals = true;
    lab.ok(PutNamespace { namespace: ns(), defaults: Defaults::default() });
    lab.ok(put_lane("default", Defaults::default()));
    let lease = lab.lease(work());
    lab.ok(renew(&lease));
    lab.ok(delay(&lease, secs(1)));
    lab.advance(secs(1));
    let lease = lab.take(lease.id());
    lab.ok(retry_after(&lease, secs(0)));
    let lease = lab.take(lease.id());
    lab.ok(release(&lease));
    lab.reserve(lease.id());
    lab.advance(secs(60));
    lab.take(lease.id());
    lab.ok(RevokeLease::new(lease.id()));
    lab.take(lease.id());
    lab.advance(secs(30));
    lab.take(lease.id());
    lab.ok(RegisterWorker::new("pool", "w"));
    lab.ok(RegisterWorker::new("pool", "w"));
    lab.advance(secs(60));
    lab.ok(RegisterWorker::new("pool", "w"));
    lab.ok(mark_dead("w"));
    for status in ended_states() {
        lab.bring(status, work());
    }
    lab.take(lease.id());
    lab.ok(Cancel::new(lease.id()));
    lab.ok(force_cancel(lease.id()));
    lab.ok(replay(lease.id()));
    lab.ok(hold(lease.id()));
    lab.ok(unhold(lease.id()));
    lab.ok(prioritise(lease.id(), 1));
    lab.ok(set_tags(lease.id(), [("a", Some("b"))]));
    lab.ok(Cancel::new(lease.id()));
    lab.ok(delete(lease.id()));
    let streaming = lab.lease(work());
    lab.ok(close_stream(&streaming));
    let escalated = lab.lease(work());
    let escalating =
        Suspend { timeout: Some(secs(1)), ..suspend(&escalated, Condition::at("door")) };
    lab.ok(Suspend { on_timeout: Some(OnTimeout::Escalate), ..escalating });
    lab.advance(secs(1));
    lab.ok(signal_at(escalated.id(), "door", "knock"));
    let (namespace, kid) = (ns(), "k2".to_owned());
    lab.ok(RotateSigningKey {
        namespace: namespace.clone(),
        kid: Some(kid.clone()),
        secret: None,
        grace: None,
    });
    lab.ok(RevokeSigningKey { namespace, kid });
    lab.ok(pause("default"));
    lab.ok(drain("default"));
    lab.ok(resume("default"));
    limits_happen(lab);
    let told = lab.events(EventFilter::default());
    let by_flows = [EventKind::Skipped, EventKind::Blocked];
    let alone = |kind: &&EventKind| !kind.as_str().starts_with("flow.") && !by_flows.contains(kind);
    for kind in EventKind::ALL.iter().filter(alone) {
        assert!(told.iter().any(|event| event.kind == *kind), "{} never happened", kind.as_str());
    }
}
