//! Removing ended work by hand.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

pub fn ended_work_can_be_deleted(lab: &mut Lab) {
    for status in ended_states() {
        let id = lab.bring(status, work().input(Payload::bytes("x")));
        lab.ok(delete(id));
        assert_eq!(lab.ask(get(id)).unwrap_err().code(), Code::NotFound, "{status}");
        assert_eq!(lab.refused(delete(id)).code(), Code::NotFound);
    }
    assert_eq!(lab.counts().total(), 0);
}

pub fn work_that_has_not_ended_can_not_be_deleted(lab: &mut Lab) {
    for status in open_states() {
        let id = lab.bring(status, work());
        let error = lab.refused(delete(id));
        assert_eq!(error.code(), Code::WrongState);
        assert!(error.message().contains("cancel"), "{error}");
    }
}

pub fn the_events_of_deleted_work_stay(lab: &mut Lab) {
    let id = lab.bring(Status::Cancelled, work());
    lab.ok(delete(id));
    use EventKind::{Cancelled, Deleted, Submitted};
    assert_eq!(lab.history(id), [Submitted, Cancelled, Deleted]);
    let deleted = lab.events(of_kinds([Deleted])).remove(0);
    assert_eq!(deleted.data, Some(json!({ "by": "operator" })));
}

pub fn deleting_one_leaves_the_others(lab: &mut Lab) {
    let one = lab.bring(Status::Completed, work());
    let lease = lab.lease(work().input(Payload::bytes("x")));
    lab.ok(delete(one));
    lab.reopen();
    assert_eq!(lab.see(input_of(lease.id())), Payload::bytes("x"));
    lab.ok(complete(&lease));
}

pub fn a_second_life_under_the_same_id_knows_nothing_of_the_first(lab: &mut Lab) {
    let old = lab.lease(work().id(id(1)).tag("a", "b"));
    lab.ok(Complete { result: Payload::bytes("old"), ..complete(&old) });
    lab.ok(delete(id(1)));
    lab.submit(work().id(id(1)));
    let view = lab.get(id(1));
    assert_eq!((view.status, view.attempt, view.tags), (Status::Waiting, 0, tags([])));
    assert_eq!(lab.attempts(id(1)), []);
    let new = lab.take(id(1));
    assert_eq!(lab.lost(complete(&old)), LeaseLost::Superseded);
    lab.ok(complete(&new));
    assert_eq!(lab.see(result_of(id(1))).result, Some(Payload::default()));
}
