//! What commands cost on SQLite, counted in steps of its virtual machine instead of time.

use everloom_core::{
    After, Cancel, CancelFlow, Claim, Claimed, Clock, Command, Complete, Delay, Fail, Failure,
    FlowId, Hold, HoldFlow, LeaseToken, NewExecution, NewFlow, NewNode, Payload, RegisterWorker,
    Renew, Replay, ReplayFlow, Settings, Submission, Submit, SubmitFlow, Tick, Timestamp, Unhold,
    UnholdFlow, run_batch,
};
use everloom_core::{Call, ExecutionId, Seed};
use everloom_sqlite::{Counters, Location, Options, SqliteStore};
use std::time::Duration;

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_900_000_000_000)
    }
}

struct Counted(SqliteStore);

impl Counted {
    fn new() -> Self {
        let location = Location::parse(":memory:").unwrap();
        Self(SqliteStore::open(&location, &Options::default()).unwrap())
    }

    fn apply<C: Command>(&mut self, command: C) -> C::Output {
        let mut call = Call::new(command, Seed::random());
        run_batch(&mut self.0, &mut [&mut call], &Settings::default(), &Stopped);
        call.into_answer().unwrap()
    }

    fn submit(&mut self, executions: impl IntoIterator<Item = NewExecution>) -> Vec<ExecutionId> {
        let executions: Vec<_> = executions.into_iter().collect();
        let mut ids = Vec::new();
        for batch in executions.chunks(1000) {
            let namespace = "default".into();
            let submitted = self.apply(Submit { namespace, executions: batch.to_vec() });
            ids.extend(submitted.executions.iter().map(Submission::id));
        }
        ids
    }

    fn claim(&mut self, kinds: &[&str], max: usize) -> Claimed {
        let kinds = kinds.iter().map(ToString::to_string).collect();
        self.apply(Claim { kinds, max, ..Claim::new("worker") })
    }

    /// A node that as many others wait for, and one that waits for up to a thousand of these.
    fn submit_fan(&mut self, width: usize) -> FlowId {
        let names: Vec<_> = (0..width).map(|number| format!("n{number}")).collect();
        let mut flow = NewFlow::new().node(NewNode::new("first", work("kind")));
        for name in &names {
            flow = flow.node(NewNode::new(name, work("kind")).after(After::all(["first"])));
        }
        let last = After::all(names.iter().take(1000).map(String::as_str)).bind("n0", "bound");
        let flow = flow.node(NewNode::new("last", work("kind")).after(last));
        self.apply(SubmitFlow { namespace: "default".into(), flow }).id
    }

    /// Works off all that is due.
    fn settle(&mut self) {
        while self.apply(Tick::default()).more {}
    }

    fn complete_one(&mut self) -> bool {
        let Some(claimed) = self.claim(&[], 1).leases.pop() else { return false };
        let result = Payload::bytes("result");
        let namespace = "default".into();
        self.apply(Complete { namespace, lease: claimed.lease, result });
        true
    }

    fn steps_of<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> (u64, T) {
        let before = self.counters().vm_steps;
        let value = work(self);
        (self.counters().vm_steps - before, value)
    }

    fn counters(&self) -> Counters {
        self.0.statement_counters()
    }

    /// Steps of twenty claims of one execution each, after a first one.
    fn claim_steps(&mut self, kinds: &[&str]) -> u64 {
        assert_eq!(self.claim(kinds, 1).leases.len(), 1);
        let before = self.counters().vm_steps;
        for _ in 0..20 {
            assert_eq!(self.claim(kinds, 1).leases.len(), 1);
        }
        self.counters().vm_steps - before
    }
}

fn work(kind: &str) -> NewExecution {
    NewExecution::new(kind)
}

#[test]
fn ten_thousand_better_executions_a_worker_can_not_do_add_hardly_a_step_to_its_claims() {
    let mut alone = Counted::new();
    alone.submit(vec![work("mine"); 30]);
    let alone = alone.claim_steps(&["mine"]);

    for other in [work("other"), work("mine").capability("gpu")] {
        let mut crowded = Counted::new();
        crowded.submit(vec![other.priority(9000); 10_000]);
        crowded.submit(vec![work("mine"); 30]);
        let crowded = crowded.claim_steps(&["mine"]);
        assert!(2 * crowded <= 3 * alone, "{crowded} steps instead of {alone}");
    }
}

#[test]
fn a_claim_takes_at_most_twice_the_steps_with_a_thousand_routes_that_it_takes_with_one() {
    let mut one = Counted::new();
    one.submit(vec![work("kind"); 30]);
    let one = one.claim_steps(&[]);

    let mut thousand = Counted::new();
    thousand.submit((0..3000).map(|number| work(&format!("kind-{}", number % 1000))));
    thousand.submit(vec![work("kind-999"); 30]);
    let all_served = thousand.claim_steps(&[]);
    let one_served = thousand.claim_steps(&["kind-999"]);
    assert!(all_served <= 2 * one, "{all_served} steps instead of {one}");
    assert!(one_served <= 2 * one, "{one_served} steps instead of {one}");
}

#[test]
fn no_command_has_a_statement_prepared_again() {
    let mut store = Counted::new();
    let namespace = || "default".to_owned();
    store.apply(RegisterWorker::new("pool", "worker"));
    let mut renewed: Vec<LeaseToken> = Vec::new();
    for round in 0..60 {
        let labelled = |n: u32| work("kind").key(format!("{round}-{n}")).tag("n", n.to_string());
        let ids = store.submit((0..8).map(labelled));
        let leases: Vec<_> = store.claim(&[], 6).leases.into_iter().map(|one| one.lease).collect();
        renewed.push(leases[0].clone());
        store.apply(Renew { namespace: namespace(), leases: renewed.clone(), ttl: None });
        let result = Payload::bytes("result");
        let lease = leases[1].clone();
        store.apply(Complete { namespace: namespace(), lease: lease.clone(), result });
        store.apply(Replay { namespace: namespace(), ..Replay::new(lease.execution) });
        store.apply(Fail {
            namespace: namespace(),
            lease: leases[2].clone(),
            failure: Failure::transient("later"),
            retry_after: None,
        });
        store.apply(Delay {
            namespace: namespace(),
            lease: leases[3].clone(),
            until: None,
            duration: Some(Duration::ZERO),
        });
        store.apply(Cancel { force: true, ..Cancel::new(leases[4].execution) });
        if round % 2 == 0 {
            store.apply(Hold { namespace: namespace(), execution: ids[7] });
            store.apply(Unhold { namespace: namespace(), execution: ids[7] });
        }
        store.apply(Tick::default());
    }
    let counters = store.counters();
    assert!(counters.vm_steps > 0);
    assert_eq!(counters.reprepares, 0);
}

#[test]
fn a_member_costs_about_as_much_in_a_flow_of_thousands_as_in_one_of_a_hundred() {
    let costs = |width: usize| {
        let mut store = Counted::new();
        store.submit_fan(1);
        let per_member = |steps: u64| steps / width as u64;
        let (submitted, flow) = store.steps_of(|store| store.submit_fan(width));
        let (held, ()) = store.steps_of(|store| {
            store.apply(HoldFlow { namespace: "default".into(), flow });
            store.apply(UnholdFlow { namespace: "default".into(), flow });
            store.settle();
        });
        let (cancelled, ()) = store.steps_of(|store| {
            store.apply(CancelFlow::new(flow));
            store.settle();
        });
        [submitted, held, cancelled].map(per_member)
    };
    let (few, many) = (costs(100), costs(3000));
    for ((few, many), what) in few.into_iter().zip(many).zip(["submit", "hold", "cancel"]) {
        assert!(2 * many <= 3 * few, "{what}: {many} steps instead of {few}");
    }
}

#[test]
fn the_end_of_a_member_costs_the_same_however_many_others_its_flow_has() {
    let cost = |width: usize| {
        let mut store = Counted::new();
        store.submit_fan(width);
        assert!(store.complete_one());
        store.settle();
        assert!(store.complete_one());
        let (steps, ()) = store.steps_of(|store| {
            for _ in 0..20 {
                assert!(store.complete_one());
            }
        });
        steps
    };
    let (few, many) = (cost(50), cost(3000));
    assert!(10 * many <= 11 * few, "{many} steps instead of {few}");
}

#[test]
fn no_command_about_flows_has_a_statement_prepared_again() {
    let mut store = Counted::new();
    let namespace = || "default".to_owned();
    for _ in 0..20 {
        let flow = store.submit_fan(5);
        store.apply(HoldFlow { namespace: namespace(), flow });
        store.apply(UnholdFlow { namespace: namespace(), flow });
        while store.complete_one() {}
        let cancelled = store.submit_fan(5);
        assert!(store.complete_one());
        store.apply(CancelFlow::new(cancelled));
        store.apply(ReplayFlow { namespace: namespace(), flow: cancelled, nodes: vec![] });
        while store.complete_one() {}
        store.settle();
    }
    assert_eq!(store.counters().reprepares, 0);
}
