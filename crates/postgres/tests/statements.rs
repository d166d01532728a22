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
