//! Commands about suspended executions that share a batch, and how often they go to the database.

use everloom_core::{
    Cancel, Claim, Condition, DeliverSignal, Distinct, Effect, ExecutionId, KeepSteps, LeaseToken,
    Leased, NewExecution, Payload, RecordStep, Replay, Resume, SignalTo, Status, Submit, Suspend,
    SuspendOutcome, Token, WaitpointName,
};

use super::fake::{Counts, FakePg};
use super::loads::{apply, apply_all, call, run};

fn leases(store: &mut FakePg, count: usize) -> Vec<Leased> {
    let executions = vec![NewExecution::new("kind"); count];
    apply(store, Submit { namespace: "default".into(), executions });
    claim(store, count)
}

fn claim(store: &mut FakePg, max: usize) -> Vec<Leased> {
    apply(store, Claim { max, ..Claim::new("w") }).leases
}

fn token(outcome: SuspendOutcome) -> Token {
    let SuspendOutcome::Suspended { waitpoints, .. } = outcome else { panic!("{outcome:?}") };
    waitpoints[0].token.clone()
}

/// Suspended executions with their tokens, and what it took to suspend them.
fn suspended(store: &mut FakePg, count: usize) -> (Vec<(ExecutionId, Token)>, Counts) {
    let leases = leases(store, count);
    let ids: Vec<_> = leases.iter().map(Leased::id).collect();
    let suspends = leases.into_iter().map(|one| Suspend::new(one.lease, Condition::at("go")));
    let (outcomes, counts) = apply_all(store, suspends);
    (ids.into_iter().zip(outcomes.into_iter().map(token)).collect(), counts)
}

fn signal(execution: ExecutionId, key: &str) -> DeliverSignal {
    let payload = Payload::bytes(*b"\0\xff");
    DeliverSignal { key: Some(key.into()), payload, ..DeliverSignal::new(execution, "go") }
}

fn with_token((execution, token): (ExecutionId, Token)) -> DeliverSignal {
    DeliverSignal { to: SignalTo::Token(token), ..signal(execution, "key") }
}

#[test]
fn fifty_signals_need_two_loads_and_one_commit() {
    let mut store = FakePg::default();
    // The first one makes the key to sign with.
    suspended(&mut store, 1);
    let (waiting, counts) = suspended(&mut store, 50);
    assert!(counts.loads <= 2, "{counts:?} for suspending");
    let (delivered, counts) = apply_all(&mut store, waiting.into_iter().map(with_token));
    assert!(counts.loads <= 2, "{counts:?} for signals");
    assert_eq!((counts.commits, counts.written), (1, 50));
    let resumed = Effect::Resumed { status: Status::Resumable };
    assert!(delivered.iter().all(|one| one.effect == resumed), "{delivered:?}");
    let mut claim = call(Claim { max: 50, ..Claim::new("w") });
    let counts = run(&mut store, &mut [&mut claim]);
    assert!(counts.loads <= 2, "{counts:?} for a claim");
    for leased in claim.into_answer().unwrap().leases {
        let signals = leased.resumption.expect("it was suspended").signals;
        assert_eq!(signals[0].payload, Some(Payload::bytes(*b"\0\xff")));
    }
}

#[test]
fn signals_of_one_batch_count_in_one_condition_and_once_each() {
    let mut store = FakePg::default();
    let lease = leases(&mut store, 1).remove(0).lease;
    let id = lease.execution;
    let twice = Condition::count(2, Distinct::Signals, ["go"]);
    apply(&mut store, Suspend::new(lease, twice));
    let at_waitpoint = |key: &str| {
        let to = SignalTo::Waitpoint(WaitpointName::Key("go".into()));
        DeliverSignal { to, ..signal(id, key) }
    };
    let early = signal(id, "three");
    let signals = [at_waitpoint("one"), at_waitpoint("one"), early, at_waitpoint("two")];
    let (delivered, counts) = apply_all(&mut store, signals);
    assert_eq!(counts.commits, 1);
    let effects: Vec<_> = delivered.iter().map(|one| one.effect).collect();
    let resumed = Effect::Resumed { status: Status::Resumable };
    assert_eq!(effects, [Effect::Recorded, Effect::Duplicate, Effect::Buffered, resumed]);
    assert_eq!(delivered[0].signal, delivered[1].signal);
    let (again, _) = apply_all(&mut store, [signal(id, "two"), signal(id, "three")]);
    assert!(again.iter().all(|one| one.effect == Effect::Duplicate), "{again:?}");
    let resumption = claim(&mut store, 1).remove(0).resumption.expect("it was suspended");
    assert_eq!(resumption.signals.iter().map(|one| one.seq).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn a_batch_sees_the_waitpoints_and_suspensions_that_it_makes() {
    let mut store = FakePg::default();
    suspended(&mut store, 1);
    let lease = leases(&mut store, 1).remove(0).lease;
    let id = lease.execution;
    let to = SignalTo::Waitpoint(WaitpointName::Key("go".into()));
    let mut suspend = call(Suspend::new(lease, Condition::at("go")));
    let mut deliver = call(DeliverSignal { to, ..signal(id, "key") });
    let mut late = call(Resume::new(id));
    let mut claimed = call(Claim::new("w"));
    run(&mut store, &mut [&mut suspend, &mut deliver, &mut late, &mut claimed]);
    token(suspend.into_answer().unwrap());
    let effect = deliver.into_answer().unwrap().effect;
    assert_eq!(effect, Effect::Resumed { status: Status::Resumable });
    assert!(late.into_answer().is_err(), "it is not suspended any more");
    // What a batch makes claimable is claimed by the next one.
    assert!(claimed.into_answer().unwrap().is_empty());
    assert_eq!(claim(&mut store, 1)[0].resumption.as_ref().unwrap().signals.len(), 1);
}

fn record(lease: &LeaseToken, name: &str) -> RecordStep {
    RecordStep::new(lease.clone(), name, Payload::bytes(name))
}

#[test]
fn steps_of_one_batch_are_numbered_on_and_found_again() {
    let mut store = FakePg::default();
    let lease = leases(&mut store, 1).remove(0).lease;
    for names in [["a", "b", "a"], ["c", "a", "c"]] {
        let records = names.map(|name| record(&lease, name));
        let (recorded, counts) = apply_all(&mut store, records);
        assert!(counts.loads <= 3, "{counts:?}");
        let found: Vec<_> = recorded.iter().map(|one| one.earlier.is_some()).collect();
        match names {
            ["a", ..] => assert_eq!(found, [false, false, true]),
            _ => assert_eq!(found, [false, true, true]),
        }
    }
    let id = lease.execution;
    apply(&mut store, Cancel { force: true, ..Cancel::new(id) });
    let steps = KeepSteps::Before { name: "b".into(), occurrence: 0 };
    apply(&mut store, Replay { steps, ..Replay::new(id) });
    let leased = claim(&mut store, 1).remove(0);
    let names: Vec<_> = leased.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    let (recorded, _) = apply_all(&mut store, ["c", "b"].map(|name| record(&leased.lease, name)));
    assert_eq!(recorded.iter().map(|one| one.seq).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn two_who_suspend_first_in_one_batch_sign_with_one_key() {
    let mut store = FakePg::default();
    let leases = leases(&mut store, 2);
    let suspends = leases.into_iter().map(|one| Suspend::new(one.lease, Condition::at("go")));
    let (outcomes, _) = apply_all(&mut store, suspends);
    let kid = |one| token(one).as_str().split('.').next().map(str::to_owned);
    let kids: Vec<_> = outcomes.into_iter().map(kid).collect();
    assert_eq!(kids[0], kids[1]);
}
