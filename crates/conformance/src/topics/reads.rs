//! Looking at executions and what surrounds them.

use everloom_core::*;
use serde_json::json;

use crate::Lab;
use crate::fixtures::*;

#[track_caller]
fn found(lab: &mut Lab, query: ListExecutions) -> Vec<ExecutionId> {
    lab.list(query).iter().map(|view| view.id).collect()
}

fn all() -> ListExecutions {
    ListExecutions::default()
}

pub fn what_does_not_exist_is_not_found(lab: &mut Lab) {
    lab.submit(work());
    let nobody = id(1);
    let explain = Explain { namespace: ns(), execution: nobody };
    let errors = [
        lab.ask(get(nobody)).unwrap_err(),
        lab.ask(input_of(nobody)).unwrap_err(),
        lab.ask(result_of(nobody)).unwrap_err(),
        lab.ask(attempts(nobody)).unwrap_err(),
        lab.ask(explain).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), Code::NotFound);
        assert!(error.message().contains(&nobody.to_string()), "{error}");
    }
    let nowhere = GetExecution { namespace: "nowhere".into(), ..get(nobody) };
    assert_eq!(lab.ask(nowhere).unwrap_err().code(), Code::NotFound);
}

pub fn a_result_is_there_when_it_is_completed_and_not_before(lab: &mut Lab) {
    let lease = lab.lease(work());
    let none = lab.see(result_of(lease.id()));
    assert_eq!((none.status, none.end, none.result), (Status::Active, None, None));
    let result = Payload { content_type: "image/png".into(), bytes: (0..=255).collect() };
    lab.ok(Complete { result: result.clone(), ..complete(&lease) });
    lab.reopen();
    let read = lab.see(result_of(lease.id()));
    assert_eq!((read.status, read.result), (Status::Completed, Some(result)));
    assert_eq!(read.end.unwrap().outcome, Outcome::Completed);
    let failed = lab.bring(Status::Failed, work());
    let read = lab.see(result_of(failed));
    assert_eq!((read.result, read.end.unwrap().reason), (None, EndReason::Permanent));
}

pub fn every_state_has_its_vector(lab: &mut Lab) {
    use Attempt::{AttemptInterrupted, AttemptTerminal, PendingFirstAttempt, RunningAttempt};
    let runnable =
        |blocking, eligibility, attempt| (Phase::Runnable, blocking, eligibility, attempt);
    let terminal = |attempt| (Phase::Terminal, Blocking::None, Eligibility::NotApplicable, attempt);
    for status in STATES {
        let id = lab.bring(status, work());
        let axes = lab.get(id).axes;
        assert_eq!(axes.public_state, status);
        assert_eq!(axes.terminal_outcome.map(Status::from), status.is_terminal().then_some(status));
        assert_eq!(axes.ownership_state == Ownership::Leased, status == Status::Active);
        let seen = (
            axes.lifecycle_phase,
            axes.blocking_reason,
            axes.eligibility_state,
            axes.attempt_state,
        );
        let waits = Blocking::WaitingForWorker;
        let expected = match status {
            Status::Waiting => runnable(waits, Eligibility::EligibleNow, PendingFirstAttempt),
            Status::Resumable => runnable(waits, Eligibility::EligibleNow, AttemptInterrupted),
            Status::Delayed => runnable(
                Blocking::WaitingForDelay,
                Eligibility::NotEligibleUntilTime,
                PendingFirstAttempt,
            ),
            Status::Granted => runnable(waits, Eligibility::NotApplicable, PendingFirstAttempt),
            Status::Active => {
                (Phase::Active, Blocking::None, Eligibility::NotApplicable, RunningAttempt)
            }
            Status::Suspended => (
                Phase::Suspended,
                Blocking::WaitingForSignal,
                Eligibility::NotApplicable,
                AttemptInterrupted,
            ),
            Status::RateLimited => runnable(
                Blocking::WaitingForBudget,
                Eligibility::BlockedByBudget,
                PendingFirstAttempt,
            ),
            Status::Completed | Status::Failed => terminal(AttemptTerminal),
            Status::Cancelled | Status::Expired => terminal(Attempt::None),
            Status::WaitingChildren | Status::Skipped => unreachable!("only members of flows"),
        };
        assert_eq!(seen, expected, "{status}");
    }
}

pub fn the_vector_shows_holds_pauses_and_leases_that_ran_out(lab: &mut Lab) {
    let held = lab.submit(work().hold());
    assert_eq!(lab.get(held).axes.eligibility_state, Eligibility::BlockedByOperator);
    let paused = lab.submit(work().lane("paused"));
    lab.ok(pause("paused"));
    assert_eq!(lab.get(paused).axes.eligibility_state, Eligibility::BlockedByLaneState);
    let lease = lab.lease(work());
    lab.pass(secs(30));
    let ownership = lab.get(lease.id()).axes.ownership_state;
    assert_eq!(ownership, Ownership::LeaseExpiredReclaimable);
    lab.advance(secs(0));
    let retried = lab.take(lease.id());
    lab.ok(fail(&retried, Failure::transient("x")));
    let axes = lab.get(lease.id()).axes;
    assert_eq!(axes.blocking_reason, Blocking::WaitingForRetryBackoff);
    assert_eq!(axes.attempt_state, Attempt::PendingRetryAttempt);
    lab.ok(Cancel::new(lease.id()));
    lab.ok(replay(lease.id()));
    assert_eq!(lab.get(lease.id()).axes.attempt_state, Attempt::PendingReplayAttempt);
}

pub fn executions_are_listed_newest_first(lab: &mut Lab) {
    let mut ids = lab.submit_all((0..5).map(|_| work()));
    ids.reverse();
    assert_eq!(found(lab, all()), ids);
}

pub fn pages_have_no_gaps_and_no_repeats_although_work_goes_on(lab: &mut Lab) {
    let mut ids = lab.submit_all((0..10).map(|_| work()));
    ids.reverse();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = lab.see(ListExecutions { after, limit: 3, ..all() });
        assert!(page.executions.len() <= 3);
        seen.extend(page.executions.iter().map(|view| view.id));
        lab.submit(work());
        let lease = lab.claim("w");
        lab.ok(complete(&lease));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids);
}

pub fn a_list_may_ask_for_states(lab: &mut Lab) {
    let made = STATES.map(|status| (status, lab.bring(status, work())));
    for (status, id) in made {
        assert_eq!(found(lab, ListExecutions { statuses: vec![status], ..all() }), [id]);
    }
    let statuses = vec![Status::Failed, Status::Waiting];
    assert_eq!(found(lab, ListExecutions { statuses, ..all() }).len(), 2);
}

pub fn a_list_may_ask_for_one_thing_at_a_time(lab: &mut Lab) {
    lab.submit(work());
    let id = lab.submit(
        NewExecution::new("mail").lane("out").tag("a", "1").tag("b", "2").created_by("ann"),
    );
    lab.ok(by_id(id, "me"));
    let queries = [
        ListExecutions { kind: Some("mail".into()), ..all() },
        ListExecutions { lane: Some("out".into()), ..all() },
        ListExecutions { tags: tags([("a", "1")]), ..all() },
        ListExecutions { tags: tags([("a", "1"), ("b", "2")]), ..all() },
        ListExecutions { worker: Some("me".into()), ..all() },
        ListExecutions { created_by: Some("ann".into()), ..all() },
    ];
    for query in queries {
        assert_eq!(found(lab, query.clone()), [id], "{query:?}");
    }
    let queries = [
        ListExecutions { kind: Some("fax".into()), ..all() },
        ListExecutions { lane: Some("in".into()), ..all() },
        ListExecutions { tags: tags([("a", "2")]), ..all() },
        ListExecutions { tags: tags([("a", "1"), ("c", "3")]), ..all() },
        ListExecutions { worker: Some("you".into()), ..all() },
        ListExecutions { created_by: Some("bob".into()), ..all() },
        ListExecutions { namespace: "nowhere".into(), ..all() },
    ];
    for query in queries {
        assert_eq!(found(lab, query.clone()), [], "{query:?}");
    }
}

pub fn a_list_may_ask_for_everything_at_once(lab: &mut Lab) {
    let mail = || NewExecution::new("mail").lane("out").tag("a", "1").created_by("ann");
    let ids = lab.submit_all([mail(), mail().lane("in"), mail().tag("a", "2"), mail().hold()]);
    let query = ListExecutions {
        statuses: vec![Status::Waiting],
        held: Some(false),
        kind: Some("mail".into()),
        lane: Some("out".into()),
        tags: tags([("a", "1")]),
        created_by: Some("ann".into()),
        created_from: Some(lab.now()),
        created_before: Some(lab.now() + ms(1)),
        ..all()
    };
    assert_eq!(found(lab, query), ids[..1]);
}

pub fn a_list_may_ask_for_what_is_held(lab: &mut Lab) {
    let free = lab.submit(work());
    let held = lab.submit(work().hold());
    assert_eq!(found(lab, ListExecutions { held: Some(true), ..all() }), [held]);
    assert_eq!(found(lab, ListExecutions { held: Some(false), ..all() }), [free]);
}

pub fn a_list_may_ask_for_a_range_of_time(lab: &mut Lab) {
    let times = [0, 1, 2].map(|_| {
        lab.pass(secs(1));
        (lab.now(), lab.submit(work()))
    });
    let [(_, first), (second_at, second), (third_at, third)] = times;
    let from = ListExecutions { created_from: Some(second_at), ..all() };
    assert_eq!(found(lab, from.clone()), [third, second]);
    let before = ListExecutions { created_before: Some(second_at), ..all() };
    assert_eq!(found(lab, before), [first]);
    assert_eq!(found(lab, ListExecutions { created_before: Some(third_at), ..from }), [second]);
}

pub fn a_list_may_ask_for_the_words_of_a_failure(lab: &mut Lab) {
    let failed = |lab: &mut Lab, message: &str| {
        let lease = lab.lease(work());
        lab.ok(fail(&lease, Failure::permanent(message)));
        lease.id()
    };
    let full = failed(lab, "Disk 100% full on host_1");
    failed(lab, "disk 100 percent full on hostA1");
    lab.submit(work());
    for text in ["100% FULL", "host_1", "disk 100%"] {
        let query = ListExecutions { text: Some(text.into()), ..all() };
        assert_eq!(found(lab, query), [full], "{text}");
    }
    let both = ListExecutions { text: Some("DISK".into()), ..all() };
    assert_eq!(found(lab, both).len(), 2);
}

pub fn a_list_of_a_worker_has_its_leases_and_its_grants(lab: &mut Lab) {
    let granted = lab.bring(Status::Granted, work());
    let active = lab.bring(Status::Active, work());
    lab.bring(Status::Completed, work());
    let mine = ListExecutions { worker: Some("w".into()), ..all() };
    assert_eq!(found(lab, mine), [active, granted]);
}

pub fn counts_are_a_recount_of_the_list(lab: &mut Lab) {
    for (n, status) in STATES.into_iter().enumerate() {
        for _ in 0..=n {
            lab.bring(status, work().lane(["a", "b"][n % 2]));
        }
    }
    lab.submit(work().lane("a").hold());
    let counts = lab.counts();
    let list = lab.list(all());
    assert_eq!(counts.total(), list.len() as u64);
    for status in STATES {
        let listed = list.iter().filter(|view| view.status == status).count();
        assert_eq!(counts.of(status), listed as u64, "{status}");
    }
    let open = list.iter().filter(|view| !view.status.is_terminal()).count();
    assert_eq!(counts.open(), open as u64);
    let held: u64 = counts.counts.iter().filter(|one| one.held).map(|one| one.count).sum();
    assert_eq!(held, 1);
    let lane = lab.see(CountExecutions { namespace: ns(), lane: Some("a".into()) });
    assert_eq!(lane.total(), list.iter().filter(|view| view.lane == "a").count() as u64);
    let nowhere = lab.see(CountExecutions { namespace: ns(), lane: Some("c".into()) });
    assert_eq!(nowhere.total(), 0);
}

pub fn a_lane_tells_its_depth_and_its_oldest(lab: &mut Lab) {
    lab.submit(work().hold());
    lab.submit(work().delay(hours(1)));
    assert_eq!((lab.lane("default").depth, lab.lane("default").oldest), (0, None));
    lab.pass(secs(1));
    let oldest = lab.now();
    lab.submit(work().priority(0));
    lab.pass(secs(1));
    lab.submit(work().priority(9000));
    lab.bring(Status::Resumable, NewExecution::new("mail").lane("other"));
    let lane = lab.lane("default");
    assert_eq!((lane.depth, lane.oldest, lane.mode), (2, Some(oldest), LaneMode::Open));
    assert_eq!((lane.max_active, lane.free), (None, None));
    assert_eq!(lane.counts.iter().map(|one| one.count).sum::<u64>(), 4);
    let other = lab.lane("other");
    assert_eq!((other.depth, other.oldest), (1, Some(lab.now())));
}

pub fn lanes_are_listed_by_name_page_by_page(lab: &mut Lab) {
    for lane in ["c", "a", "b"] {
        lab.submit(work().lane(lane));
    }
    let first = lab.see(ListLanes { limit: 2, ..lanes() });
    let named: Vec<_> = first.lanes.into_iter().map(|lane| lane.lane).collect();
    assert_eq!(named, names(["a", "b"]));
    let rest = lab.see(ListLanes { after: first.next, limit: 2, ..lanes() });
    assert_eq!((rest.lanes[0].lane.as_str(), rest.lanes.len(), rest.next), ("c", 1, None));
    let exact = lab.see(ListLanes { limit: 3, ..lanes() });
    assert_eq!(exact.next, None);
}

pub fn attempts_are_listed_page_by_page(lab: &mut Lab) {
    let id = lab.submit(work());
    for _ in 0..5 {
        let lease = lab.take(id);
        lab.ok(release(&lease));
    }
    lab.take(id);
    let mut seen = Vec::new();
    let mut after = Epoch(0);
    loop {
        let page = lab.see(ListAttempts { after, limit: 2, ..attempts(id) });
        seen.extend(page.attempts.iter().map(|one| one.attempt));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
}

pub fn about_tells_what_the_engine_is_and_can(lab: &mut Lab) {
    lab.settings.event_retention = days(3);
    let about = lab.see(GetAbout {});
    assert_eq!((about.now, &about.settings), (lab.now(), &lab.settings));
    assert!(!about.version.is_empty());
    assert_eq!(about.commands, COMMANDS);
    assert_eq!(about.queries, QUERIES);
    assert!(about.commands.contains(&"submit".to_owned()));
    lab.submit_all([work(), work()]);
    let (first, last) = lab.see(GetAbout {}).events;
    let events = lab.events(EventFilter::default());
    assert!(first <= events[0].cursor);
    assert_eq!(last, events[1].cursor);
    assert!(!lab.store_info().store.is_empty());
}

pub fn what_is_read_survives_the_wire(lab: &mut Lab) {
    #[track_caller]
    fn round_trip<T>(value: &T)
    where
        T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let text = serde_json::to_string(value).unwrap();
        assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
    }
    let limits = json!({ "retry": { "max_retries": 1 }, "fallbacks": [{ "model": "m" }] });
    for status in STATES {
        let new = work().policy(policy(limits.clone())).tag("a", "b").key(status.as_str());
        let id = lab.bring(status, new);
        round_trip(&lab.get(id));
        round_trip(&lab.see(result_of(id)));
        round_trip(&lab.see(attempts(id)));
        round_trip(&lab.see(Explain { namespace: ns(), execution: id }));
    }
    lab.ok(RegisterWorker::new("pool", "i"));
    round_trip(&lab.see(workers()));
    round_trip(&lab.see(lanes()));
    round_trip(&lab.counts());
    round_trip(&lab.see(ListExecutions { limit: 2, ..all() }));
    round_trip(&lab.see(ReadEvents::default()));
    round_trip(&lab.see(GetAbout {}));
}
