//! Forgetting what has had its time.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

fn kept_for(ms: u64) -> NewExecution {
    work().policy(policy(json!({ "retention_ms": ms })))
}

#[track_caller]
fn is_gone(lab: &mut Lab, id: ExecutionId) -> bool {
    match lab.ask(get(id)) {
        Ok(_) => false,
        Err(error) => error.code() == Code::NotFound,
    }
}

pub fn ended_work_is_kept_for_a_week(lab: &mut Lab) {
    for status in ended_states() {
        let id = lab.bring(status, work());
        assert_eq!(lab.get(id).due_at, Some(lab.now() + days(7)));
        lab.advance(days(7) - secs(1));
        assert!(!is_gone(lab, id), "{status}");
        lab.advance(secs(61));
        assert!(is_gone(lab, id), "{status}");
        assert_eq!(lab.history(id).last(), Some(&EventKind::Deleted));
    }
}

pub fn retention_counts_from_the_end_and_not_from_the_submission(lab: &mut Lab) {
    let id = lab.submit(kept_for(60_000));
    lab.advance(days(30));
    assert_eq!(lab.status(id), Status::Waiting);
    let lease = lab.take(id);
    lab.ok(complete(&lease));
    lab.advance(secs(59));
    assert!(!is_gone(lab, id));
    lab.advance(secs(61));
    assert!(is_gone(lab, id));
}

pub fn work_whose_retention_is_zero_is_kept_for_ever(lab: &mut Lab) {
    let id = lab.bring(Status::Completed, kept_for(0));
    assert_eq!(lab.get(id).due_at, None);
    lab.advance(days(1000));
    assert_eq!(lab.status(id), Status::Completed);
}

pub fn work_kept_for_long_does_not_keep_what_is_kept_briefly(lab: &mut Lab) {
    for _ in 0..30 {
        lab.bring(Status::Completed, work().lane("long"));
    }
    let brief = lab.bring(Status::Completed, kept_for(1000));
    lab.advance(secs(61));
    assert!(is_gone(lab, brief));
    assert_eq!(lab.counts().total(), 30);
}

pub fn removed_work_leaves_nothing_but_its_events(lab: &mut Lab) {
    let lease = lab.lease(kept_for(1000).input(Payload::bytes("in")).tag("a", "b"));
    lab.ok(Complete { result: Payload::bytes("out"), ..complete(&lease) });
    lab.advance(secs(61));
    assert_eq!(lab.counts().total(), 0);
    let tagged = ListExecutions { tags: tags([("a", "b")]), ..ListExecutions::default() };
    assert_eq!(lab.list(tagged), []);
    assert!(lab.ask(input_of(lease.id())).is_err() && lab.ask(result_of(lease.id())).is_err());
    use EventKind::{Claimed, Completed, Deleted, Submitted};
    assert_eq!(lab.history(lease.id()), [Submitted, Claimed, Completed, Deleted]);
    let removed = lab.events(of_kinds([Deleted])).remove(0);
    assert_eq!(
        (removed.data, removed.tags),
        (Some(json!({ "by": "retention" })), tags([("a", "b")]))
    );
}

pub fn much_that_has_had_its_time_is_removed_at_once(lab: &mut Lab) {
    let ids = lab.submit_all((0..500).map(|_| kept_for(1000)));
    for id in &ids {
        lab.ok(Cancel::new(*id));
    }
    lab.advance(secs(61));
    assert_eq!(lab.counts().total(), 0);
}

pub fn retention_goes_on_after_a_restart(lab: &mut Lab) {
    lab.advance(secs(90));
    let id = lab.bring(Status::Completed, kept_for(1000));
    lab.reopen();
    lab.reopen();
    lab.advance(secs(61));
    assert!(is_gone(lab, id));
}

pub fn an_id_whose_execution_was_removed_is_free(lab: &mut Lab) {
    let id = lab.bring(Status::Completed, kept_for(1000).id(id(1)));
    lab.advance(secs(61));
    assert_eq!(lab.submit(NewExecution::new("other").id(id)), id);
    assert_eq!((lab.get(id).kind, lab.attempts(id)), ("other".into(), vec![]));
}

pub fn events_are_kept_for_a_week(lab: &mut Lab) {
    lab.submit(work());
    lab.submit(work());
    lab.advance(days(7) - secs(1));
    lab.submit(work());
    assert_eq!(lab.events(EventFilter::default()).len(), 3);
    lab.advance(secs(62));
    assert_eq!(lab.events(EventFilter::default()).len(), 1);
}

pub fn events_may_be_kept_for_ever(lab: &mut Lab) {
    lab.settings.event_retention = secs(0);
    lab.submit(work());
    lab.submit(work());
    lab.advance(days(1000));
    assert_eq!(lab.events(EventFilter::default()).len(), 2);
}

pub fn the_newest_event_is_never_removed(lab: &mut Lab) {
    lab.submit_all((0..500).map(|_| work()));
    let last = lab.events(EventFilter::default()).pop().unwrap();
    lab.advance(days(30));
    assert_eq!(lab.events(EventFilter::default()), [last]);
}

pub fn a_change_of_the_interval_of_sweeps_is_respected(lab: &mut Lab) {
    lab.settings.sweep_every = hours(1);
    lab.advance(secs(60));
    let id = lab.bring(Status::Completed, kept_for(1000));
    lab.advance(secs(3599));
    assert!(!is_gone(lab, id));
    lab.advance(secs(1));
    assert!(is_gone(lab, id));
}
