//! What limits cost those who are under them, and those who are not, counted in steps of SQLite's
//! virtual machine.

mod common;

use std::time::Duration;

use common::limits::{add_limited, budget, open_use, quota};
use common::{Queue, at, commit, in_memory};
use everloom_core::{
    Allowance, AttachLimit, AttachTo, Beside, BudgetTerms, BudgetUse, Call, Claim, Clock, Command,
    Complete, ConcurrencyKey, CreateBudget, CreateQuota, Execution, Gate, GateRow, LaneId,
    LeaseToken, LimitRow, LimitSort, NewExecution, Passage, Payload, Policy, QuotaTerms, QuotaUse,
    RateTerms, RowId, Seed, Settings, Share, State, Store, Submit, Tick, Timestamp, Turn, Tx, Use,
    run_batch,
};
use everloom_sqlite::SqliteStore;

struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        at(10_000)
    }
}

fn apply<C: Command>(store: &mut SqliteStore, command: C) -> C::Output {
    let mut call = Call::new(command, Seed::random());
    run_batch(store, &mut [&mut call], &Settings::default(), &Stopped);
    call.into_answer().unwrap()
}

/// What some work does, and its steps.
fn steps_of<T>(store: &mut SqliteStore, work: impl FnOnce(&mut SqliteStore) -> T) -> (u64, T) {
    let before = store.statement_counters().vm_steps;
    let value = work(store);
    (store.statement_counters().vm_steps - before, value)
}

fn submit(store: &mut SqliteStore, executions: Vec<NewExecution>) {
    apply(store, Submit { namespace: "default".into(), executions });
}

fn claim(store: &mut SqliteStore) -> LeaseToken {
    apply(store, Claim::new("w")).leases.remove(0).lease
}

fn complete(store: &mut SqliteStore, lease: LeaseToken) {
    let result = Payload::bytes("result");
    apply(store, Complete { namespace: "default".into(), lease, result });
}

/// Steps of ten submissions, of ten claims with the ends of what they took, and of a tick.
fn ordinary_steps(store: &mut SqliteStore) -> [u64; 3] {
    // The first ones set up what comes back again and again.
    for _ in 0..2 {
        submit(store, vec![NewExecution::new("mail")]);
        let lease = claim(store);
        complete(store, lease);
        while apply(store, Tick::default()).more {}
    }
    let submitted = steps_of(store, |store| {
        for _ in 0..10 {
            submit(store, vec![NewExecution::new("mail")]);
        }
    });
    let claimed = steps_of(store, |store| {
        for _ in 0..10 {
            let lease = claim(store);
            complete(store, lease);
        }
    });
    let ticked = steps_of(store, |store| apply(store, Tick::default()));
    assert_eq!(store.statement_counters().reprepares, 0);
    [submitted.0, claimed.0, ticked.0]
}

#[test]
fn ten_thousand_that_wait_before_gates_add_no_step_to_work_without_limits() {
    let beside = |limited: i64| {
        let mut store = in_memory();
        commit(&mut store, |tx| {
            let queue = Queue::add(tx);
            for number in 0..limited {
                // Before all others, if it were claimable.
                let gate = tx.gate(queue.namespace, LimitRow::KEYS, &format!("{}", number % 7));
                let execution = add_limited(tx, queue, gate.unwrap().row);
                tx.save(&Execution { priority: 9000, ..execution }).unwrap();
            }
        });
        ordinary_steps(&mut store)
    };
    assert_eq!(beside(10_000), beside(0));
}

#[test]
fn limits_on_other_work_add_no_step_to_work_without_limits() {
    let none = ordinary_steps(&mut in_memory());
    let mut store = in_memory();
    submit(&mut store, vec![NewExecution::new("mail").lane("other")]);
    let rate = RateTerms { limit: 5, window: Duration::from_secs(1) };
    let terms = QuotaTerms { rate: Some(rate), ..QuotaTerms::default() };
    apply(&mut store, CreateQuota { namespace: "default".into(), quota: "q".into(), terms });
    apply(&mut store, AttachLimit::quota("q", AttachTo::Lane("other".into())));
    let there = Claim { lanes: vec!["other".into()], ..Claim::new("w") };
    let lease = apply(&mut store, there).leases.remove(0).lease;
    complete(&mut store, lease);
    assert_eq!(ordinary_steps(&mut store), none);
}

const LANES: i64 = 3;

/// A store in which so many wait before a gate in a few queues, as many before another one, and in
/// which there are as many limits, gates, passages, uses and turns.
fn with_limits(count: i64) -> (SqliteStore, Queue) {
    let mut store = in_memory();
    let queue = commit(&mut store, |tx| {
        let queue = Queue::add(tx);
        for lane in 1..LANES {
            tx.add_lane(queue.namespace, &format!("lane{lane}")).unwrap();
        }
        let one = tx.new_limit_row().unwrap();
        tx.put_limit(&quota(one, queue.namespace, "one")).unwrap();
        for number in 0..count {
            let gate = tx.gate(queue.namespace, one, &format!("k{number:05}")).unwrap();
            // The first two are in use.
            let idle_at = (number > 1).then(|| at(number));
            tx.save_gate(&Gate { idle_at, ..gate }).unwrap();
            let row = tx.new_limit_row().unwrap();
            let name = format!("n{number:05}");
            tx.put_limit(&budget(row, queue.namespace, &name)).unwrap();
            let first = 1 + 2 * number as u64;
            for gate in [GateRow(1), GateRow(2)] {
                let lane = LaneId(1 + number % LANES);
                let execution = add_limited(tx, Queue { lane, ..queue }, gate);
                tx.put_use(&open_use(execution.row, one)).unwrap();
                let open = number % 2 == 0;
                tx.put_use(&Use { open, ..open_use(execution.row, row) }).unwrap();
                tx.put_passage(gate, &Passage { first, last: first + 1, at: at(1) }).unwrap();
            }
            for lane in 1..=LANES {
                let (lane, next, key) = (LaneId(lane), number, format!("k{number}"));
                tx.put_turn(&Turn { lane, priority: 0, key, next }).unwrap();
            }
        }
        queue
    });
    (store, queue)
}

/// What is done beside so many; says how much it found or did.
type Work = fn(&mut dyn Tx, Queue, i64) -> usize;

const ONE: LimitRow = LimitRow(1);

fn middle(count: i64, letter: &str) -> String {
    format!("{letter}{:05}", count / 2)
}

const WORK: &[(&str, Work)] = &[
    ("limit", |tx, queue, n| {
        tx.limit(queue.namespace, LimitSort::Budget, &middle(n, "n")).unwrap().iter().count()
    }),
    ("limit_by_row", |tx, _, n| tx.limit_by_row(LimitRow(n / 2)).iter().count()),
    ("limits", |tx, queue, n| {
        let after = middle(n, "n");
        tx.limits(queue.namespace, LimitSort::Budget, Some(&after), 5).unwrap().len()
    }),
    ("find_gate", |tx, queue, n| {
        tx.find_gate(queue.namespace, ONE, &middle(n, "k")).unwrap().iter().count()
    }),
    ("gate_by_row", |tx, _, n| tx.gate_by_row(GateRow(n / 2)).unwrap().iter().count()),
    ("gates", |tx, _, n| tx.gates(ONE, Some(&middle(n, "k")), 5).unwrap().len()),
    ("uses", |tx, _, n| tx.uses(RowId(n)).unwrap().len()),
    ("open_uses", |tx, _, n| tx.open_uses(ONE, Some(RowId(n)), 5).unwrap().len()),
    ("passage", |tx, _, n| tx.passage(GateRow(1), n as u64).unwrap().iter().count()),
    ("limited", |tx, _, _| tx.limited(GateRow(1), 5).unwrap().len()),
    ("turn", |tx, _, n| tx.turn(LaneId(2), 0, &format!("k{}", n / 2)).unwrap().iter().count()),
    ("put_limit", |tx, queue, n| {
        done(tx.put_limit(&budget(LimitRow(2 + n / 2), queue.namespace, &middle(n, "n"))))
    }),
    ("drop_limit", |tx, queue, n| {
        done(tx.drop_limit(&budget(LimitRow(2 + n / 2), queue.namespace, &middle(n, "n"))))
    }),
    ("gate", |tx, queue, _| done(tx.gate(queue.namespace, ONE, "k00001x").map(drop))),
    ("save_gate", |tx, _, n| {
        let gate = tx.gate_by_row(GateRow(n / 2)).unwrap().unwrap();
        done(tx.save_gate(&Gate { idle_at: None, ..gate }))
    }),
    ("trim_gates", |tx, _, _| tx.trim_gates(at(9), 5).unwrap()),
    ("put_use", |tx, _, n| done(tx.put_use(&open_use(RowId(n), LimitRow(7))))),
    ("put_use that closes", |tx, _, n| {
        done(tx.put_use(&Use { open: false, ..open_use(RowId(n), ONE) }))
    }),
    ("drop_use", |tx, _, n| done(tx.drop_use(RowId(n), ONE))),
    ("put_passage", |tx, _, n| {
        let first = 2 * n as u64 + 1;
        done(tx.put_passage(GateRow(1), &Passage { first, last: first, at: at(2) }))
    }),
    ("drop_passages", |tx, _, _| done(tx.drop_passages(GateRow(1), 5))),
    ("put_turn", |tx, _, n| {
        let key = format!("k{}", n / 2);
        done(tx.put_turn(&Turn { lane: LaneId(2), priority: 0, key, next: n / 2 + 3 }))
    }),
    ("drop_turns", |tx, _, n| done(tx.drop_turns(LaneId(2), 0, n / 2, 5))),
    ("free", |tx, _, n| {
        let waiting = tx.limited(GateRow(1), 1).unwrap().remove(0);
        let state = State::Waiting;
        done(tx.save(&Execution { state, since: at(n), ..waiting }))
    }),
];

fn done(result: everloom_core::Result<()>) -> usize {
    result.map(|()| 1).unwrap()
}

#[test]
fn asking_and_changing_cost_the_same_beside_a_hundred_and_beside_ten_thousand() {
    let (mut few, mut many) = (with_limits(100), with_limits(10_000));
    for (name, work) in WORK {
        let steps = |(store, queue): &mut (SqliteStore, Queue), count: i64| {
            // What is given up lets the store forget what it remembers of the rows.
            store.begin().unwrap().new_row().unwrap();
            let (steps, found) = steps_of(store, |store| {
                // Dropped, so that the rows stay as they are.
                work(&mut *store.begin().unwrap(), *queue, count)
            });
            assert!(found > 0, "{name} finds nothing");
            steps
        };
        assert_eq!(steps(&mut many, 10_000), steps(&mut few, 100), "{name}");
    }
    assert_eq!(many.0.statement_counters().reprepares, 0);
}

#[test]
fn what_waits_is_read_in_as_many_rows_as_there_are_queues_times_what_each_may_have() {
    let (mut store, _) = with_limits(1000);
    let mut steps = |each: usize| {
        let (steps, found) = steps_of(&mut store, |store| {
            store.begin().unwrap().limited(GateRow(1), each).unwrap().len()
        });
        assert_eq!(found, each * LANES as usize);
        steps
    };
    steps(1);
    let (one, eleven, many) = (steps(1), steps(11), steps(101));
    assert_eq!(many - eleven, 9 * (eleven - one));
}

#[test]
fn a_use_that_stays_open_costs_no_index_a_write() {
    let (mut store, queue) = with_limits(10);
    let row = commit(&mut store, |tx| add_limited(tx, queue, GateRow(1)).row);
    let mut put = |open: bool, turn: u64| {
        let share = Share { turn, ..Share::default() };
        let of = Use { open, share, ..open_use(row, ONE) };
        steps_of(&mut store, |store| commit(store, |tx| tx.put_use(&of).unwrap())).0
    };
    let (new, open, closed) = (put(true, 1), put(true, 2), put(false, 3));
    assert!(open < new && open < closed, "{open} steps instead of less than {new} and {closed}");
}

#[test]
fn an_execution_without_limits_is_removed_without_a_look_at_the_uses_of_others() {
    let (mut store, queue) = with_limits(10);
    let mut remove = |beside: Beside| {
        let execution = commit(&mut store, |tx| {
            let execution = Execution { beside, ..queue.waiting(tx.new_row().unwrap()) };
            tx.insert(&execution, &Payload::default(), None).unwrap();
            execution
        });
        steps_of(&mut store, |store| commit(store, |tx| tx.remove(&execution).unwrap())).0
    };
    let ordinary = remove(Beside::default());
    let limited = remove(Beside { limits: true, ..Beside::default() });
    assert!(ordinary < limited, "{ordinary} and {limited} steps");
}

/// Steps of twenty ends, each with the claim of the next one, of so many executions of which only
/// one may be owned: the others wait before a gate.
fn round_steps(policy: &Policy, count: usize) -> u64 {
    let mut store = in_memory();
    let namespace = || "default".to_owned();
    submit(&mut store, vec![NewExecution::new("mail")]);
    let lease = claim(&mut store);
    complete(&mut store, lease);
    let terms = QuotaTerms { concurrency: Some(1), ..QuotaTerms::default() };
    apply(&mut store, CreateQuota { namespace: namespace(), quota: "q".into(), terms });
    let terms = BudgetTerms::new([("tokens", Allowance { hard: Some(1), soft: None })]);
    apply(&mut store, CreateBudget { namespace: namespace(), budget: "b".into(), terms });
    let work = NewExecution::new("mail").policy(policy.clone());
    for batch in vec![work; count].chunks(1000) {
        submit(&mut store, batch.to_vec());
    }
    let mut lease = claim(&mut store);
    while apply(&mut store, Claim::new("w")).more {}
    let mut round = |store: &mut SqliteStore| {
        complete(store, lease.clone());
        lease = claim(store);
    };
    round(&mut store);
    let (steps, ()) = steps_of(&mut store, |store| (0..20).for_each(|_| round(store)));
    assert_eq!(store.statement_counters().reprepares, 0);
    steps
}

#[test]
fn the_next_of_those_who_wait_costs_the_same_however_many_there_are() {
    let quota = Policy { quotas: vec![QuotaUse::new("q")], ..Policy::default() };
    let budgets = vec![BudgetUse::new("b").estimate("tokens", 1)];
    let budget = Policy { budgets, ..Policy::default() };
    let key = Policy { concurrency_key: Some(ConcurrencyKey::new("k")), ..Policy::default() };
    for (name, policy) in [("quota", quota), ("budget", budget), ("key", key)] {
        let (few, many) = (round_steps(&policy, 500), round_steps(&policy, 5000));
        assert_eq!(many, few, "{name}");
    }
}
