//! Budgets and quotas between processes, and what they leave in the database.

mod common;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use common::{Admin, Schema, ask, complete, run, up_to};
use everloom_core::*;
use everloom_postgres::PgStore;

fn submit(store: &mut PgStore, count: usize, policy: &Policy) {
    let new = NewExecution { policy: policy.clone(), ..NewExecution::new("work") };
    let submit = Submit { namespace: DEFAULT_NAME.into(), executions: vec![new; count] };
    run(store, submit).expect("it is submitted");
}

fn quota(store: &mut PgStore, terms: QuotaTerms) {
    run(store, CreateQuota::new("quota", terms)).expect("a quota");
}

fn budget(store: &mut PgStore, hard: u64) {
    let terms = BudgetTerms::new([("tokens", Allowance { hard: Some(hard), soft: None })]);
    run(store, CreateBudget::new("budget", terms)).expect("a budget");
}

fn under_quota() -> Policy {
    Policy { quotas: vec![QuotaUse::new("quota")], ..Policy::default() }
}

fn rows(schema: &Schema, table: &str) -> i64 {
    Admin::new().number(&format!("SELECT count(*) FROM {}.{table}", schema.name))
}

/// Lets some processes do work until none is left; `hold` is told how many are under way.
fn work_off(schema: &Schema, count: usize, hold: impl Fn(usize, &mut PgStore, &Leased) + Sync) {
    let (done, active) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut store = schema.open();
                while done.load(Ordering::SeqCst) < count {
                    let leases = run(&mut store, up_to(4)).expect("a claim").leases;
                    let under_way = active.fetch_add(leases.len(), Ordering::SeqCst) + leases.len();
                    for leased in &leases {
                        hold(under_way, &mut store, leased);
                        active.fetch_sub(1, Ordering::SeqCst);
                        run(&mut store, complete(leased)).expect("it is done");
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                    if leases.is_empty() {
                        run(&mut store, Tick::default()).expect("a tick");
                    }
                }
            });
        }
    });
    assert_eq!(done.into_inner(), count);
}

#[test]
fn a_quota_and_a_budget_hold_across_stores_and_all_work_gets_done() {
    let schema = Schema::new("quota");
    let mut store = schema.open();
    quota(&mut store, QuotaTerms { concurrency: Some(3), ..QuotaTerms::default() });
    budget(&mut store, 10_000);
    let budgets = vec![BudgetUse::new("budget").estimate("tokens", 5)];
    submit(&mut store, 120, &Policy { budgets, ..under_quota() });
    let most = AtomicUsize::new(0);
    work_off(&schema, 120, |under_way, store, leased| {
        most.fetch_max(under_way, Ordering::SeqCst);
        let spent = run(store, Spend::new(leased.lease.clone(), [("tokens", 7)]));
        assert_eq!(spent.expect("an answer"), Spent::Ok);
    });
    assert!((1..=3).contains(&most.into_inner()));
    let get: GetBudget = serde_json::from_value(serde_json::json!({ "budget": "budget" })).unwrap();
    let status = ask(&mut store, &get).expect("the budget");
    assert_eq!(status.usage["tokens"].spent, 7 * 120);
    assert_eq!(status.usage["tokens"].reserved, 0);
    let courses = format!(
        "SELECT count(*) FROM {}.gates
         WHERE course::json ->> 'active' IS NOT NULL OR course::json ->> 'waiting' IS NOT NULL",
        schema.name
    );
    assert_eq!(Admin::new().number(&courses), 0, "nothing is under way, and nothing waits");
    assert_eq!(rows(&schema, "uses WHERE open"), 0);
}

#[test]
fn a_key_lets_one_through_at_a_time_also_when_several_are_the_first_to_use_it() {
    let schema = Schema::new("key");
    let mut store = schema.open();
    let policy = Policy { concurrency_key: Some(ConcurrencyKey::new("k")), ..Policy::default() };
    submit(&mut store, 40, &policy);
    work_off(&schema, 40, |under_way, _, _| assert_eq!(under_way, 1));
    assert_eq!(rows(&schema, "gates"), 1);
    let trim = |store: &mut PgStore| {
        let mut tx = store.begin().unwrap();
        loop {
            let trimmed = tx.trim_gates(Timestamp::MAX, 10).unwrap();
            if !tx.load_missing().unwrap() {
                tx.commit(Timestamp::default()).unwrap();
                return trimmed;
            }
        }
    };
    assert_eq!((trim(&mut store), trim(&mut store)), (1, 0));
    assert_eq!(rows(&schema, "gates"), 0);
}

#[test]
fn a_rate_holds_across_stores() {
    let schema = Schema::new("rate");
    let mut store = schema.open();
    let window = std::time::Duration::from_secs(3600);
    let rate = Some(RateTerms { limit: 25, window });
    quota(&mut store, QuotaTerms { rate, ..QuotaTerms::default() });
    submit(&mut store, 60, &under_quota());
    let begun = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut store = schema.open();
                for _ in 0..10 {
                    let leases = run(&mut store, up_to(2)).expect("a claim").leases;
                    begun.fetch_add(leases.len(), Ordering::SeqCst);
                    for leased in leases {
                        run(&mut store, complete(&leased)).expect("it is done");
                    }
                }
            });
        }
    });
    assert_eq!(begun.into_inner(), 25);
    assert_eq!(rows(&schema, "executions WHERE gate IS NOT NULL"), 35);
}

#[test]
fn keys_take_turns_whoever_submits_and_every_turn_counts() {
    let schema = Schema::new("turns");
    let mut store = schema.open();
    let lane = serde_json::json!({ "lane": "default", "fairness": {} });
    run(&mut store, serde_json::from_value::<PutLane>(lane).unwrap()).expect("a fair lane");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let schema = &schema;
            scope.spawn(move || {
                let mut store = schema.open();
                for _ in 0..10 {
                    let fairness_key = Some(format!("key-{}", thread % 2));
                    submit(&mut store, 1, &Policy { fairness_key, ..Policy::default() });
                }
            });
        }
    });
    let ranks = format!("SELECT count(DISTINCT rank) FROM {}.executions", schema.name);
    assert_eq!(Admin::new().number(&ranks), 20, "each key has each turn once");
}

/// Waits until somebody waits for a lock on this schema's behalf.
fn until_waiting(admin: &Admin, schema: &Schema) {
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE application_name = '{}' AND wait_event_type = 'Lock'",
        schema.name
    );
    while admin.number(&waiting) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn what_waits_before_a_gate_is_freed_also_if_someone_has_it_locked_just_then() {
    let schema = Schema::new("freed");
    let mut store = schema.open();
    quota(&mut store, QuotaTerms { concurrency: Some(1), ..QuotaTerms::default() });
    submit(&mut store, 2, &under_quota());
    let leases = run(&mut store, up_to(2)).expect("a claim").leases;
    assert_eq!(leases.len(), 1);
    let (stranger, watcher) = (Admin::new(), Admin::new());
    let lock = "SELECT FROM {}.executions WHERE gate IS NOT NULL FOR UPDATE";
    stranger.run(&format!("BEGIN; {}", lock.replace("{}", &schema.name)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut store = schema.open();
            run(&mut store, complete(&leases[0])).expect("it is done");
        });
        until_waiting(&watcher, &schema);
        stranger.run("COMMIT");
    });
    assert_eq!(run(&mut store, up_to(2)).expect("a claim").leases.len(), 1);
}

#[test]
fn a_limit_is_not_removed_while_someone_is_about_to_name_it() {
    let schema = Schema::new("named");
    let mut store = schema.open();
    budget(&mut store, 10);
    let deleted = AtomicU64::new(0);
    for round in 0..10 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut store = schema.open();
                let policy =
                    Policy { budgets: vec![BudgetUse::new("budget")], ..Policy::default() };
                let new = NewExecution { policy, ..NewExecution::new("work") };
                let executions = vec![new];
                let _ = run(&mut store, Submit { namespace: DEFAULT_NAME.into(), executions });
            });
            scope.spawn(|| {
                let mut store = schema.open();
                let delete = serde_json::json!({ "budget": "budget" });
                let delete: DeleteBudget = serde_json::from_value(delete).unwrap();
                deleted.fetch_add(u64::from(run(&mut store, delete).is_ok()), Ordering::SeqCst);
            });
        });
        let orphans = "uses WHERE limit_id NOT IN (SELECT id FROM {}.limits)";
        assert_eq!(rows(&schema, &orphans.replace("{}", &schema.name)), 0, "in round {round}");
        if deleted.swap(0, Ordering::SeqCst) > 0 {
            budget(&mut store, 10);
        }
        while let Some(leased) = run(&mut store, up_to(1)).expect("a claim").leases.pop() {
            run(&mut store, complete(&leased)).expect("it is done");
        }
    }
}

#[test]
fn limits_attached_at_once_to_one_namespace_are_all_there() {
    let schema = Schema::new("attached");
    let mut store = schema.open();
    let names: Vec<String> = (0..8).map(|number| format!("quota-{number}")).collect();
    for name in &names {
        let terms = QuotaTerms { concurrency: Some(1), ..QuotaTerms::default() };
        run(&mut store, CreateQuota::new(name, terms)).expect("a quota");
    }
    std::thread::scope(|scope| {
        for name in &names {
            let schema = &schema;
            scope.spawn(move || {
                let attach = AttachLimit::quota(name, AttachTo::Namespace);
                run(&mut schema.open(), attach).expect("it is attached");
            });
        }
    });
    let namespace = store.read().unwrap().namespace(DEFAULT_NAME).unwrap().expect("it is there");
    assert_eq!(namespace.limits.all.quotas.len(), 8);
}
