//! Labelling executions.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;

pub fn tags_are_merged_and_null_removes(lab: &mut Lab) {
    let id = lab.submit(work().tag("a", "1").tag("b", "2"));
    let tagged =
        lab.ok(set_tags(id, [("b", Some("3")), ("a", None), ("c", Some("")), ("d", None)]));
    let expected = tags([("b", "3"), ("c", "")]);
    assert_eq!(tagged.tags, expected);
    lab.reopen();
    assert_eq!(lab.get(id).tags, expected);
}

pub fn work_in_any_state_can_be_tagged(lab: &mut Lab) {
    for status in STATES {
        let id = lab.bring(status, work());
        let before = lab.get(id);
        lab.ok(set_tags(id, [("a", Some("1"))]));
        assert_eq!(lab.get(id), ExecutionView { tags: tags([("a", "1")]), ..before });
    }
}

pub fn changed_tags_are_found_and_old_ones_are_not(lab: &mut Lab) {
    let id = lab.submit(work().tag("a", "1"));
    lab.ok(set_tags(id, [("a", Some("2"))]));
    let mut with = |value: &str| {
        lab.list(ListExecutions { tags: tags([("a", value)]), ..ListExecutions::default() }).len()
    };
    assert_eq!((with("1"), with("2")), (0, 1));
}

pub fn a_tag_survives_whatever_happens_to_its_execution(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(set_tags(lease.id(), [("a", Some("1"))]));
    lab.ok(renew(&lease));
    lab.ok(retry_after(&lease, secs(0)));
    let lease = lab.claim("w");
    assert_eq!(lease.tags, tags([("a", "1")]));
    lab.ok(complete(&lease));
    lab.ok(replay(lease.id()));
    assert_eq!(lab.get(lease.id()).tags, tags([("a", "1")]));
}

pub fn tags_that_stay_the_same_are_no_change(lab: &mut Lab) {
    let id = lab.submit(work().tag("a", "1"));
    let before = lab.snapshot();
    lab.ok(set_tags(id, [("a", Some("1")), ("b", None)]));
    lab.ok(set_tags(id, []));
    assert_eq!(lab.snapshot(), before);
}

pub fn a_change_of_tags_is_told_with_the_change(lab: &mut Lab) {
    let id = lab.submit(work().tag("a", "1"));
    lab.ok(set_tags(id, [("a", None), ("b", Some("2"))]));
    let event = lab.events(of_kinds([EventKind::Tagged])).remove(0);
    assert_eq!(event.tags, tags([("b", "2")]));
    let changes = serde_json::json!({ "changes": { "a": null, "b": "2" } });
    assert_eq!(event.data, Some(changes));
}

pub fn there_are_never_more_tags_than_allowed(lab: &mut Lab) {
    let id = lab.submit((0..64).fold(work(), |new, n| new.tag(format!("t{n}"), "")));
    let error = lab.refused(set_tags(id, [("more", Some(""))]));
    assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("tags")));
    assert!(error.message().contains("64") && error.message().contains("65"), "{error}");
    lab.ok(set_tags(id, [("more", Some("")), ("t0", None)]));
    assert_eq!(lab.get(id).tags.len(), 64);
}

pub fn a_tag_no_store_could_keep_is_refused(lab: &mut Lab) {
    assert_eq!(lab.refused(submit([work().tag("a", "b\0")])).code(), Code::InvalidInput);
    let id = lab.submit(work());
    assert_eq!(lab.refused(set_tags(id, [("a", Some("\0"))])).code(), Code::InvalidInput);
    lab.request(NewRequest { options: r#"{"tags":{"a":"\u0000"}}"#.into(), ..request() });
    assert_eq!(lab.apply_inbox(), (0, 1));
}
