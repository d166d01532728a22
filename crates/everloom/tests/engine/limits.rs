//! Budgets and quotas through the engine: spenders and workers that compete, and processes that die.

use std::collections::BTreeMap;
use std::time::Duration;

use everloom::{
    Allowance, AttachLimit, AttachTo, BudgetTerms, BudgetUse, Claim, Engine, EventKind, From,
    Limits, NewExecution, OnBreach, Payload, Policy, QuotaTerms, ReadEvents, RegisterWorker, Spend,
    Spent, Status,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use crate::common::{Ledger, Scratch, another_process, count, postgres_url, text, until};

fn hard(amount: u64) -> Allowance {
    Allowance { hard: Some(amount), soft: None }
}

const SPENDERS: u64 = 64;
const SPENDS: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spenders_that_compete_never_exceed_a_hard_limit_and_each_key_counts_once() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let engines = [Engine::open(url).await.unwrap(), Engine::open(url).await.unwrap()];
        compete(&engines).await;
    }
    compete(&[Engine::open("memory").await.unwrap()]).await;
}

async fn compete(engines: &[Engine]) {
    let seed: u64 = rand::rng().random();
    println!("seed {seed}");
    let limits = [
        ("wide", [("tokens", 2000), ("calls", 300)]),
        ("deep", [("tokens", 1500), ("calls", 9000)]),
    ];
    for (name, dimensions) in limits {
        let dimensions = dimensions.map(|(name, amount)| (name, hard(amount)));
        let terms = BudgetTerms { on_breach: OnBreach::Warn, ..BudgetTerms::new(dimensions) };
        engines[0].create_budget(name, terms).await.unwrap();
    }
    let mut spenders = JoinSet::new();
    for number in 0..SPENDERS {
        let engine = engines[number as usize % engines.len()].clone();
        spenders.spawn(spender(engine, number, seed));
    }
    let mut applied = BTreeMap::<(&str, &str), u64>::new();
    let mut refused = 0;
    while let Some(done) = spenders.join_next().await {
        for (budgets, tokens, outcome) in done.unwrap() {
            match outcome {
                Spent::Ok => {
                    for budget in budgets {
                        *applied.entry((budget, "tokens")).or_default() += tokens;
                        *applied.entry((budget, "calls")).or_default() += 1;
                    }
                }
                Spent::HardBreach { .. } => refused += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(refused > 0, "nobody was refused, so that nothing is shown");
    for (name, dimensions) in limits {
        let usage = engines[0].budget(name).await.unwrap().usage;
        for (dimension, hard) in dimensions {
            assert_eq!(usage[dimension].spent, applied[&(name, dimension)], "{name} {dimension}");
            assert!(usage[dimension].spent <= hard, "{name} {dimension}");
        }
    }
}

/// Spends of one budget or of both, each twice at the same time under the same key; tells what came
/// of each.
async fn spender(
    engine: Engine,
    number: u64,
    seed: u64,
) -> Vec<(&'static [&'static str], u64, Spent)> {
    const CHOICES: [&[&str]; 3] = [&["wide"], &["deep"], &["deep", "wide"]];
    let mut random = StdRng::seed_from_u64(seed ^ number);
    let mut told = Vec::new();
    for round in 0..SPENDS {
        let budgets = CHOICES[random.random_range(0..3)];
        let tokens = random.random_range(1..=20);
        let spend = Spend {
            namespace: "default".into(),
            lease: None,
            execution: None,
            budgets: budgets.iter().map(ToString::to_string).collect(),
            amounts: [("tokens".to_owned(), tokens), ("calls".to_owned(), 1)].into(),
            key: Some(format!("{number}/{round}")),
        };
        let (one, other) = tokio::join!(engine.spend(spend.clone()), engine.spend(spend));
        let (one, other) = (one.unwrap(), other.unwrap());
        // What was refused may be tried again, so that both or neither may have been refused.
        let outcome = match (one, other) {
            (Spent::Ok, Spent::AlreadyApplied) | (Spent::AlreadyApplied, Spent::Ok) => Spent::Ok,
            (Spent::HardBreach { .. }, refused @ Spent::HardBreach { .. }) => refused,
            both => panic!("{both:?}"),
        };
        told.push((budgets, tokens, outcome));
    }
    told
}

#[tokio::test]
async fn a_raise_by_another_engine_gives_a_waiting_claim_what_was_blocked() {
    let scratch = Scratch::new();
    for url in [scratch.url(), &postgres_url()] {
        let (here, there) = (Engine::open(url).await.unwrap(), Engine::open(url).await.unwrap());
        here.create_budget("team", BudgetTerms::new([("runs", hard(1))])).await.unwrap();
        let under = BudgetUse::new("team").estimate("runs", 1);
        let policy = Policy { budgets: vec![under], ..Policy::default() };
        let work = NewExecution::new("work").policy(policy);
        here.submit_batch(vec![work; 2]).await.unwrap();
        let claim = Claim { max: 2, ..Claim::new("w") };
        assert_eq!(here.claim(claim.clone()).await.unwrap().leases.len(), 1);
        assert_eq!(count(&here, Status::RateLimited).await, 1);
        let waiting = tokio::spawn({
            let (engine, wait) = (here.clone(), Duration::from_secs(30));
            async move { engine.claim(Claim { wait, ..claim }).await.unwrap() }
        });
        there.update_budget("team", BudgetTerms::new([("runs", hard(2))])).await.unwrap();
        assert_eq!(waiting.await.unwrap().leases.len(), 1);
    }
}

/// Executions that a quota lets run a few at a time while processes die.
const LIMITED: usize = 200;
const AT_ONCE: u64 = 5;
const KILLS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_holds_and_its_places_come_back_while_workers_are_killed() {
    let scratch = Scratch::new();
    hold_through_kills(scratch.url(), &scratch).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_on_postgres() {
    hold_through_kills(&postgres_url(), &Scratch::new()).await;
}

async fn hold_through_kills(url: &str, scratch: &Scratch) {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let engine = Engine::open(url).await.unwrap();
    let terms = QuotaTerms { concurrency: Some(AT_ONCE as u32), ..QuotaTerms::default() };
    engine.create_quota("few", terms).await.unwrap();
    let attach = AttachLimit::quota("few", AttachTo::Lane("default".into()));
    engine.attach_limit(attach).await.unwrap();
    engine.submit_batch(vec![NewExecution::new("work"); LIMITED]).await.unwrap();
    let ledger = scratch.beside("lives.ledger");
    let start = |name: &str| {
        let settings = [
            ("EVERLOOM_TEST_FILE", url),
            ("EVERLOOM_TEST_LEDGER", text(&ledger)),
            ("EVERLOOM_TEST_NAME", name),
        ];
        another_process("limited", &settings)
    };
    for round in 0..KILLS {
        let mut children = ["one", "two"].map(start);
        until(async || Ledger::read(&ledger, "began").len() > 2 * round + 1).await;
        // The moment of the kill is what is tried out: any will do.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..120))).await;
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
    let mut children = ["one", "two"].map(start);
    until(async || count(&engine, Status::Completed).await == LIMITED as u64).await;
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(most_at_once(&engine).await, AT_ONCE);
    let quota = engine.quota("few").await.unwrap();
    assert!(quota.keys.iter().all(|key| (key.active, key.blocked) == (0, 0)), "{quota:?}");
}

/// How many leases the log ever shows at the same time, once it shows the end of all.
async fn most_at_once(engine: &Engine) -> u64 {
    let (mut from, mut now, mut most, mut ended) = (From::Oldest, 0_u64, 0, 0);
    while ended < LIMITED {
        let read = ReadEvents { from, limit: Limits::PAGE, ..ReadEvents::default() };
        let page = engine.events(read).await.unwrap();
        for event in &page.events {
            match event.kind {
                EventKind::Claimed => now += 1,
                EventKind::Completed | EventKind::LeaseLost | EventKind::LeaseExpired => now -= 1,
                _ => {}
            }
            most = most.max(now);
            ended += usize::from(event.kind == EventKind::Completed);
        }
        from = From::After(page.next);
        if page.at_end {
            // What a process that died wrote last may take a moment to appear.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert_eq!(now, 0);
    most
}

/// Works off what it may have, a few at a time.
pub(crate) async fn limited(file: &str, ledger: &str, name: &str) {
    let engine = Engine::open(file).await.unwrap();
    engine.register_worker(RegisterWorker::new("pool", name)).await.unwrap();
    Ledger::open(ledger).note("began", name);
    let claim = Claim { max: 8, wait: Duration::from_millis(200), ..Claim::new(name) };
    loop {
        for leased in engine.claim(claim.clone()).await.unwrap().leases {
            engine.complete(&leased.lease, Payload::default()).await.unwrap();
        }
    }
}
