//! How much a batch asks of the server.

mod common;

use common::Schema;
use everloom_core::*;
use everloom_postgres::PgStore;

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }
}

/// Runs commands of any types in one batch.
fn run(store: &mut PgStore, jobs: &mut [Box<dyn Job>]) {
    let mut batch: Vec<&mut dyn Job> = Vec::new();
    batch.extend(jobs.iter_mut().map(|job| &mut **job as &mut dyn Job));
    run_batch(store, &mut batch, &Settings::default(), &Stopped);
}

fn job<C: Command>(command: C) -> Box<dyn Job> {
    Box::new(Call::new(command, Seed::random()))
}

fn apply<C: Command>(store: &mut PgStore, command: C) -> C::Output {
    let mut call = Call::new(command, Seed::random());
    run_batch(store, &mut [&mut call], &Settings::default(), &Stopped);
    call.into_answer().unwrap()
}

fn submit(key: Option<String>) -> Submit {
    let mut new = NewExecution::new("work").input(Payload::bytes("input")).tag("a", "b");
    new.key = key;
    Submit { namespace: "default".into(), executions: vec![new] }
}

/// Four commands for each of the leases.
fn mix(leases: &[LeaseToken]) -> Vec<Box<dyn Job>> {
    let mut jobs = Vec::new();
    for (index, lease) in leases.iter().enumerate() {
        let namespace = "default".to_owned();
        let lease = lease.clone();
        jobs.push(job(submit(None)));
        jobs.push(job(submit(Some(format!("key-{index}")))));
        jobs.push(job(Claim::new(format!("worker-{index}"))));
        jobs.push(match index % 5 {
            0 => job(Complete { namespace, lease, result: Payload::bytes("result") }),
            1 => job(Fail {
                namespace,
                lease,
                failure: Failure::transient("later"),
                retry_after: None,
            }),
            2 => job(Renew { namespace, leases: vec![lease], ttl: None }),
            3 => job(Cancel::new(lease.execution)),
            _ => job(Release { namespace, lease, reason: None }),
        });
    }
    jobs
}

#[test]
fn a_batch_of_any_mix_needs_about_as_many_statements_whatever_its_size() {
    let schema = Schema::new("statements");
    let mut store = schema.open();
    let cost = |store: &mut PgStore, size: usize| {
        for _ in 0..3 * size {
            apply(store, submit(None));
        }
        let claimed = apply(store, Claim { max: size, ..Claim::new("first") });
        let leases: Vec<_> = claimed.leases.into_iter().map(|leased| leased.lease).collect();
        let mut jobs = mix(&leases);
        let before = store.counters();
        run(store, &mut jobs);
        let after = store.counters();
        (after.statements - before.statements, after.round_trips - before.round_trips)
    };
    cost(&mut store, 1);
    let (few, _) = cost(&mut store, 3);
    let (many, round_trips) = cost(&mut store, 13);
    println!("{few} statements for 12 commands, {many} and {round_trips} round trips for 52");
    assert!(many <= few + 5, "{many} statements for 52 commands, {few} for 12");
    assert!(many <= 40, "{many} statements for 52 commands");
    assert!(round_trips <= 10, "{round_trips} round trips for 52 commands");
}

/// Flows of a node, another that waits for it, and one that waits for both; with the first leased.
fn begun(store: &mut PgStore, flows: usize) -> Vec<LeaseToken> {
    let node = |name: &str| NewNode::new(name, NewExecution::new("member"));
    for _ in 0..flows {
        let flow = NewFlow::new()
            .node(node("first"))
            .node(node("second").after(After::all(["first"])))
            .node(node("third").after(After::all(["first", "second"])));
        apply(store, SubmitFlow { namespace: "default".into(), flow });
    }
    let claim = Claim { max: flows, kinds: vec!["member".into()], ..Claim::new("member") };
    apply(store, claim).leases.into_iter().map(|leased| leased.lease).collect()
}

/// What it costs to do something to these leases in one batch.
fn cost(
    store: &mut PgStore,
    leases: Vec<LeaseToken>,
    job: impl Fn(LeaseToken) -> Box<dyn Job>,
) -> (u64, u64) {
    let mut jobs: Vec<_> = leases.into_iter().map(job).collect();
    let before = store.counters();
    run(store, &mut jobs);
    let after = store.counters();
    (after.statements - before.statements, after.round_trips - before.round_trips)
}

#[test]
fn completions_in_many_flows_need_as_many_round_trips_as_one() {
    let schema = Schema::new("members");
    let mut store = schema.open();
    let completion = |lease| {
        let namespace = "default".to_owned();
        job(Complete { namespace, lease, result: Payload::default() })
    };
    let leases = begun(&mut store, 1);
    cost(&mut store, leases, completion);
    let leases = begun(&mut store, 50);
    assert_eq!(leases.len(), 50);
    let (statements, round_trips) = cost(&mut store, leases, completion);
    println!("{statements} statements and {round_trips} round trips for 50 members");
    assert!(round_trips <= 2, "{round_trips} round trips for 50 members");
    assert!(statements <= 20, "{statements} statements for 50 members");
    let ready = apply(&mut store, Claim { max: 100, ..Claim::new("member") }).leases;
    assert_eq!(ready.len(), 51, "what waited for them may be claimed");
}

#[test]
fn a_claim_of_members_needs_as_many_round_trips_as_one_of_others() {
    let schema = Schema::new("claimed");
    let mut store = schema.open();
    let trips = |store: &mut PgStore, kind: &str| {
        let before = store.counters().round_trips;
        let claim = Claim { max: 2, kinds: vec![kind.into()], ..Claim::new("claimer") };
        assert_eq!(apply(store, claim).leases.len(), 2);
        store.counters().round_trips - before
    };
    begun(&mut store, 4);
    let node = |name: String| NewNode::new(name, NewExecution::new("free"));
    let flow = NewFlow::new().nodes((0..4).map(|n| node(format!("n{n}"))));
    apply(&mut store, SubmitFlow { namespace: "default".into(), flow });
    for _ in 0..4 {
        apply(&mut store, submit(None));
    }
    trips(&mut store, "work");
    trips(&mut store, "free");
    assert_eq!(trips(&mut store, "free"), trips(&mut store, "work"));
}

/// Executions of a kind that are suspended, with their tokens.
fn suspended(store: &mut PgStore, kind: &str, count: usize) -> Vec<(ExecutionId, Token)> {
    let new = NewExecution::new(kind).input(Payload::bytes("input"));
    apply(store, Submit { namespace: "default".into(), executions: vec![new; count] });
    let leases = claimed(store, kind, count).into_iter().map(|leased| leased.lease);
    leases.map(|lease| suspend(store, lease)).collect()
}

fn claimed(store: &mut PgStore, kind: &str, count: usize) -> Vec<Leased> {
    let claim = Claim { max: count, kinds: vec![kind.into()], ..Claim::new("worker") };
    apply(store, claim).leases
}

fn suspend(store: &mut PgStore, lease: LeaseToken) -> (ExecutionId, Token) {
    let execution = lease.execution;
    match apply(store, Suspend::new(lease, Condition::at("go"))) {
        SuspendOutcome::Suspended { waitpoints, .. } => (execution, waitpoints[0].token.clone()),
        other => panic!("{other:?}"),
    }
}

fn deliver((execution, token): (ExecutionId, Token), key: Option<&str>) -> Box<dyn Job> {
    let (to, payload) = (SignalTo::Token(token), Payload::bytes("signal"));
    let key = key.map(str::to_owned);
    job(DeliverSignal { to, payload, key, ..DeliverSignal::new(execution, "go") })
}

/// Statements and round trips of some work.
fn counted<T>(store: &mut PgStore, work: impl FnOnce(&mut PgStore) -> T) -> (T, u64, u64) {
    let before = store.counters();
    let done = work(store);
    let after = store.counters();
    (done, after.statements - before.statements, after.round_trips - before.round_trips)
}

#[test]
fn signals_to_many_suspended_executions_need_as_many_round_trips_as_one() {
    let schema = Schema::new("signals");
    let mut store = schema.open();
    let mut send = |kind: &str, count: usize, key: Option<&str>| {
        let waiting = suspended(&mut store, kind, count).into_iter();
        let mut jobs: Vec<_> = waiting.map(|one| deliver(one, key)).collect();
        let ((), statements, round_trips) = counted(&mut store, |store| run(store, &mut jobs));
        println!("{statements} statements and {round_trips} round trips for {count} signals");
        assert!(statements <= 25, "{statements} statements for {count} signals");
        assert_eq!(claimed(&mut store, kind, count).len(), count, "all of them go on");
        round_trips
    };
    // The first one makes the key to sign with.
    send("first", 1, None);
    assert_eq!((send("one", 1, None), send("many", 50, None)), (2, 2));
    assert_eq!((send("named", 1, Some("key")), send("all-named", 50, Some("key"))), (3, 3));
}

#[test]
fn a_claim_of_what_was_resumed_needs_three_round_trips_and_its_next_suspension_two_or_three() {
    let schema = Schema::new("resumed");
    let mut store = schema.open();
    let waiting = suspended(&mut store, "waits", 50).into_iter();
    run(&mut store, &mut waiting.map(|one| deliver(one, None)).collect::<Vec<_>>());
    let (resumed, statements, round_trips) =
        counted(&mut store, |store| claimed(store, "waits", 50));
    println!("{statements} statements and {round_trips} round trips for a claim of 50");
    assert_eq!((resumed.len(), round_trips), (50, 3));
    let suspend = |leased: &Leased, key: Option<&str>| {
        let signals = &leased.resumption.as_ref().expect("it was suspended").signals;
        assert_eq!(signals[0].payload, Some(Payload::bytes("signal")));
        let key = key.map(str::to_owned);
        job(Suspend { key, ..Suspend::new(leased.lease.clone(), Condition::at("go")) })
    };
    let (some, others) = resumed.split_at(25);
    for (leases, key, expected) in [(some, None, 2), (others, Some("again"), 3)] {
        let mut jobs: Vec<_> = leases.iter().map(|leased| suspend(leased, key)).collect();
        let ((), statements, round_trips) = counted(&mut store, |store| run(store, &mut jobs));
        println!("{statements} statements and {round_trips} round trips for 25 suspensions");
        assert_eq!(round_trips, expected);
    }
}

#[test]
fn what_never_waited_costs_no_more_beside_what_does() {
    let schema = Schema::new("ordinary");
    let mut store = schema.open();
    let lifecycle = |store: &mut PgStore| {
        apply(store, submit(None));
        let lease = claimed(store, "work", 1).remove(0).lease;
        apply(store, Complete { namespace: "default".into(), lease, result: Payload::default() });
    };
    lifecycle(&mut store);
    let ((), statements, round_trips) = counted(&mut store, lifecycle);
    suspended(&mut store, "waits", 5);
    assert_eq!(counted(&mut store, lifecycle).2, round_trips);
    // Mail is expected to come along for a while.
    for _ in 0..100 {
        lifecycle(&mut store);
    }
    assert_eq!(counted(&mut store, lifecycle).1, statements);
}

/// Fifty executions under a quota and a budget, each of which puts something by.
fn under_limits(store: &mut PgStore, kind: &str) {
    let policy = Policy {
        budgets: vec![BudgetUse::new("tokens").estimate("tokens", 10)],
        quotas: vec![QuotaUse::new("at-once")],
        ..Policy::default()
    };
    let new = NewExecution { policy, ..NewExecution::new(kind) };
    apply(store, Submit { namespace: "default".into(), executions: vec![new; 50] });
}

/// Makes a quota of so many at once, and a budget with enough for all.
fn make_limits(store: &mut PgStore, concurrency: u32) {
    let concurrency = Some(concurrency);
    apply(store, CreateQuota::new("at-once", QuotaTerms { concurrency, ..QuotaTerms::default() }));
    let allowance = Allowance { hard: Some(1_000_000), soft: None };
    apply(store, CreateBudget::new("tokens", BudgetTerms::new([("tokens", allowance)])));
}

fn complete(lease: LeaseToken) -> Box<dyn Job> {
    job(Complete { namespace: "default".into(), lease, result: Payload::default() })
}

#[test]
fn a_claim_and_completions_under_limits_need_a_round_trip_more_and_the_completions_none() {
    let schema = Schema::new("limits");
    let mut store = schema.open();
    make_limits(&mut store, 200);
    for round in ["first", "second", "third"] {
        let policy = Policy::default();
        let free = NewExecution { policy, ..NewExecution::new("free") };
        apply(&mut store, Submit { namespace: "default".into(), executions: vec![free; 50] });
        let (claimed_free, _, trips_free) = counted(&mut store, |store| claimed(store, "free", 50));
        let leases = claimed_free.into_iter().map(|leased| leased.lease).collect();
        let (_, completing_free) = cost(&mut store, leases, complete);
        under_limits(&mut store, "limited");
        let (leases, statements, trips) =
            counted(&mut store, |store| claimed(store, "limited", 50));
        assert_eq!(leases.len(), 50);
        println!("{round}: {statements} statements, {trips} round trips for a claim of 50");
        let leases = leases.into_iter().map(|leased| leased.lease).collect();
        let (statements, completing) = cost(&mut store, leases, complete);
        println!("{round}: {statements} statements, {completing} round trips for 50 completions");
        if round != "first" {
            assert_eq!((trips, completing), (trips_free + 1, completing_free));
        }
    }
    let budget = store.read().unwrap().limit(NamespaceId(1), LimitSort::Budget, "tokens");
    let gate = store.read().unwrap().find_gate(NamespaceId(1), budget.unwrap().unwrap().row, "");
    let course = gate.unwrap().expect("it was used").course;
    assert_eq!((course.active, course.waiting), (0, 0));
    assert_eq!(course.budget.expect("it counts").usage["tokens"], Usage::default());
}

#[test]
fn a_claim_under_the_limits_of_its_lane_needs_as_many_round_trips_as_one_without() {
    let schema = Schema::new("places");
    let mut store = schema.open();
    make_limits(&mut store, 200);
    let to = AttachTo::Lane("narrow".into());
    apply(&mut store, AttachLimit::quota("at-once", to.clone()));
    apply(&mut store, AttachLimit::budget("tokens", to));
    let mut trips = |lane: &str| {
        let new = NewExecution::new("work").lane(lane);
        apply(&mut store, Submit { namespace: "default".into(), executions: vec![new; 5] });
        let claim = Claim { max: 5, lanes: vec![lane.into()], ..Claim::new("w") };
        let (claimed, _, trips) = counted(&mut store, |store| apply(store, claim));
        let leases: Vec<_> = claimed.leases.into_iter().map(|leased| leased.lease).collect();
        assert_eq!(leases.len(), 5);
        let (_, completing) = cost(&mut store, leases, complete);
        (trips, completing)
    };
    trips("narrow");
    trips("wide");
    assert_eq!(trips("narrow"), trips("wide"));
}

#[test]
fn appends_to_many_streams_need_two_round_trips_whether_they_trim_or_not() {
    let schema = Schema::new("appends");
    let mut store = schema.open();
    let policy = Policy { stream_retention: Some(6), ..Policy::default() };
    let new = NewExecution { policy, ..NewExecution::new("streams") };
    apply(&mut store, Submit { namespace: "default".into(), executions: vec![new; 50] });
    let leases: Vec<_> =
        claimed(&mut store, "streams", 50).into_iter().map(|leased| leased.lease).collect();
    let frames = vec![NewFrame::new(Payload::bytes("frame")); 2];
    for time in 1..=10 {
        let append = |lease: LeaseToken| {
            job(Append { namespace: "default".into(), lease, frames: frames.clone() })
        };
        let (statements, round_trips) = cost(&mut store, leases.clone(), append);
        println!("{statements} statements and {round_trips} round trips for 50 appends");
        // The first time that something is trimmed is not expected.
        let most = if time == 4 { 3 } else { 2 };
        assert!(round_trips <= most, "{round_trips} round trips the {time}. time");
        assert!(statements <= 20, "{statements} statements the {time}. time");
    }
}
