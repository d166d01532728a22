//! Looking at waitpoints: those of an execution, and the inbox of a namespace.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;
use crate::mail_lab::*;

/// All of the inbox, in pages of that size.
#[track_caller]
fn inbox(lab: &mut Lab, mut query: ListInbox) -> Vec<WaitpointView> {
    let mut all = Vec::new();
    loop {
        let page = lab.see(query.clone());
        assert!(page.waitpoints.len() <= query.limit);
        all.extend(page.waitpoints);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return all,
        }
    }
}

fn keys(views: &[WaitpointView]) -> Vec<&str> {
    views.iter().map(|one| one.key.as_str()).collect()
}

pub fn what_never_waited_has_no_waitpoints(lab: &mut Lab) {
    let id = lab.submit(work());
    for closed in [false, true] {
        let page = lab.see(ListWaitpoints { closed, ..ListWaitpoints::new(id) });
        assert_eq!(page, WaitpointPage::default());
    }
    lab.ok(signal(id, "early"));
    assert_eq!(lab.see(ListWaitpoints::new(id)), WaitpointPage::default());
    assert_eq!(lab.suspensions(id), []);
}

pub fn what_is_not_there_has_no_lists(lab: &mut Lab) {
    let (known, _) = lab.suspended(Condition::at("door"));
    let codes = |lab: &mut Lab, namespace: &str, id: ExecutionId| {
        let name = || namespace.to_owned();
        [
            lab.ask(ListWaitpoints { namespace: name(), ..ListWaitpoints::new(id) }).err(),
            lab.ask(ListSignals { namespace: name(), ..list_signals(id) }).err(),
            lab.ask(ListSuspensions { namespace: name(), ..list_suspensions(id) }).err(),
            lab.ask(ObserveSignals { namespace: name(), ..ObserveSignals::new(id) }).err(),
            lab.ask(ListSteps { namespace: name(), ..list_steps(id) }).err(),
        ]
        .map(|error| error.expect("it is not there").code())
    };
    assert_eq!(codes(lab, DEFAULT_NAME, id(9)), [Code::NotFound; 5]);
    assert_eq!(codes(lab, "there", known), [Code::NotFound; 5]);
}

pub fn pages_of_waiting_things_are_limited(lab: &mut Lab) {
    let (id, _) = lab.suspended(Condition::at("door"));
    for limit in [0, 1001] {
        for error in [
            lab.ask(ListWaitpoints { limit, ..ListWaitpoints::new(id) }).err(),
            lab.ask(ListSignals { limit, ..list_signals(id) }).err(),
            lab.ask(ListSuspensions { limit, ..list_suspensions(id) }).err(),
            lab.ask(ObserveSignals { limit, ..ObserveSignals::new(id) }).err(),
            lab.ask(ListSteps { limit, ..list_steps(id) }).err(),
            lab.ask(ListInbox { limit, ..ListInbox::default() }).err(),
        ] {
            let error = error.expect("the page is refused");
            assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("limit")));
        }
    }
}

pub fn a_waitpoint_tells_everything_but_its_token(lab: &mut Lab) {
    let lease = lab.lease(NewExecution::new("order"));
    let id = lease.id();
    let expires_in = Some(hours(2));
    let pending = CreateWaitpoint { expires_in, ..create_waitpoint(&lease, "later") };
    let pending = lab.ok(pending).ticket;
    lab.pass(secs(3));
    let condition = Condition::all([
        Condition::at("door").named("go"),
        Condition::count(1, Distinct::Signals, ["door"]).named("run"),
        Condition::at("any"),
        Condition::at("any").named("x"),
    ]);
    let call = Suspend {
        reason: SuspendReason::WaitingForCallback,
        note: Some("call us".into()),
        timeout: Some(hours(1)),
        ..suspend(&lease, condition)
    };
    let tickets = lab.suspend(call);
    let views = lab.waitpoints(id);
    assert_eq!(keys(&views), ["later", "door", "any"]);
    let [later, door, any] = &views[..] else { panic!("there are three") };
    let seqs: Vec<_> = views.iter().map(|one| (one.seq, one.kind.as_str())).collect();
    assert_eq!(seqs, [(1, "order"), (2, "order"), (3, "order")]);
    let now = lab.now();
    assert_eq!(
        (later.id, later.execution, later.created_at),
        (pending.id, id, now.before(secs(3)))
    );
    assert_eq!((&later.state, later.expires_at), (&WaitpointState::Pending, pending.expires_at));
    assert_eq!((later.reason, later.note.as_deref(), later.timeout_at), (None, None, None));
    assert_eq!((door.id, door.created_at, door.expires_at), (tickets[0].id, now, None));
    assert_eq!(door.state, WaitpointState::Active { suspension: 1, since: now });
    assert_eq!(door.reason, Some(SuspendReason::WaitingForCallback));
    assert_eq!((door.note.as_deref(), door.timeout_at), (Some("call us"), Some(now + hours(1))));
    assert_eq!((door.names.clone(), any.names.clone()), (names(["go", "run"]), vec![]));
    for (view, ticket) in [(later, &pending), (door, &tickets[0]), (any, &tickets[1])] {
        assert!(ticket.token.as_str().starts_with(&format!("{}.", view.kid)));
        assert_eq!(view.fingerprint.to_string().len(), 16);
        let (_, mac) = ticket.token.as_str().rsplit_once('.').expect("a token has parts");
        let shown = serde_json::to_string(view).expect("plain data");
        assert!(!shown.contains(mac), "{shown}");
        assert!(!format!("{ticket:?}").contains(mac), "nor does debug output show it");
    }
    lab.ok(Cancel::new(id));
    assert_eq!(lab.see(ListWaitpoints::new(id)), WaitpointPage::default());
    let ended = lab.waitpoints(id);
    assert_eq!(ended[1].state, WaitpointState::Closed { at: now, why: CloseReason::Ended });
    assert_eq!((ended[1].reason, ended[1].names.len()), (None, 0));
}

pub fn waitpoints_are_listed_page_by_page(lab: &mut Lab) {
    let doors = ["a", "b", "c", "d", "e", "f"];
    let (id, _) = lab.suspended(Condition::any(doors.map(Condition::at)));
    lab.ok(close_waitpoint(id, "c"));
    for (closed, expected) in [(false, "ab de f"), (true, "ab cd ef")] {
        let mut after = 0;
        let mut pages = Vec::new();
        loop {
            let query = ListWaitpoints { closed, after, limit: 2, ..ListWaitpoints::new(id) };
            let page = lab.see(query);
            pages.push(keys(&page.waitpoints).concat());
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        assert_eq!(pages.join(" "), expected);
    }
}

pub fn the_inbox_has_what_is_open_everywhere_in_the_order_it_began(lab: &mut Lab) {
    let mut ids = Vec::new();
    for key in ["b", "a", "c", "a", "d"] {
        lab.pass(ms(1));
        ids.push(lab.suspended(Condition::at(key)).0);
    }
    lab.pass(ms(1));
    let lease = lab.lease(work());
    lab.ok(create_waitpoint(&lease, "pending"));
    for limit in [1, 2, 3, 100] {
        let all = inbox(lab, ListInbox { limit, ..ListInbox::default() });
        assert_eq!(keys(&all), ["b", "a", "c", "a", "d", "pending"]);
        assert_eq!(all[..5].iter().map(|one| one.execution).collect::<Vec<_>>(), ids);
    }
    lab.ok(signal_at(ids[1], "a", "x"));
    lab.ok(Cancel::new(ids[0]));
    lab.ok(close_waitpoint(ids[4], "d"));
    let all = inbox(lab, ListInbox { limit: 2, ..ListInbox::default() });
    assert_eq!(keys(&all), ["c", "a", "pending"], "what is closed is not asked for any more");
    let view = lab.waitpoints(ids[2]).remove(0);
    assert_eq!(all[0], view, "the inbox tells what the execution's list tells");
}

pub fn the_inbox_can_be_asked_for_a_key(lab: &mut Lab) {
    for key in ["a", "b", "a", "c", "a"] {
        lab.pass(ms(1));
        lab.suspended(Condition::at(key));
    }
    let of = |key: &str, limit| ListInbox { key: Some(key.into()), limit, ..ListInbox::default() };
    for limit in [1, 2, 9] {
        assert_eq!(keys(&inbox(lab, of("a", limit))), ["a", "a", "a"]);
        assert_eq!(keys(&inbox(lab, of("c", limit))), ["c"]);
        assert!(inbox(lab, of("d", limit)).is_empty());
    }
    assert!(inbox(lab, of("\0", 9)).is_empty());
}

pub fn an_inbox_shows_nothing_of_another_namespace(lab: &mut Lab) {
    let (mine, _) = lab.suspended(Condition::at("door"));
    let there = || "there".to_owned();
    lab.ok(Submit { namespace: there(), executions: vec![work()] });
    let lease = lab.claims(Claim { namespace: there(), ..up_to(1) }).remove(0);
    lab.ok(Suspend { namespace: there(), ..suspend(&lease, Condition::at("their.door")) });
    let all = inbox(lab, ListInbox::default());
    assert_eq!(all.iter().map(|one| one.execution).collect::<Vec<_>>(), [mine]);
    let theirs = inbox(lab, ListInbox { namespace: there(), ..ListInbox::default() });
    assert_eq!(keys(&theirs), ["their.door"]);
    let door = Some("door".to_owned());
    assert!(
        inbox(lab, ListInbox { namespace: there(), key: door, ..ListInbox::default() }).is_empty()
    );
    let nowhere = ListInbox { namespace: "nowhere".into(), ..ListInbox::default() };
    assert!(inbox(lab, nowhere).is_empty());
    let beyond = ListInbox { after: Some(theirs[0].id), ..ListInbox::default() };
    lab.see(beyond);
}
