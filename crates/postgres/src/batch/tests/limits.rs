//! Commands about budgets and quotas that share a batch, and how often they go to the database.

use everloom_core::{
    Allowance, AttachLimit, AttachTo, BudgetTerms, BudgetUse, Call, Cancel, Claim, Complete,
    ConcurrencyKey, CreateBudget, CreateQuota, ExecutionId, Job, LeaseToken, LimitSort,
    NamespaceId, NewExecution, Policy, QuotaTerms, QuotaUse, RateTerms, RowId, Source, Spend,
    Submit,
};

use super::fake::FakePg;
use super::loads::{apply, apply_all, call, run};

fn submit(count: usize, policy: &Policy) -> Submit {
    let new = NewExecution { policy: policy.clone(), ..NewExecution::new("kind") };
    Submit { namespace: "default".into(), executions: vec![new; count] }
}

fn claim(max: usize) -> Claim {
    Claim { max, ..Claim::new("w") }
}

fn complete(lease: LeaseToken) -> Complete {
    Complete { namespace: "default".into(), lease, result: Default::default() }
}

fn quota(concurrency: u32) -> CreateQuota {
    let concurrency = Some(concurrency);
    CreateQuota::new("q", QuotaTerms { concurrency, ..QuotaTerms::default() })
}

fn budget() -> CreateBudget {
    let allowance = Allowance { hard: Some(1000), soft: None };
    CreateBudget::new("b", BudgetTerms::new([("tokens", allowance)]))
}

fn under_both() -> Policy {
    let budgets = vec![BudgetUse::new("b").estimate("tokens", 1)];
    Policy { budgets, quotas: vec![QuotaUse::new("q")], ..Policy::default() }
}

fn leases(store: &mut FakePg, count: usize) -> Vec<LeaseToken> {
    apply(store, claim(count)).leases.into_iter().map(|leased| leased.lease).collect()
}

/// How many executions are under way and wait, before the gate of the quota.
fn gate(store: &mut FakePg) -> (u64, u64) {
    let mut read = store.read().unwrap();
    let limit = read.limit(NamespaceId(1), LimitSort::Quota, "q").unwrap().expect("a quota");
    let gate = read.find_gate(NamespaceId(1), limit.row, "").unwrap().expect("it was used");
    (gate.course.active, gate.course.waiting)
}

#[test]
fn fifty_completions_under_limits_need_one_load_and_a_claim_of_them_two() {
    let mut store = FakePg::default();
    apply(&mut store, quota(100));
    apply(&mut store, budget());
    for _ in 0..3 {
        apply(&mut store, submit(50, &under_both()));
        let (mut claimed, counts) = apply_all(&mut store, [claim(50)]);
        assert_eq!((counts.loads, counts.commits), (2, 1));
        let leases = claimed.remove(0).leases.into_iter().map(|leased| leased.lease);
        let (_, counts) = apply_all(&mut store, leases.map(complete));
        assert_eq!((counts.loads, counts.commits), (1, 1));
    }
    assert_eq!(gate(&mut store), (0, 0));
}

#[test]
fn a_process_that_knows_nothing_needs_a_load_for_each_of_what_stands_behind_another() {
    let mut store = FakePg::default();
    apply(&mut store, quota(100));
    apply(&mut store, budget());
    apply(&mut store, submit(50, &under_both()));
    let (mut claimed, counts) = store.elsewhere(|store| apply_all(store, [claim(50)]));
    // The namespace, the lane and the routes, the executions, their limits, the gates.
    assert!(counts.loads <= 6, "{counts:?}");
    let leases = claimed.remove(0).leases.into_iter().map(|leased| leased.lease);
    let leases: Vec<_> = leases.collect();
    let (_, counts) = store.elsewhere(|store| apply_all(store, leases.into_iter().map(complete)));
    // The namespace, the executions, what they have of limits with the gates.
    assert!(counts.loads <= 4, "{counts:?}");
    assert_eq!(gate(&mut store), (0, 0));
}

#[test]
fn a_claim_that_is_refused_over_and_over_needs_few_loads() {
    let mut store = FakePg::default();
    apply(&mut store, quota(3));
    apply(&mut store, budget());
    apply(&mut store, submit(150, &under_both()));
    let (claimed, counts) = apply_all(&mut store, [claim(10)]);
    assert_eq!(claimed[0].leases.len(), 3);
    assert!(counts.loads <= 8, "{counts:?}");
    assert_eq!(gate(&mut store), (3, 147));
}

#[test]
fn a_rate_is_kept_by_all_claims_of_a_batch_with_few_loads() {
    let mut store = FakePg::default();
    let window = std::time::Duration::from_secs(60);
    let rate = Some(RateTerms { limit: 30, window });
    apply(&mut store, CreateQuota::new("q", QuotaTerms { rate, ..QuotaTerms::default() }));
    apply(&mut store, budget());
    apply(&mut store, submit(50, &under_both()));
    let (claimed, _) = apply_all(&mut store, (0..20).map(|_| claim(1)));
    assert_eq!(claimed.iter().map(|claimed| claimed.leases.len()).sum::<usize>(), 20);
    let (claimed, counts) = apply_all(&mut store, (0..20).map(|_| claim(1)));
    assert_eq!(claimed.iter().map(|claimed| claimed.leases.len()).sum::<usize>(), 10);
    assert!(counts.loads <= 6, "{counts:?}");
}

#[test]
fn commands_of_one_batch_see_what_the_others_did_to_limits() {
    let mut store = FakePg::default();
    apply(&mut store, submit(1, &Policy::default()));
    let mut jobs: Vec<Box<dyn Job>> = vec![
        Box::new(call(quota(2))),
        Box::new(call(quota(2))),
        Box::new(call(budget())),
        Box::new(call(AttachLimit::budget("b", AttachTo::Namespace))),
        Box::new(call(AttachLimit::quota("q", AttachTo::Lane("default".into())))),
        Box::new(call(submit(5, &under_both()))),
    ];
    run(&mut store, &mut jobs.iter_mut().map(|job| &mut **job as _).collect::<Vec<_>>());
    let held = leases(&mut store, 10);
    assert_eq!((held.len(), gate(&mut store)), (2, (2, 4)));
    let waiting: Vec<ExecutionId> = {
        let mut read = store.read().unwrap();
        let rows = (1..=6).map(RowId).filter_map(|row| read.execution(row).unwrap());
        let limited = rows.filter(|one| one.state.worker().is_none());
        limited.map(|one| one.id).collect()
    };
    // One that waits is cancelled, two that run spend and are done, and the places are taken anew.
    let [one, two] = [held[0].clone(), held[1].clone()];
    let mut last: Call<Claim> = call(claim(10));
    let mut jobs: Vec<Box<dyn Job>> = vec![
        Box::new(call(Cancel::new(waiting[0]))),
        Box::new(call(Spend::new(one.clone(), [("tokens", 5)]))),
        Box::new(call(complete(one))),
        Box::new(call(complete(two))),
    ];
    let mut all: Vec<&mut dyn Job> = jobs.iter_mut().map(|job| &mut **job as _).collect();
    all.push(&mut last);
    run(&mut store, &mut all);
    assert_eq!(last.into_answer().unwrap().leases.len(), 2);
    assert_eq!(gate(&mut store), (2, 1));
}

#[test]
fn a_key_is_passed_by_one_of_a_batch() {
    let mut store = FakePg::default();
    let policy = Policy { concurrency_key: Some(ConcurrencyKey::new("k")), ..Policy::default() };
    apply(&mut store, submit(4, &policy));
    let (claimed, _) = apply_all(&mut store, (0..4).map(|_| claim(1)));
    assert_eq!(claimed.iter().map(|claimed| claimed.leases.len()).sum::<usize>(), 1);
}
