//! How often a batch goes to the database, and that sharing one harms nobody.

use std::collections::BTreeSet;
use std::time::Duration;

use everloom_conformance::sabotage::{How, Sabotage};
use everloom_core::{
    Call, Cancel, ChangePriority, Claim, ClaimExecution, Claimed, Clock, Code, Command, Complete,
    Delete, ExecutionId, Fail, Failure, Job, LaneMode, LeaseToken, NewExecution, PauseLane,
    PutLane, RegisterWorker, Renew, Renewal, ResumeLane, Seed, SetTags, Settings, Source,
    Submission, Submit, Submitted, Tick, Timestamp, run_batch,
};

use super::fake::{Counts, FakePg};

pub(super) struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_900_000_000_000)
    }
}

pub(super) fn call<C: Command>(command: C) -> Call<C> {
    Call::new(command, Seed::random())
}

pub(super) fn run(store: &mut FakePg, jobs: &mut [&mut dyn Job]) -> Counts {
    store.counts = Counts::default();
    run_batch(store, jobs, &Settings::default(), &Stopped);
    store.counts
}

pub(super) fn apply<C: Command>(store: &mut FakePg, command: C) -> C::Output {
    let mut call = call(command);
    run(store, &mut [&mut call]);
    call.into_answer().unwrap()
}

/// Runs commands of one kind in one batch.
pub(super) fn apply_all<C: Command>(
    store: &mut FakePg,
    commands: impl IntoIterator<Item = C>,
) -> (Vec<C::Output>, Counts) {
    let mut calls: Vec<_> = commands.into_iter().map(call).collect();
    let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as _).collect();
    let counts = run(store, &mut jobs);
    (calls.into_iter().map(|call| call.into_answer().unwrap()).collect(), counts)
}

fn submit(executions: impl IntoIterator<Item = NewExecution>) -> Submit {
    Submit { namespace: "default".into(), executions: executions.into_iter().collect() }
}

fn ids(submitted: &Submitted) -> Vec<ExecutionId> {
    submitted.executions.iter().map(Submission::id).collect()
}

fn work() -> NewExecution {
    NewExecution::new("kind")
}

fn claim(max: usize) -> Claim {
    Claim { max, ..Claim::new("w") }
}

fn tokens(claimed: Claimed) -> Vec<LeaseToken> {
    claimed.leases.into_iter().map(|leased| leased.lease).collect()
}

fn complete(lease: LeaseToken) -> Complete {
    Complete { namespace: "default".into(), lease, result: Default::default() }
}

fn fail(lease: LeaseToken) -> Fail {
    let failure = Failure::permanent("broken");
    Fail { namespace: "default".into(), lease, failure, retry_after: None }
}

fn renew(leases: Vec<LeaseToken>) -> Renew {
    Renew { namespace: "default".into(), leases, ttl: None }
}

/// A store in which work is under way, with the leases of `leased` executions.
fn busy(waiting: usize, leased: usize) -> (FakePg, Vec<LeaseToken>) {
    let mut store = FakePg::default();
    apply(&mut store, submit(vec![work(); waiting + leased]));
    match leased {
        0 => (store, vec![]),
        _ => {
            let leases = tokens(apply(&mut store, claim(leased)));
            (store, leases)
        }
    }
}

#[test]
fn fifty_commands_of_any_mix_need_three_loads_and_one_commit() {
    let (mut store, leases) = busy(30, 30);
    let victims = ids(&apply(&mut store, submit(vec![work().priority(0); 10])));
    let mut submits: Vec<_> =
        (0..10).map(|n| call(submit([work().key(format!("key-{n}"))]))).collect();
    let mut claims: Vec<_> = (0..10).map(|_| call(claim(1))).collect();
    let mut completes: Vec<_> =
        leases[..10].iter().cloned().map(|one| call(complete(one))).collect();
    let mut fails: Vec<_> = leases[10..15].iter().cloned().map(|one| call(fail(one))).collect();
    let mut renews: Vec<_> =
        leases[15..20].iter().map(|one| call(renew(vec![one.clone()]))).collect();
    let mut cancels: Vec<_> = victims.iter().map(|id| call(Cancel::new(*id))).collect();

    let mut jobs: Vec<&mut dyn Job> = Vec::new();
    jobs.extend(submits.iter_mut().map(|call| call as &mut dyn Job));
    jobs.extend(claims.iter_mut().map(|call| call as &mut dyn Job));
    jobs.extend(completes.iter_mut().map(|call| call as &mut dyn Job));
    jobs.extend(fails.iter_mut().map(|call| call as &mut dyn Job));
    jobs.extend(renews.iter_mut().map(|call| call as &mut dyn Job));
    jobs.extend(cancels.iter_mut().map(|call| call as &mut dyn Job));
    assert_eq!(jobs.len(), 50);
    let counts = run(&mut store, &mut jobs);

    assert!(counts.loads <= 3, "{counts:?}");
    // A lease that is renewed at the moment it began is what it was.
    assert_eq!((counts.commits, counts.rollbacks, counts.written), (1, 0, 45));
    assert!(
        submits.into_iter().all(|call| !call.into_answer().unwrap().executions[0].is_duplicate())
    );
    assert!(claims.into_iter().all(|call| call.into_answer().unwrap().leases.len() == 1));
    assert!(completes.into_iter().all(|call| call.into_answer().is_ok()));
    assert!(fails.into_iter().all(|call| call.into_answer().is_ok()));
    assert!(cancels.into_iter().all(|call| call.into_answer().is_ok()));
    for call in renews {
        let renewed = call.into_answer().unwrap().leases;
        assert!(matches!(renewed[..], [Renewal::Renewed { .. }]), "{renewed:?}");
    }
}

#[test]
fn a_command_about_a_thousand_rows_needs_as_many_loads_as_one_about_a_single_row() {
    let (mut store, leases) = busy(0, 1000);
    let named = |n: i32| work().key(format!("key-{n}")).id(ExecutionId(uuid::Uuid::now_v7()));
    let mut many = call(submit((0..1000).map(named)));
    assert!(run(&mut store, &mut [&mut many]).loads <= 2);
    let mut many = call(renew(leases));
    assert!(run(&mut store, &mut [&mut many]).loads <= 2);
    let renewed = many.into_answer().unwrap().leases;
    assert!(renewed.iter().all(|one| matches!(one, Renewal::Renewed { .. })));
    let kinds = (0..500).map(|n| NewExecution::new(format!("kind-{n}")));
    let mut many = call(submit(kinds));
    assert!(run(&mut store, &mut [&mut many]).loads <= 3);
}

#[test]
fn a_completion_needs_one_load_where_executions_were_loaded_lately() {
    let (mut store, leases) = busy(0, 2);
    for lease in leases {
        let mut complete = call(complete(lease));
        assert_eq!(run(&mut store, &mut [&mut complete]).loads, 1);
        complete.into_answer().unwrap();
    }
}

#[test]
fn a_claim_passes_lanes_that_were_empty_in_one_load() {
    let mut store = FakePg::default();
    let lanes = ["a", "b", "c"];
    for lane in lanes {
        apply(&mut store, submit([work().lane(lane)]));
    }
    let anywhere = || Claim { lanes: lanes.map(str::to_owned).into(), ..claim(1) };
    for lane in lanes {
        assert_eq!(apply(&mut store, anywhere()).leases[0].lane, lane);
    }
    apply(&mut store, anywhere());
    apply(&mut store, submit([work().lane("c")]));
    let mut found = call(anywhere());
    assert_eq!(run(&mut store, &mut [&mut found]).loads, 1);
    assert_eq!(found.into_answer().unwrap().leases[0].lane, "c");
    // A lane that is no longer empty comes first all the same.
    apply(&mut store, submit([work().lane("a"), work().lane("c")]));
    assert_eq!(apply(&mut store, anywhere()).leases[0].lane, "a");
}

#[test]
fn claims_of_one_batch_never_share_work_whatever_they_serve() {
    let mut store = FakePg::default();
    let kinds = ["a", "b"];
    apply(&mut store, submit((0..40).map(|n| NewExecution::new(kinds[n % 2]))));
    let serving = |n: usize| match n % 3 {
        2 => vec![],
        one => vec![kinds[one].to_owned()],
    };
    let claims = (0..15).map(|n| Claim { kinds: serving(n), max: 2, ..Claim::new("w") });
    let (claimed, counts) = apply_all(&mut store, claims);
    let all: Vec<_> = claimed.into_iter().flat_map(tokens).map(|lease| lease.execution).collect();
    assert_eq!(all.len(), 30);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 30);
    assert!(counts.loads <= 5, "{counts:?}");
}

#[test]
fn claims_get_what_is_left_and_no_more() {
    let (mut store, _) = busy(7, 0);
    let (claimed, counts) = apply_all(&mut store, (0..5).map(|_| claim(2)));
    let sizes: Vec<_> = claimed.iter().map(|claimed| claimed.leases.len()).collect();
    assert_eq!(sizes, [2, 2, 2, 1, 0]);
    assert!(counts.loads <= 3, "{counts:?}");
}

#[test]
fn a_culprit_leaves_the_others_right() {
    for how in [How::Error, How::Panic] {
        let (mut store, leases) = busy(2, 2);
        let mut first = call(claim(1));
        let mut culprit = Sabotage::new(claim(1), Seed::random(), how);
        let mut second = call(claim(2));
        let mut done = call(complete(leases[0].clone()));
        let counts = run(&mut store, &mut [&mut first, &mut culprit, &mut second, &mut done]);
        assert_eq!((counts.commits, counts.rollbacks), (1, 1));
        assert!(matches!(culprit.refusal().code(), Code::WrongState | Code::Internal));
        assert_eq!(first.into_answer().unwrap().leases.len(), 1);
        assert_eq!(second.into_answer().unwrap().leases.len(), 1, "what the culprit took is free");
        assert!(done.into_answer().is_ok());
    }
}

#[test]
fn what_a_culprit_made_is_made_again() {
    let mut store = FakePg::default();
    for round in ["first", "second"] {
        let new = || submit([NewExecution::new(round).lane(round)]);
        let mut culprit = Sabotage::new(new(), Seed::random(), How::Error);
        run(&mut store, &mut [&mut culprit]);
        assert_eq!(culprit.refusal().code(), Code::WrongState);
        apply(&mut store, new());
        let claim = Claim { lanes: vec![round.into()], ..claim(1) };
        assert_eq!(apply(&mut store, claim).leases.len(), 1);
    }
}

#[test]
fn a_lane_is_as_another_process_left_it() {
    let (mut store, _) = busy(3, 1);
    let lane = || ("default".to_owned(), "default".to_owned());
    let (namespace, name) = lane();
    store.elsewhere(|other| apply(other, PauseLane { namespace, lane: name }));
    assert!(apply(&mut store, claim(1)).is_empty());
    let (namespace, name) = lane();
    store.elsewhere(|other| apply(other, ResumeLane { namespace, lane: name }));
    assert_eq!(apply(&mut store, claim(1)).leases.len(), 1);
    let (namespace, name) = lane();
    let defaults = Default::default();
    let capped = PutLane { namespace, lane: name, defaults, max_active: Some(3), fairness: None };
    store.elsewhere(|other| apply(other, capped));
    assert_eq!(apply(&mut store, claim(9)).leases.len(), 1, "two of three slots are taken");
}

#[test]
fn a_kind_that_another_process_submitted_is_claimed() {
    let (mut store, _) = busy(0, 1);
    let other = submit([NewExecution::new("new").capability("gpu")]);
    let id = store.elsewhere(|store| ids(&apply(store, other))[0]);
    assert!(apply(&mut store, claim(1)).is_empty(), "it can not do that");
    let able = Claim { capabilities: vec!["gpu".into()], ..claim(1) };
    assert_eq!(apply(&mut store, able).leases[0].id(), id);
    let other = submit([NewExecution::new("newer")]);
    let execution = store.elsewhere(|store| ids(&apply(store, other))[0]);
    let by_id = ClaimExecution {
        namespace: "default".into(),
        execution,
        worker: "w".into(),
        capabilities: vec![],
        lease_ttl: Duration::from_secs(30),
        reserve: None,
    };
    apply(&mut store, by_id);
}

#[test]
fn what_was_changed_is_written_once_and_what_was_not_is_not_written() {
    let (mut store, leases) = busy(1, 1);
    let id = leases[0].execution;
    let priority = |priority| {
        let change = ChangePriority { namespace: "default".into(), execution: id, priority };
        call(change)
    };
    let (mut up, mut down) = (priority(5), priority(9));
    let counts = run(&mut store, &mut [&mut up, &mut down]);
    assert_eq!(counts.written, 1);
    let before = up.into_answer().unwrap().before;
    let (mut up, mut back) = (priority(7), priority(9));
    let counts = run(&mut store, &mut [&mut up, &mut back]);
    assert_eq!((counts.commits, counts.written), (1, 0), "it is what it was");
    assert_eq!(before, 1000);
}

#[test]
fn an_id_may_have_a_second_life_in_one_batch() {
    let mut store = FakePg::default();
    let id = ExecutionId(uuid::Uuid::now_v7());
    apply(&mut store, submit([work().id(id)]));
    apply(&mut store, Cancel::new(id));
    let mut delete = call(Delete { namespace: "default".into(), execution: id });
    let mut again = call(submit([NewExecution::new("other").id(id)]));
    run(&mut store, &mut [&mut delete, &mut again]);
    assert!(delete.into_answer().is_ok());
    assert!(!again.into_answer().unwrap().executions[0].is_duplicate());
}

#[test]
fn those_who_wait_are_told_of_work_in_lanes_nobody_asked_about() {
    let mut store = FakePg::default();
    let id = ids(&apply(&mut store, submit([work().hold()])))[0];
    store.elsewhere(|other| {
        let mut unhold = call(everloom_core::Unhold { namespace: "default".into(), execution: id });
        let wakes = run_batch(other, &mut [&mut unhold], &Settings::default(), &Stopped);
        unhold.into_answer().unwrap();
        assert_eq!(wakes.ready[0].lane.name, "default");
        assert_eq!(wakes.ready[0].route.as_ref().unwrap().kind, "kind");
    });
}

#[test]
fn a_renewal_does_not_outlive_the_registration_it_shares_a_batch_with() {
    let (mut store, leases) = busy(0, 1);
    let mut renewal = call(renew(leases.clone()));
    let mut registration = call(RegisterWorker::new("pool", "w"));
    run(&mut store, &mut [&mut renewal, &mut registration]);
    registration.into_answer().unwrap();
    let renewed = apply(&mut store, renew(leases)).leases;
    assert!(matches!(renewed[..], [Renewal::Lost { .. }]), "{renewed:?}");
}

#[test]
fn a_tick_tells_when_the_next_thing_is_due_also_beyond_its_slice() {
    let mut store = FakePg::default();
    let at = |seconds: u64| Stopped.now() + Duration::from_secs(seconds);
    let later = |n: u64| work().start_at(at(1 + n));
    apply(&mut store, submit((0..150).map(later)));
    let ticked = apply(&mut store, Tick { slice: 1 });
    assert_eq!(ticked.next_due, Some(at(1)));
}

#[test]
fn the_clock_of_the_database_counts_and_is_read_with_the_last_load() {
    let start = Timestamp::from_millis(1000);
    let mut store = FakePg::default();
    store.clock = Some(start);
    let id = ids(&apply(&mut store, submit([work()])))[0];
    let loads = store.counts.loads as u64;
    let namespace = store.read().unwrap().namespace("default").unwrap().unwrap().id;
    let found = store.read().unwrap().find(namespace, &[id]).unwrap().remove(0).unwrap();
    assert_eq!(found.created_at, start + Duration::from_millis(loads));
    let ticked = apply(&mut store, Tick::default());
    assert!(!ticked.more, "the process's clock is far ahead, and nothing is due");
}

#[test]
fn time_does_not_fall_when_the_clock_of_the_database_does() {
    let mut store = FakePg::default();
    store.clock = Some(Timestamp::from_millis(5000));
    apply(&mut store, submit([work()]));
    let last = store.read().unwrap().last_now().unwrap();
    store.clock = Some(Timestamp::from_millis(1000));
    let id = ids(&apply(&mut store, submit([work()])))[0];
    let namespace = store.read().unwrap().namespace("default").unwrap().unwrap().id;
    let found = store.read().unwrap().find(namespace, &[id]).unwrap().remove(0).unwrap();
    assert_eq!(found.created_at, last);
}

#[test]
fn tags_that_change_twice_are_saved_against_what_they_were() {
    let (mut store, leases) = busy(0, 1);
    let tag = |value: Option<&str>| SetTags {
        namespace: "default".into(),
        execution: leases[0].execution,
        tags: [("tag".to_owned(), value.map(str::to_owned))].into(),
    };
    let (_, counts) = apply_all(&mut store, [tag(Some("a")), tag(Some("b"))]);
    assert_eq!(counts.written, 1);
    let (_, counts) = apply_all(&mut store, [tag(None), tag(Some("b"))]);
    assert_eq!(counts.written, 0);
}

#[test]
fn a_lane_made_by_a_batch_is_open() {
    let mut store = FakePg::default();
    apply(&mut store, submit([work().lane("new")]));
    let namespace = store.read().unwrap().namespace("default").unwrap().unwrap().id;
    let lane = store.read().unwrap().lane(namespace, "new").unwrap().unwrap();
    assert_eq!(lane.mode, LaneMode::Open);
}
