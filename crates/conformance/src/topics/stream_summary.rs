//! What a stream comes to: a document that frames change.

use everloom_core::*;
use serde_json::{Value, json};

use crate::Lab;
use crate::fixtures::*;
use crate::stream_lab::*;

#[allow(clippy::needless_pass_by_value, reason = "calls read better without a reference")]
fn patch(patch: Value) -> NewFrame {
    NewFrame::patch(&patch)
}

#[track_caller]
fn document(lab: &mut Lab, id: ExecutionId) -> Value {
    lab.summary(id).expect("there is one").document
}

pub fn there_is_no_summary_before_the_first_patch(lab: &mut Lab) {
    let lease = lab.lease(work());
    assert_eq!(lab.summary(lease.id()), None);
    lab.ok(append(&lease, [frame("{\"a\":1}"), live("{\"a\":1}")]));
    assert_eq!(lab.summary(lease.id()), None);
    assert_eq!(lab.ok(append(&lease, [patch(json!({}))])).summary_version, 1);
    assert_eq!(document(lab, lease.id()), json!({}));
}

pub fn patches_are_merged_as_the_rfc_says(lab: &mut Lab) {
    for (target, change, result) in [
        (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
        (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
        (json!({"a":"b"}), json!({"a":null}), json!({})),
        (json!({"a":"b","b":"c"}), json!({"a":null}), json!({"b":"c"})),
        (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
        (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
        (json!({"a":{"b":"c"}}), json!({"a":{"b":"d","c":null}}), json!({"a":{"b":"d"}})),
        (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
        (json!({}), json!({"a":{"bb":{"ccc":null}}}), json!({"a":{"bb":{}}})),
        (json!({"a":1}), json!({"a":[null,{"b":null}]}), json!({"a":[null,{"b":null}]})),
        (json!({"a":{"b":1}}), json!({"a":{}}), json!({"a":{"b":1}})),
        (json!({"":1,"ü":"\u{0}"}), json!({"":null}), json!({"ü":"\u{0}"})),
        (json!({"a":9_007_199_254_740_993_u64}), json!({"b":-0.5}), {
            json!({"a":9_007_199_254_740_993_u64,"b":-0.5})
        }),
    ] {
        let lease = lab.lease(work());
        lab.ok(append(&lease, [patch(target)]));
        lab.ok(append(&lease, [patch(change.clone())]));
        assert_eq!(document(lab, lease.id()), result, "{change}");
    }
}

pub fn each_patch_is_a_version_and_its_frame_tells_which(lab: &mut Lab) {
    let lease = lab.lease(work());
    let begun = lab.now();
    let several = [patch(json!({"a":1})), frame("x"), live("y"), patch(json!({"b":2}))];
    assert_eq!(lab.ok(append(&lease, several)).summary_version, 2);
    lab.pass(secs(3));
    assert_eq!(lab.ok(append(&lease, [frame("z")])).summary_version, 2);
    assert_eq!(lab.ok(append(&lease, [patch(json!({"a":null}))])).summary_version, 3);
    let summary = lab.summary(lease.id()).expect("there is one");
    assert_eq!(
        summary,
        SummaryView {
            version: 3,
            first_at: begun,
            updated_at: begun + secs(3),
            document: json!({"b":2}),
        }
    );
    let versions: Vec<_> =
        lab.frames(read(lease.id())).iter().map(|frame| frame.summary_version).collect();
    assert_eq!(versions, [Some(1), None, None, Some(2), None, Some(3)]);
    let first = lab.frames(read(lease.id())).remove(0);
    assert_eq!(first.payload.bytes, b"{\"a\":1}");
    assert!(!first.live);
}

pub fn pointers_set_members_to_null(lab: &mut Lab) {
    let lease = lab.lease(work());
    let pointers = names(["/a", "/b/c", "/b/new", "/d/1", "/e~1f", "/g~0h", "/"]);
    let whole = json!({"a":1,"b":{"c":2},"d":[1,2],"e/f":3,"g~h":4,"i":5});
    lab.ok(append(&lease, [NewFrame { nulls: pointers, ..patch(whole) }]));
    let nulled = json!({
        "a":null,"b":{"c":null,"new":null},"d":[1,null],"e/f":null,"g~h":null,"i":5,"":null
    });
    assert_eq!(document(lab, lease.id()), nulled);
    lab.ok(append(&lease, [NewFrame { nulls: names(["/i"]), ..patch(json!({"d":null})) }]));
    assert_eq!(document(lab, lease.id())["i"], json!(null));
    assert_eq!(document(lab, lease.id()).get("d"), None);
}

pub fn bad_patches_are_refused_and_change_nothing(lab: &mut Lab) {
    let lease = lab.lease(work());
    lab.ok(append(&lease, [patch(json!({"a":{"b":1},"list":[1]}))]));
    let refuse = |lab: &mut Lab, bad: NewFrame, field: &str| {
        let several = [patch(json!({"other":1})), frame("x"), bad];
        let error = lab.refused(append(&lease, several));
        let field = format!("frames[2].{field}");
        assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some(field.as_str())));
    };
    let text = |text: &str| NewFrame { keep: FrameMode::Summary, ..frame(text) };
    for bad in ["", "{", "{\"a\":1} x", "[1]", "null", "1", "\"text\"", "{\"a\":1e999}"] {
        refuse(lab, text(bad), "payload");
    }
    let binary = NewFrame::new(Payload::bytes(vec![0xff, 0xfe]));
    refuse(lab, NewFrame { keep: FrameMode::Summary, ..binary }, "payload");
    let nested = |depth: usize| text(&format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)));
    for depth in [Limits::SUMMARY_DEPTH + 1, 1000] {
        refuse(lab, nested(depth), "payload");
    }
    for bad in ["", "a", "/x/y", "/a/b/c", "/list/1", "/list/-", "/a~2b", "/a~"] {
        refuse(lab, NewFrame { nulls: names([bad]), ..patch(json!({})) }, "nulls");
    }
    let many = vec!["/a".to_owned(); Limits::NAMES + 1];
    refuse(lab, NewFrame { nulls: many, ..patch(json!({})) }, "nulls");
    assert_eq!(document(lab, lease.id()), json!({"a":{"b":1},"list":[1]}));
    assert_eq!(lab.ok(append(&lease, [nested(Limits::SUMMARY_DEPTH)])).summary_version, 2);
}

pub fn a_summary_has_at_most_a_mebibyte(lab: &mut Lab) {
    let lease = lab.lease(work());
    // What is around five texts: {"a":"","b":"","c":"","d":"","e":""}
    let (share, rest) = (200 << 10, Limits::SUMMARY_BYTES - 4 * (200 << 10) - 36);
    let texts: Vec<_> =
        ["a", "b", "c", "d"].map(|key| patch(json!({ key: "x".repeat(share) }))).into();
    lab.ok(append(&lease, texts));
    let error =
        lab.refused(append(&lease, [frame("x"), patch(json!({ "e": "x".repeat(rest + 1) }))]));
    assert_eq!((error.code(), error.field()), (Code::TooLarge, Some("frames")), "{error}");
    let last = lab.ok(append(&lease, [patch(json!({ "e": "x".repeat(rest) }))]));
    assert_eq!((last.last, last.summary_version), (5, 5));
    assert_eq!(document(lab, lease.id()).to_string().len(), Limits::SUMMARY_BYTES);
    lab.ok(append(&lease, [patch(json!({ "a": null })), patch(json!({ "f": 1 }))]));
}

pub fn a_summary_goes_on_across_attempts_and_outlives_its_frames(lab: &mut Lab) {
    let lease = lab.lease(work().policy(policy(json!({ "stream_retention": 1 }))));
    lab.ok(append(&lease, [patch(json!({"a":1}))]));
    lab.ok(append(&lease, frames(5)));
    lab.ok(append(&lease, frames(1)));
    assert_eq!(lab.kept(lease.id()), [7]);
    lab.ok(complete(&lease));
    assert_eq!(document(lab, lease.id()), json!({"a":1}));
    lab.ok(replay(lease.id()));
    let lease = lab.take(lease.id());
    assert_eq!(lab.ok(append(&lease, [patch(json!({"b":2}))])).summary_version, 2);
    lab.reopen();
    assert_eq!(document(lab, lease.id()), json!({"a":1,"b":2}));
}

pub fn summaries_are_of_executions_that_exist(lab: &mut Lab) {
    let unknown = ReadSummary { namespace: ns(), execution: id(9) };
    assert_eq!(lab.ask(unknown).expect_err("there is none").code(), Code::NotFound);
}
