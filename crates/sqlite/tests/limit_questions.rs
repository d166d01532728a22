//! What limits work: every question, asked of this store and of the in-memory one after the same
//! random changes.

mod common;

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::Arc;

use common::limits::{add_limited, before, budget, open_use, quota};
use common::{Queue, at, both, commit, in_memory};
use everloom_core::{
    Breach, BudgetCourse, BudgetUse, ConcurrencyKey, Defaults, Execution, FairTerms, Flow,
    FlowCounts, FlowId, FlowRow, FlowState, FlowTerms, Gate, GateCourse, GateRow, Lane, LaneId,
    Limit, LimitPlace, LimitRow, LimitSort, LimitUses, MemoryStore, NamespaceId, NamespaceLimits,
    Passage, Policy, QuotaUse, Read, RouteId, RowId, Share, Source, State, Store, Transaction,
    Turn, Usage, Use,
};
use everloom_sqlite::SqliteStore;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use uuid::Uuid;

const QUEUE: Queue = Queue { namespace: NamespaceId(1), lane: LaneId(1), route: RouteId(1) };
const NAMESPACES: [NamespaceId; 2] = [NamespaceId(1), NamespaceId(2)];
const SORTS: [LimitSort; 2] = [LimitSort::Budget, LimitSort::Quota];
const LANES: [LaneId; 2] = [LaneId(1), LaneId(2)];
const ROUTES: [RouteId; 2] = [RouteId(1), RouteId(2)];
const KEYS: [&str; 5] = ["", "a", "A", "b", "é"];
const PRIORITIES: [i32; 2] = [0, 7];

/// Two namespaces with lanes and routes, and a flow.
fn begin(tx: &mut dyn Transaction) {
    let queue = Queue::add(tx);
    tx.put_namespace("other", &Defaults::default()).unwrap();
    tx.add_lane(queue.namespace, "second").unwrap();
    tx.add_route(queue.namespace, "print", &[]).unwrap();
    let row = tx.new_flow_row().unwrap();
    tx.insert_flow(&flow(row)).unwrap();
}

fn flow(row: FlowRow) -> Flow {
    Flow {
        row,
        id: FlowId(Uuid::from_u128(9)),
        namespace: QUEUE.namespace,
        kind: None,
        state: FlowState::Open,
        since: at(1),
        held: false,
        run: 1,
        counts: FlowCounts::default(),
        terms: Arc::default(),
        deadline_at: None,
        parent: None,
        created_at: at(1),
        tags: Arc::default(),
        fingerprint: [1; 16],
    }
}

fn pick<T: Copy>(random: &mut ChaCha8Rng, from: &[T]) -> T {
    *from.choose(random).unwrap()
}

fn known_limits(read: &mut dyn Read) -> Vec<Arc<Limit>> {
    let mut all = Vec::new();
    for namespace in NAMESPACES {
        for sort in SORTS {
            all.extend(read.limits(namespace, sort, None, 100).unwrap());
        }
    }
    all
}

/// A limit that exists, or that of concurrency keys.
fn some_limit(tx: &mut dyn Transaction, random: &mut ChaCha8Rng) -> (NamespaceId, LimitRow) {
    match known_limits(tx).choose(random) {
        Some(limit) if random.random_bool(0.7) => (limit.namespace, limit.row),
        _ => (pick(random, &NAMESPACES), LimitRow::KEYS),
    }
}

fn some_execution(tx: &mut dyn Transaction, random: &mut ChaCha8Rng) -> Option<Execution> {
    let row = RowId(random.random_range(1..60));
    tx.execution(row).unwrap()
}

fn course(random: &mut ChaCha8Rng) -> GateCourse {
    let breach = Breach { at: at(3), dimension: "tokens".into(), asked: u64::MAX };
    let usage = Usage { spent: random.random(), reserved: random.random_range(0..2) };
    let budget = BudgetCourse {
        turn: 2,
        since: at(2),
        next_reset_at: Some(at(60_000)),
        usage: BTreeMap::from([("tokens".to_owned(), usage)]),
        breach: Some(breach.clone()),
        last_breach: Some(breach),
        breaches: 3,
        soft_breaches: 1,
    };
    GateCourse {
        waiting: random.random_range(0..3),
        wake_at: random.random_bool(0.5).then(|| at(7)),
        active: random.random_range(0..3),
        passed: random.random_range(0..9),
        last_first: 1,
        last_at: Some(at(5)),
        budget: random.random_bool(0.3).then_some(budget),
    }
}

/// One change, drawn anew from the same numbers and so the same on stores that answer alike; says
/// what it came to.
fn change(tx: &mut dyn Transaction, random: &mut ChaCha8Rng) -> Box<dyn Debug> {
    match random.random_range(0..18) {
        0 => {
            let (row, namespace) = (tx.new_limit_row().unwrap(), pick(random, &NAMESPACES));
            let make = if random.random_bool(0.5) { budget } else { quota };
            Box::new(tx.put_limit(&make(row, namespace, &format!("limit {row:?}"))))
        }
        1 => Box::new(known_limits(tx).choose(random).map(|known| {
            let mut limit = Limit::clone(known);
            limit.terms = budget(limit.row, limit.namespace, "").terms;
            limit.name += "'";
            limit.places = vec![LimitPlace::Namespace, LimitPlace::Kind("mail".into())];
            tx.put_limit(&limit)
        })),
        2 if random.random_bool(0.3) => {
            Box::new(known_limits(tx).choose(random).map(|limit| tx.drop_limit(limit)))
        }
        3..=5 => {
            let (namespace, limit) = some_limit(tx, random);
            let mut gate = tx.gate(namespace, limit, pick(random, &KEYS)).unwrap();
            if random.random_bool(0.7) {
                gate.course = course(random);
                gate.idle_at = random.random_bool(0.4).then(|| at(random.random_range(0..20)));
                tx.save_gate(&gate).unwrap();
            }
            Box::new(gate)
        }
        6 => {
            let (by, rows) = (at(random.random_range(0..20)), random.random_range(0..4));
            Box::new(tx.trim_gates(by, rows))
        }
        7 | 8 => change_passages(tx, random),
        9 | 10 => change_uses(tx, random),
        11 | 12 => change_turns(tx, random),
        13 | 14 => {
            let gate = GateRow(random.random_range(1..4));
            let lane = pick(random, &LANES);
            let queue = Queue { lane, route: pick(random, &ROUTES), ..QUEUE };
            let mut execution = add_limited(tx, queue, gate);
            execution.priority = pick(random, &PRIORITIES);
            execution.rank = random.random_range(-3..3);
            Box::new(tx.save(&execution))
        }
        15 => Box::new(some_execution(tx, random).map(|execution| {
            let gate = GateRow(random.random_range(1..4));
            let states = [State::Waiting, State::Resumable, before(gate), before(gate)];
            let state = states.choose(random).unwrap().clone();
            match random.random_bool(0.2) {
                true => tx.remove(&execution),
                false => tx.save(&Execution { state, ..execution }),
            }
        })),
        16 => Box::new(some_execution(tx, random).map(|mut execution| {
            execution.policy = Arc::new(policy(random));
            // Nothing else of it is saved.
            execution.priority += 1;
            tx.save_policy(&execution)
        })),
        _ => change_places(tx, random),
    }
}

fn change_passages(tx: &mut dyn Transaction, random: &mut ChaCha8Rng) -> Box<dyn Debug> {
    let gate = GateRow(random.random_range(1..4));
    if random.random_bool(0.3) {
        return Box::new(tx.drop_passages(gate, random.random_range(0..40)));
    }
    // Passages do not overlap, and the last one may grow.
    let first = 4 * random.random_range(0..10) + 1;
    let last = first + random.random_range(0..4);
    Box::new(tx.put_passage(gate, &Passage { first, last, at: at(random.random_range(0..9)) }))
}

fn change_uses(tx: &mut dyn Transaction, random: &mut ChaCha8Rng) -> Box<dyn Debug> {
    let (_, limit) = some_limit(tx, random);
    let Some(mut execution) = some_execution(tx, random) else { return Box::new(()) };
    if random.random_bool(0.2) {
        return Box::new(tx.drop_use(execution.row, limit));
    }
    execution.beside.limits = true;
    tx.save(&execution).unwrap();
    let amounts = BTreeMap::from([("tokens".to_owned(), random.random())]);
    let share = Share {
        named: random.random_bool(0.5),
        reserved: amounts.clone(),
        spent: amounts.clone(),
        turn: 3,
        total: amounts,
    };
    Box::new(tx.put_use(&Use {
        open: random.random_bool(0.6),
        gate: random.random_bool(0.5).then_some(GateRow(3)),
        share: if random.random_bool(0.5) { share } else { Share::default() },
        ..open_use(execution.row, limit)
    }))
}

fn change_turns(tx: &mut dyn Transaction, random: &mut ChaCha8Rng) -> Box<dyn Debug> {
    let (lane, priority) = (pick(random, &LANES), pick(random, &PRIORITIES));
    let next = random.random_range(-3..3);
    if random.random_bool(0.4) {
        return Box::new(tx.drop_turns(lane, priority, next, random.random_range(0..9)));
    }
    let keys = [KEYS.as_slice(), &[Turn::NOW]].concat();
    let key = pick(random, &keys).to_owned();
    Box::new(tx.put_turn(&Turn { lane, priority, key, next }))
}

fn policy(random: &mut ChaCha8Rng) -> Policy {
    let mut policy = Policy::default();
    if random.random_bool(0.7) {
        policy.budgets = vec![BudgetUse::new("b").estimate("tokens", random.random())];
        policy.quotas = vec![QuotaUse { quota: "q".into(), key: Some("k".into()) }];
        policy.concurrency_key = Some(ConcurrencyKey::new("c"));
        policy.fairness_key = Some("f".into());
    }
    policy
}

/// Puts limits on a namespace, a lane or a flow, or takes them away.
fn change_places(tx: &mut dyn Transaction, random: &mut ChaCha8Rng) -> Box<dyn Debug> {
    let on = random.random_bool(0.7);
    let Policy { budgets, quotas, .. } = policy(random);
    let uses = if on { LimitUses { budgets, quotas } } else { LimitUses::default() };
    match random.random_range(0..4) {
        0 => {
            let kinds = BTreeMap::from([("mail".to_owned(), uses.clone())]);
            let limits = NamespaceLimits { all: uses, kinds };
            let limits = if on { limits } else { NamespaceLimits::default() };
            Box::new(tx.save_limits(pick(random, &NAMESPACES), &limits))
        }
        1 => Box::new(tx.put_namespace("other", &Defaults::default())),
        2 => {
            let lane = tx.lane_by_id(pick(random, &LANES)).unwrap();
            let weights = BTreeMap::from([("a".to_owned(), 3)]);
            let fairness = FairTerms { by_tag: Some("team".into()), weights };
            Box::new(tx.save_lane(&Lane {
                limits: uses,
                fairness: on.then_some(fairness),
                course: on.then(|| random.random()),
                ..Lane::clone(&lane)
            }))
        }
        _ => {
            let saved = tx.flow_by_row(FlowRow(1)).unwrap();
            let terms = FlowTerms { policy: policy(random), ..FlowTerms::default() };
            // Nothing else of it is saved.
            Box::new(tx.save_terms(&Flow { terms: Arc::new(terms), held: on, ..saved }))
        }
    }
}

/// The answers to all questions.
fn everything(read: &mut dyn Read) -> String {
    let mut all = String::new();
    let mut add = |what: &str, answer: &dyn Debug| writeln!(all, "{what} {answer:?}").unwrap();
    for limit in known_limits(read) {
        let Limit { row, namespace, name, .. } = &*limit;
        add("limit", &SORTS.map(|sort| read.limit(*namespace, sort, name)));
        add("limit_by_row", &read.limit_by_row(*row));
        add("limits", &SORTS.map(|sort| read.limits(*namespace, sort, Some(name), 2)));
        add("gates", &[0, 2, 9].map(|rows| read.gates(*row, None, rows)));
        add("gates after", &KEYS.map(|after| read.gates(*row, Some(after), 2)));
    }
    for limit in (0..40).map(LimitRow) {
        for namespace in NAMESPACES {
            add("find_gate", &KEYS.map(|key| read.find_gate(namespace, limit, key)));
        }
        for after in [None, Some(RowId(0)), Some(RowId(20))] {
            add("open_uses", &[0, 2, 99].map(|rows| read.open_uses(limit, after, rows)));
        }
    }
    for gate in (0..40).map(GateRow) {
        add("gate_by_row", &read.gate_by_row(gate));
        add("limited", &[0, 1, 3, 99].map(|each| read.limited(gate, each)));
        add("passage", &(0..45).map(|number| read.passage(gate, number)).collect::<Vec<_>>());
    }
    for row in (0..60).map(RowId) {
        add("execution", &(read.execution(row), read.uses(row)));
    }
    for lane in LANES {
        add("lane", &read.lane_by_id(lane));
        for priority in PRIORITIES {
            add("turn", &KEYS.map(|key| read.turn(lane, priority, key)));
            add("now", &read.turn(lane, priority, Turn::NOW));
        }
        add("claimable", &read.claimable(lane, &ROUTES, 99));
    }
    add("namespaces", &NAMESPACES.map(|namespace| read.namespace_by_id(namespace)));
    add("counts", &read.counts(QUEUE.namespace, None));
    add("flow", &read.flow_by_row(FlowRow(1)));
    all
}

/// Asks both stores everything. Bugs are worded differently.
fn same_answers(memory: &mut dyn Read, sqlite: &mut dyn Read) {
    let (expected, found) = (everything(memory), everything(sqlite));
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn after_random_changes_every_answer_is_that_of_the_in_memory_store() {
    let seed = std::env::var("EVERLOOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("EVERLOOM_SEED={seed}");
    let mut seeds = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..4 {
        let mut stores = both(begin);
        for _ in 0..20 {
            let seed = seeds.random();
            same_changes(&mut stores, seed);
            let (memory, sqlite) = &mut stores;
            same_answers(&mut *memory.read().unwrap(), &mut *sqlite.read().unwrap());
        }
    }
}

/// Some changes in one transaction, which sees them itself.
fn same_changes((memory, sqlite): &mut (MemoryStore, SqliteStore), seed: u64) {
    let (mut memory, mut sqlite) = (memory.begin().unwrap(), sqlite.begin().unwrap());
    let [mut one, mut other] = [(); 2].map(|()| ChaCha8Rng::seed_from_u64(seed));
    for _ in 0..10 {
        let (expected, found) = (change(&mut *memory, &mut one), change(&mut *sqlite, &mut other));
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    }
    same_answers(&mut *memory, &mut *sqlite);
    memory.commit(at(2000)).unwrap();
    sqlite.commit(at(2000)).unwrap();
}

#[test]
fn what_a_transaction_that_is_given_up_changed_is_as_it_was() {
    let mut store = in_memory();
    let limit = commit(&mut store, |tx| {
        begin(tx);
        let limit = budget(tx.new_limit_row().unwrap(), QUEUE.namespace, "b");
        tx.put_limit(&limit).unwrap();
        tx.gate(QUEUE.namespace, limit.row, "").unwrap();
        limit
    });
    let before = everything(&mut *store.read().unwrap());
    let mut tx = store.begin().unwrap();
    let row = tx.new_limit_row().unwrap();
    tx.put_limit(&quota(row, QUEUE.namespace, "q")).unwrap();
    let uses = LimitUses { budgets: vec![BudgetUse::new("b")], quotas: vec![] };
    let limits = NamespaceLimits { all: uses, kinds: BTreeMap::new() };
    tx.save_limits(QUEUE.namespace, &limits).unwrap();
    assert_eq!(tx.namespace("default").unwrap().unwrap().limits, limits);
    let gate = tx.gate(QUEUE.namespace, limit.row, "").unwrap();
    tx.save_gate(&Gate { idle_at: Some(at(1)), ..gate }).unwrap();
    tx.drop_limit(&limit).unwrap();
    assert_eq!(tx.limit(QUEUE.namespace, LimitSort::Budget, "b").unwrap(), None);
    assert!(tx.limit_by_row(limit.row).is_err());
    assert_eq!(tx.limit_by_row(row).unwrap().name, "q");
    drop(tx);
    assert_eq!(everything(&mut *store.begin().unwrap()), before);
    assert_eq!(everything(&mut *store.read().unwrap()), before);
}
