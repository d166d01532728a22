//! Approvals: how many people, which ones, and what they said.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;
use crate::waiting::*;

/// So many approvals at `a`, where so many rejections settle it too.
fn asked(approvers: u32, rejections: u32) -> Condition {
    Condition::Approval { waitpoint: "a".into(), approvers, rejections, role: None }
}

fn with_roles<const N: usize>(approve: Approve, roles: [&str; N]) -> Approve {
    Approve { roles: names(roles), ..approve }
}

fn by_token(one: &Waiting, key: &str) -> Approve {
    Approve::new(one.id, SignalTo::Token(one.token(key).clone()), None)
}

pub fn as_many_people_as_asked_must_approve(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 3));
    for by in ["ann", "bob@example.com"] {
        assert_eq!(effect(lab, one.approve("a", by)), Effect::Recorded);
        assert_eq!(lab.status(one.id), Status::Suspended);
    }
    assert_eq!(effect(lab, one.approve("a", "cid")), RESUMED);
    assert_eq!(lab.doors(one.id), "a:satisfied");
}

pub fn two_approvals_by_one_person_count_once(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 2));
    assert_eq!(effect(lab, one.approve("a", "ann")), Effect::Recorded);
    let again = Approve { comment: Some("really".into()), ..one.approve("a", "ann") };
    assert_eq!(effect(lab, with_roles(again, ["cfo"])), ignored(Offered::NothingNew));
    assert_eq!(lab.status(one.id), Status::Suspended);
    assert_eq!(effect(lab, one.approve("a", "Ann")), RESUMED, "names are not folded");
}

pub fn one_rejection_settles_it(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 3));
    assert_eq!(effect(lab, one.approve("a", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.reject("a", "bob")), RESUMED);
    let (_, resumption) = lab.resumption(one.id);
    let said = resumption.signals.iter().map(|one| one.approval.as_ref().unwrap().approved);
    assert_eq!(said.collect::<Vec<_>>(), [true, false]);
}

pub fn as_many_rejections_settle_it_as_it_says(lab: &mut Lab) {
    let one = waiting(lab, asked(2, 2));
    assert_eq!(effect(lab, one.reject("a", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.reject("a", "ann")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.approve("a", "bob")), Effect::Recorded);
    assert_eq!(effect(lab, one.reject("a", "cid")), RESUMED);
}

pub fn rejections_need_not_settle_it(lab: &mut Lab) {
    let one = waiting(lab, asked(1, 0));
    for by in ["ann", "bob", "cid", "dan"] {
        assert_eq!(effect(lab, one.reject("a", by)), Effect::Recorded);
    }
    assert_eq!(waits_for(lab, one.id).unwrap(), "0 of 1 approval: waiting for a");
    assert_eq!(effect(lab, one.approve("a", "eve")), RESUMED);
}

pub fn the_last_word_of_each_person_counts(lab: &mut Lab) {
    let one = waiting(lab, asked(2, 2));
    assert_eq!(effect(lab, one.approve("a", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.reject("a", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.approve("a", "bob")), Effect::Recorded);
    assert_eq!(waits_for(lab, one.id).unwrap(), "1 of 2 approvals: waiting for a");
    assert_eq!(effect(lab, one.approve("a", "ann")), RESUMED);
}

pub fn what_is_settled_stays_so(lab: &mut Lab) {
    let one = waiting(lab, Condition::all([asked(1, 1), Condition::at("b")]));
    assert_eq!(effect(lab, one.approve("a", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.reject("a", "ann")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.reject("a", "bob")), ignored(Offered::NothingNew));
    assert_eq!(waits_for(lab, one.id).unwrap(), "a signal at b");
    let verdicts = lab.waitpoints(one.id)[0].approvals[0].verdicts.clone();
    assert_eq!(verdicts, [("ann".to_owned(), true)].into());
    assert_eq!(effect(lab, one.bearing("b", "x")), RESUMED);
}

pub fn whoever_lacks_the_role_is_refused(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 1).by_role("cfo"));
    for roles in [names([]), names(["cto", "CFO", "cfo.deputy"])] {
        let approve = Approve { roles: roles.clone(), ..one.approve("a", "ann") };
        let reject = Reject { roles, ..one.reject("a", "ann") };
        for error in [lab.refused(approve), lab.refused(reject)] {
            assert_eq!((error.code(), error.field()), (Code::Forbidden, Some("roles")));
            assert!(error.message().contains("cfo"), "{error}");
        }
    }
    let cfo = with_roles(one.approve("a", "ann"), ["cto", "cfo"]);
    assert_eq!(effect(lab, cfo), RESUMED);
}

pub fn whoever_has_a_role_that_any_part_asks_for_may_speak(lab: &mut Lab) {
    let one = waiting(
        lab,
        Condition::all([
            Condition::approval("a", 1).by_role("cfo"),
            Condition::any([Condition::approval("a", 1).by_role("cto"), Condition::at("b")]),
        ]),
    );
    let error = lab.refused(with_roles(one.approve("a", "ann"), ["ceo"]));
    assert!(error.message().contains("cfo or cto"), "{error}");
    // One word counts wherever it is asked for.
    assert_eq!(effect(lab, with_roles(one.approve("a", "ann"), ["cto"])), Effect::Recorded);
    let again = with_roles(one.approve("a", "bob"), ["cto"]);
    assert_eq!(effect(lab, again), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, with_roles(one.approve("a", "ann"), ["cfo"])), RESUMED);
    let both = waiting(
        lab,
        Condition::all(["cfo", "cto"].map(|role| Condition::approval("a", 1).by_role(role))),
    );
    assert_eq!(effect(lab, with_roles(both.approve("a", "ann"), ["cfo", "cto"])), RESUMED);
}

pub fn nobody_needs_a_role_where_any_part_asks_for_none(lab: &mut Lab) {
    let one = waiting(
        lab,
        Condition::all([
            Condition::approval("a", 1).by_role("cfo"),
            Condition::approval("a", 2),
            Condition::approval("b", 1).by_role("cto"),
        ]),
    );
    assert_eq!(effect(lab, one.approve("a", "ann")), Effect::Recorded);
    assert_eq!(lab.refused(one.approve("b", "ann")).code(), Code::Forbidden);
    assert_eq!(effect(lab, with_roles(one.approve("a", "bob"), ["cfo"])), Effect::Recorded);
    assert_eq!(effect(lab, with_roles(one.approve("b", "bob"), ["cto"])), RESUMED);
}

pub fn a_role_is_asked_of_those_who_approve_only(lab: &mut Lab) {
    let part = Condition::approval("a", 1).by_role("cfo");
    let one = waiting(lab, Condition::any([part, Condition::at("a").named("skip")]));
    assert_eq!(effect(lab, one.signal("a", "x", "ann")), ignored(Offered::OtherName));
    assert_eq!(effect(lab, one.signal("a", "skip", "ann")), RESUMED);
}

pub fn early_approvals_count_by_the_roles_they_came_with(lab: &mut Lab) {
    let leased = lab.lease(work());
    let ticket = pending(lab, &leased, "a");
    let early = Waiting { id: leased.id(), tickets: vec![ticket] };
    assert_eq!(effect(lab, early.approve("a", "ann")), Effect::Buffered);
    let cto = with_roles(early.approve("a", "bob"), ["cto"]);
    assert_eq!(effect(lab, cto), Effect::Buffered);
    let cfo = with_roles(early.approve("a", "cid"), ["cfo"]);
    assert_eq!(effect(lab, cfo), Effect::Buffered);
    let one = wait(lab, &leased, Condition::approval("a", 2).by_role("cfo"));
    let counted: Vec<_> = lab.signals(one.id).iter().map(|one| one.counted).collect();
    assert_eq!(counted, [false, false, true]);
    assert_eq!(waits_for(lab, one.id).unwrap(), "1 of 2 approvals by cfo: waiting for a");
    assert_eq!(effect(lab, with_roles(one.approve("a", "ann"), ["cfo"])), RESUMED);
}

pub fn early_approvals_may_be_all_it_takes(lab: &mut Lab) {
    let leased = lab.lease(work());
    let ticket = pending(lab, &leased, "a");
    let early = Waiting { id: leased.id(), tickets: vec![ticket] };
    lab.ok(early.approve("a", "ann"));
    lab.ok(early.approve("a", "bob"));
    // What is said after it was settled changes nothing, early or not.
    lab.ok(early.reject("a", "bob"));
    let resumption = lab.already_satisfied(suspend(&leased, Condition::approval("a", 2)));
    let counted: Vec<_> = resumption.signals.iter().map(|one| one.counted).collect();
    assert_eq!(counted, [true, true, false]);
    assert_eq!(lab.status(leased.id()), Status::Active);
}

pub fn the_bearer_of_a_token_is_one_person_of_any_role(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 2).by_role("cfo"));
    assert_eq!(effect(lab, by_token(&one, "a")), Effect::Recorded);
    assert_eq!(effect(lab, by_token(&one, "a")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, with_roles(one.approve("a", "ann"), ["cfo"])), RESUMED);
    let came = lab.signals(one.id).remove(0);
    assert_eq!(came.source, format!("token:{}", one.ticket("a").id));
    assert_eq!(came.approval.unwrap().roles, names([]));
}

pub fn a_bearer_may_reject_and_think_better_of_it(lab: &mut Lab) {
    let one = waiting(lab, asked(1, 2));
    let to = SignalTo::Token(one.token("a").clone());
    assert_eq!(effect(lab, Reject::new(one.id, to, None)), Effect::Recorded);
    assert_eq!(effect(lab, by_token(&one, "a")), RESUMED);
}

pub fn whoever_approves_says_who_they_are(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 1));
    let nobody = Approve::new(one.id, at("a"), None);
    let bearer = || by_token(&one, "a");
    let long = "x".repeat(Limits::TEXT + 1);
    let mut many = one.approve("a", "ann");
    many.roles = (0..=Limits::NAMES).map(|number| format!("r{number}")).collect();
    let payload = Payload::bytes(vec![0; lab.settings.limits.payload_bytes + 1]);
    for (field, approve) in [
        ("by", nobody),
        ("by", one.approve("a", "")),
        ("by", one.approve("a", "not a name")),
        ("by", Approve { by: Some("ann".into()), ..bearer() }),
        ("roles", with_roles(bearer(), ["cfo"])),
        ("roles", with_roles(one.approve("a", "ann"), ["not a role"])),
        ("roles", many),
        ("at", Approve::new(one.id, SignalTo::Execution, Some("ann"))),
        ("comment", Approve { comment: Some(long), ..bearer() }),
        ("comment", Approve { comment: Some("a\nb".into()), ..bearer() }),
        ("key", Approve { key: Some(String::new()), ..bearer() }),
        ("payload", Approve { payload, ..bearer() }),
        ("resume_delay_ms", Approve { resume_delay: ms(1), ..bearer() }),
        (
            "resume_delay_ms",
            Approve { resume_delay: Limits::DURATION_MAX + ms(1), ..one.approve("a", "ann") },
        ),
    ] {
        let error = lab.refused(approve);
        assert_eq!(error.field(), Some(field), "{error}");
        assert!(matches!(error.code(), Code::InvalidInput | Code::TooLarge), "{error}");
    }
    assert_eq!(effect(lab, bearer()), RESUMED);
}

pub fn what_approvers_say_reaches_the_handler(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 2));
    let payload = Payload { content_type: "text/x".into(), bytes: b"\0\xff".to_vec() };
    let first = Approve {
        comment: Some("good, but mind the gap".into()),
        payload: payload.clone(),
        roles: names(["cfo", "cto"]),
        ..one.approve("a", "ann")
    };
    lab.ok(first);
    lab.ok(Reject { comment: Some("no".into()), ..one.reject("a", "bob") });
    let (leased, resumption) = lab.resumption(one.id);
    assert!(leased.resumed);
    let [ann, bob] = &resumption.signals[..] else { panic!("two answers") };
    assert_eq!((ann.name.as_str(), ann.source.as_str()), ("approved", "ann"));
    assert_eq!((bob.name.as_str(), bob.source.as_str()), ("rejected", "bob"));
    assert_eq!(ann.payload, Some(payload));
    assert_eq!((bob.size, bob.payload.clone()), (0, Some(Payload::default())));
    let approval = ann.approval.as_ref().unwrap();
    assert_eq!(approval.comment.as_deref(), Some("good, but mind the gap"));
    assert_eq!(approval.roles, names(["cfo", "cto"]));
    assert_eq!(bob.approval.as_ref().unwrap().comment.as_deref(), Some("no"));
    assert_eq!(resumption.end.by, EndedBy::Signal { signal: bob.id });
}

pub fn who_said_what_and_when_is_on_record(lab: &mut Lab) {
    let one = waiting(lab, asked(2, 9));
    let begun = lab.now();
    let comment = Some("fine".to_owned());
    let roles = names(["cfo"]);
    lab.ok(Approve { comment: comment.clone(), roles: roles.clone(), ..one.approve("a", "ann") });
    lab.pass(secs(5));
    lab.ok(one.reject("a", "bob"));
    lab.pass(secs(5));
    lab.ok(by_token(&one, "a"));
    let fingerprint = lab.waitpoints(one.id)[0].fingerprint;
    let trace = TokenTrace { kid: "k1".into(), fingerprint };
    let observed = lab.see(ObserveSignals::new(one.id)).signals;
    assert_eq!(observed, lab.signals(one.id));
    let approval = |approved, comment, roles| Some(Approval { approved, comment, roles });
    let said: Vec<_> =
        observed.into_iter().map(|one| (one.at, one.source, one.approval, one.token)).collect();
    let bearer = format!("token:{}", one.ticket("a").id);
    assert_eq!(
        said,
        [
            (begun, "ann".to_owned(), approval(true, comment, roles), None),
            (begun + secs(5), "bob".to_owned(), approval(false, None, vec![]), None),
            (begun + secs(10), bearer.clone(), approval(true, None, vec![]), Some(trace.clone())),
        ]
    );
    let events = lab.events(of_kinds([EventKind::SignalDelivered]));
    let told: Vec<_> = events
        .into_iter()
        .map(|event| (event.at, event.execution, event.data.unwrap_or_default()))
        .map(|(at, execution, data)| {
            assert_eq!(execution, Some(one.id));
            assert_eq!((&data["waitpoint"], &data["suspension"]), (&json!("a"), &json!(1)));
            json!([at, data["source"], data["approval"], data["token"], data["effect"]])
        })
        .collect();
    let ann = json!({ "approved": true, "comment": "fine", "roles": ["cfo"] });
    assert_eq!(
        told,
        [
            json!([begun, "ann", ann, null, "recorded"]),
            json!([begun + secs(5), "bob", { "approved": false }, null, "recorded"]),
            json!([begun + secs(10), bearer, { "approved": true }, trace, "resumed"]),
        ]
    );
}

pub fn what_an_approval_did_not_bring_on_is_on_record_too(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 2));
    lab.ok(one.approve("a", "ann"));
    let again = Approve { comment: Some("again".into()), ..one.approve("a", "ann") };
    lab.ok(again);
    let second = lab.signals(one.id).remove(1);
    assert_eq!((second.suspension, second.counted), (Some(1), false));
    assert_eq!(second.approval.unwrap().comment.as_deref(), Some("again"));
    let told = lab.events(of_kinds([EventKind::SignalDelivered])).remove(1).data.unwrap();
    assert_eq!(told["effect"], json!("ignored"));
}

pub fn an_approval_is_a_signal_of_that_name(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a").named("approved"));
    assert_eq!(effect(lab, one.reject("a", "ann")), ignored(Offered::OtherName));
    assert_eq!(effect(lab, one.approve("a", "ann")), RESUMED);
    let counted = Condition::count(2, Distinct::Sources, ["a"]).named("rejected");
    let one = waiting(lab, counted);
    assert_eq!(effect(lab, one.reject("a", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.reject("a", "ann")), ignored(Offered::NothingNew));
    assert_eq!(effect(lab, one.reject("a", "bob")), RESUMED);
}

pub fn a_rejection_is_a_signal_where_any_will_do(lab: &mut Lab) {
    let one = waiting(lab, Condition::at("a"));
    assert_eq!(effect(lab, one.reject("a", "ann")), RESUMED);
}

pub fn a_plain_signal_is_no_approval(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 1));
    for name in ["approved", "rejected", "x"] {
        assert_eq!(effect(lab, one.signal("a", name, "ann")), ignored(Offered::OtherName));
        assert_eq!(effect(lab, one.bearing("a", name)), ignored(Offered::OtherName));
        let to_execution = DeliverSignal::new(one.id, name);
        assert_eq!(effect(lab, to_execution), Effect::Buffered);
    }
    assert_eq!(lab.status(one.id), Status::Suspended);
    assert_eq!(effect(lab, one.approve("a", "ann")), RESUMED);
}

pub fn an_approval_counts_at_its_own_waitpoint_only(lab: &mut Lab) {
    let all = ["finance", "legal", "ops"].map(|key| Condition::approval(key, 1));
    let one = waiting(lab, Condition::all(all));
    assert_eq!(effect(lab, one.approve("ops", "ann")), Effect::Recorded);
    assert_eq!(effect(lab, one.approve("ops", "bob")), ignored(Offered::NothingNew));
    let told = "1 of 3 approvals: waiting for finance, legal";
    assert_eq!(waits_for(lab, one.id).unwrap(), told);
    assert!(lab.explain(one.id).contains(told));
    assert_eq!(effect(lab, by_token(&one, "legal")), Effect::Recorded);
    assert_eq!(effect(lab, one.approve("finance", "ann")), RESUMED);
}

pub fn a_closed_waitpoint_takes_no_approval(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 1));
    let id = one.ticket("a").id;
    let to = SignalTo::Waitpoint(WaitpointName::Id(id));
    lab.ok(one.approve("a", "ann"));
    assert_eq!(closed(lab, Approve::new(one.id, to.clone(), Some("bob"))), "satisfied");
    assert_eq!(closed(lab, Reject::new(one.id, to.clone(), Some("bob"))), "satisfied");
    assert_eq!(lab.refused(one.approve("a", "bob")).code(), Code::NotFound);
    lab.ok(Cancel::new(one.id));
    assert_eq!(closed(lab, Approve::new(one.id, to, Some("bob"))), "satisfied");
    let two = waiting(lab, Condition::approval("a", 1));
    lab.ok(Cancel::new(two.id));
    let to = SignalTo::Waitpoint(WaitpointName::Id(two.ticket("a").id));
    assert_eq!(closed(lab, Approve::new(two.id, to, Some("bob"))), "ended");
}

pub fn what_does_not_exist_takes_no_approval(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 1));
    let other = waiting(lab, Condition::approval("b", 1));
    let to = SignalTo::Waitpoint(WaitpointName::Id(other.ticket("b").id));
    for approve in [
        one.approve("b", "ann"),
        Approve::new(one.id, to, Some("ann")),
        Approve::new(id(404), at("a"), Some("ann")),
        Approve { namespace: "there".into(), ..one.approve("a", "ann") },
    ] {
        assert_eq!(lab.refused(approve).code(), Code::NotFound);
    }
    let alone = lab.submit(work());
    assert_eq!(lab.refused(Reject::new(alone, at("a"), Some("ann"))).code(), Code::NotFound);
}

pub fn saying_it_again_under_the_same_key_does_nothing(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 2));
    let first = Approve { key: Some("k".into()), ..one.approve("a", "ann") };
    let delivered = lab.ok(first.clone());
    let duplicate = Delivered { signal: delivered.signal, effect: Effect::Duplicate };
    let before = lab.snapshot();
    assert_eq!(lab.ok(first.clone()), duplicate);
    let changed = Reject { key: Some("k".into()), ..one.reject("a", "ann") };
    assert_eq!(lab.ok(changed.clone()), duplicate);
    assert_eq!(lab.snapshot(), before);
    assert_eq!(effect(lab, one.approve("a", "bob")), RESUMED);
    // The waitpoint has closed; its id finds it.
    let to = SignalTo::Waitpoint(WaitpointName::Id(one.ticket("a").id));
    assert_eq!(lab.ok(Approve { at: to.clone(), ..first }), duplicate);
    assert_eq!(lab.ok(Reject { at: to, ..changed }), duplicate);
}

pub fn an_approval_may_let_it_go_on_later(lab: &mut Lab) {
    let one = waiting(lab, Condition::approval("a", 1));
    let later = Approve { resume_delay: secs(30), ..one.approve("a", "ann") };
    assert_eq!(effect(lab, later), Effect::Resumed { status: Status::Delayed });
    lab.advance(ms(29_999));
    assert_eq!(lab.status(one.id), Status::Delayed);
    lab.advance(ms(1));
    assert_eq!(lab.status(one.id), Status::Resumable);
}

pub fn the_inbox_shows_what_is_asked_and_what_was_said(lab: &mut Lab) {
    let leased = lab.lease(work());
    let condition = Condition::all([
        asked(2, 0),
        Condition::approval("a", 1).by_role("cfo"),
        Condition::at("b").named("go"),
    ]);
    let note = Some("May we ship it?".to_owned());
    let reason = SuspendReason::WaitingForApproval;
    let tickets = lab.suspend(Suspend { note, reason, ..suspend(&leased, condition) });
    let one = Waiting { id: leased.id(), tickets };
    lab.ok(one.reject("a", "ann"));
    lab.ok(with_roles(one.approve("a", "bob"), ["cfo"]));
    let mut inbox = lab.see(ListInbox::default()).waitpoints;
    inbox.sort_by_key(|one| one.seq);
    assert_eq!(inbox, lab.waitpoints(one.id));
    let [a, b] = &inbox[..] else { panic!("two places") };
    assert_eq!((a.execution, a.kind.as_str(), a.key.as_str()), (one.id, "work", "a"));
    assert_eq!(a.note.as_deref(), Some("May we ship it?"));
    assert_eq!(a.reason, Some(SuspendReason::WaitingForApproval));
    let [anyone, cfo] = &a.approvals[..] else { panic!("two approvals are asked for") };
    assert_eq!((anyone.approvers, anyone.rejections, anyone.role.as_deref()), (2, 0, None));
    assert_eq!((cfo.approvers, cfo.rejections, cfo.role.as_deref()), (1, 1, Some("cfo")));
    let said =
        |pairs: &[(&str, bool)]| pairs.iter().map(|(by, word)| ((*by).to_owned(), *word)).collect();
    assert_eq!(anyone.verdicts, said(&[("ann", false), ("bob", true)]));
    assert_eq!(cfo.verdicts, said(&[("bob", true)]));
    assert_eq!((b.approvals.as_slice(), b.names.as_slice()), (&[][..], &names(["go"])[..]));
    lab.ok(Resume::new(one.id));
    assert_eq!(lab.see(ListInbox::default()), InboxPage::default());
}

pub fn the_inbox_is_searched_by_who_is_asked(lab: &mut Lab) {
    let later = |lab: &mut Lab, condition| {
        lab.pass(ms(1));
        waiting(lab, condition)
    };
    let plain = later(lab, Condition::at("plain"));
    let anyone = later(lab, Condition::approval("anyone", 1));
    let cfo = later(lab, Condition::approval("cfo", 1).by_role("cfo"));
    let cto = later(lab, Condition::approval("cto", 1).by_role("cto"));
    lab.pass(ms(1));
    let leased = lab.lease(work());
    pending(lab, &leased, "early");
    let found = |lab: &mut Lab, query: ListInbox| {
        let keys: Vec<_> = lab.see(query).waitpoints.into_iter().map(|one| one.key).collect();
        keys.join(" ")
    };
    let all = ListInbox::default;
    let role = |role: &str| Some(role.to_owned());
    assert_eq!(found(lab, all()), "plain anyone cfo cto early");
    assert_eq!(found(lab, ListInbox { approvals: true, ..all() }), "anyone cfo cto");
    assert_eq!(found(lab, ListInbox { role: role("cfo"), ..all() }), "anyone cfo");
    assert_eq!(found(lab, ListInbox { role: role("x"), approvals: true, ..all() }), "anyone");
    assert_eq!(found(lab, ListInbox { key: role("cto"), ..all() }), "cto");
    assert_eq!(found(lab, ListInbox { key: role("cto"), role: role("cfo"), ..all() }), "");
    assert_eq!(found(lab, ListInbox { namespace: "there".into(), ..all() }), "");
    // Page by page, each is shown once.
    let mut query = ListInbox { approvals: true, limit: 1, ..all() };
    let mut seen = Vec::new();
    loop {
        let page = lab.see(query.clone());
        assert!(page.waitpoints.len() <= 1);
        seen.extend(page.waitpoints.into_iter().map(|one| one.execution));
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, [anyone.id, cfo.id, cto.id]);
    lab.ok(plain.bearing("plain", "x"));
    lab.ok(anyone.approve("anyone", "ann"));
    assert_eq!(found(lab, all()), "cfo cto early");
}
