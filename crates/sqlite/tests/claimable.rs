//! What a claim finds, and what it costs.

mod common;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use common::{Queue, at, commit, in_file, in_memory, leased};
use everloom_core::{
    Execution, LaneId, Payload, Read, RouteId, RowId, Source, State, Store, Transaction,
};
use everloom_sqlite::SqliteStore;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn rows(executions: &[Execution]) -> Vec<i64> {
    executions.iter().map(|execution| execution.row.0).collect()
}

fn insert(tx: &mut dyn Transaction, queue: Queue, priority: i32) -> Execution {
    let mut execution = queue.waiting(tx.new_row().unwrap());
    execution.priority = priority;
    tx.insert(&execution, &Payload::default(), None).unwrap();
    execution
}

#[test]
fn routes_are_merged_by_priority_then_rank() {
    let mut store = in_memory();
    commit(&mut store, |tx| {
        let mail = Queue::add(tx);
        let render = Queue { route: tx.add_route(mail.namespace, "render", &[]).unwrap(), ..mail };
        for (queue, priority) in
            [(mail, 5), (render, 5), (mail, 5), (render, 9), (mail, 1), (render, 1), (mail, 9)]
        {
            insert(tx, queue, priority);
        }
        let both = [mail.route, render.route];
        assert_eq!(rows(&tx.claimable(mail.lane, &both, 10).unwrap()), [4, 7, 1, 2, 3, 5, 6]);
        assert_eq!(rows(&tx.claimable(mail.lane, &both, 3).unwrap()), [4, 7, 1]);
        assert_eq!(rows(&tx.claimable(mail.lane, &both[..1], 2).unwrap()), [7, 1]);
        assert_eq!(rows(&tx.claimable(LaneId(99), &both, 2).unwrap()), [0; 0]);
    });
}

#[test]
fn what_a_dropped_transaction_changed_is_not_remembered() {
    let mut store = in_memory();
    let queue = commit(&mut store, |tx| Queue::add(tx));
    let first = commit(&mut store, |tx| queue.submit(tx));
    let next = |tx: &mut dyn Read| rows(&tx.claimable(queue.lane, &[queue.route], 1).unwrap());
    {
        let mut tx = store.begin().unwrap();
        assert_eq!(next(&mut *tx), [1]);
        tx.save(&leased(first, "w", at(10))).unwrap();
        let lane = tx.add_lane(queue.namespace, "other").unwrap();
        assert_eq!(tx.lane_by_id(lane.id).unwrap().name, "other");
        tx.add_route(queue.namespace, "render", &[]).unwrap();
        assert_eq!(tx.routes(queue.namespace).unwrap().routes().len(), 2);
        tx.put_namespace("more", &Default::default()).unwrap();
        assert_eq!(tx.new_row().unwrap(), RowId(2));
        assert_eq!(next(&mut *tx), [0; 0]);
    }
    let mut read = store.read().unwrap();
    assert_eq!(next(&mut *read), [1]);
    assert_eq!(read.lane(queue.namespace, "other").unwrap(), None);
    assert_eq!(read.routes(queue.namespace).unwrap().routes().len(), 1);
    assert_eq!(read.namespace("more").unwrap(), None);
    drop(read);
    assert_eq!(commit(&mut store, |tx| tx.new_row().unwrap()), RowId(2));
}

/// The store's answers, against a list that is sorted anew for every question.
#[test]
fn any_mix_of_writes_is_claimed_in_order() {
    for seed in 0..60 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let mut stores = [in_file(&path), in_file(&path)];
        let queue = commit(&mut stores[0], |tx| Queue::add(tx));
        let mut run =
            Run { random: ChaCha8Rng::seed_from_u64(seed), queue, rows: BTreeMap::new(), seed };
        for _ in 0..40 {
            let store = run.random.random_range(0..10) / 8;
            run.transaction(&mut stores[store]);
        }
    }
}

struct Run {
    random: ChaCha8Rng,
    queue: Queue,
    rows: BTreeMap<RowId, Execution>,
    seed: u64,
}

impl Run {
    fn transaction(&mut self, store: &mut SqliteStore) {
        let before = self.rows.clone();
        let mut tx = store.begin().unwrap();
        for _ in 0..self.random.random_range(1..12) {
            match self.random.random_range(0..10) {
                0..=2 => self.insert(&mut *tx),
                3..=5 => self.change(&mut *tx),
                6 => self.remove(&mut *tx),
                _ => self.ask(&mut *tx),
            }
        }
        match self.random.random_bool(0.8) {
            true => tx.commit(at(1)).unwrap(),
            false => self.rows = before,
        }
    }

    fn insert(&mut self, tx: &mut dyn Transaction) {
        let mut execution = self.queue.waiting(tx.new_row().unwrap());
        execution.route = RouteId(self.random.random_range(1..=12));
        execution.lane = LaneId(self.random.random_range(1..=2));
        self.shuffle(&mut execution);
        tx.insert(&execution, &Payload::default(), None).unwrap();
        self.rows.insert(execution.row, execution);
    }

    fn change(&mut self, tx: &mut dyn Transaction) {
        let Some(mut execution) = self.any() else { return };
        self.shuffle(&mut execution);
        tx.save(&execution).unwrap();
        self.rows.insert(execution.row, execution);
    }

    fn remove(&mut self, tx: &mut dyn Transaction) {
        let Some(execution) = self.any() else { return };
        tx.remove(&execution).unwrap();
        self.rows.remove(&execution.row);
    }

    /// Often one of those that a claim would get.
    fn any(&mut self) -> Option<Execution> {
        let all: Vec<_> = self.rows.values().cloned().collect();
        match self.random.random_bool(0.5) {
            true => all.choose(&mut self.random).cloned(),
            false => {
                let lane = LaneId(self.random.random_range(1..=2));
                self.expected(lane, &(1..=12).map(RouteId).collect::<Vec<_>>(), 1).pop()
            }
        }
    }

    fn shuffle(&mut self, execution: &mut Execution) {
        execution.priority = *[1, 5, 9].choose(&mut self.random).unwrap();
        execution.rank = self.random.random_range(0..20);
        execution.held = self.random.random_bool(0.1);
        execution.gated = self.random.random_bool(0.1);
        execution.state = match self.random.random_range(0..4) {
            0 => leased(execution.clone(), "w", at(5)).state,
            1 => State::Resumable,
            _ => State::Waiting,
        };
    }

    fn ask(&mut self, tx: &mut dyn Transaction) {
        let lane = LaneId(self.random.random_range(1..=2));
        let share = self.random.random_range(0.0..=1.0);
        let routes: Vec<_> =
            (1..=12).filter(|_| self.random.random_bool(share)).map(RouteId).collect();
        let limit = *[1, 2, 5, 100].choose(&mut self.random).unwrap();
        let found = tx.claimable(lane, &routes, limit).unwrap();
        assert_eq!(rows(&found), rows(&self.expected(lane, &routes, limit)), "seed {}", self.seed);
    }

    fn expected(&self, lane: LaneId, routes: &[RouteId], limit: usize) -> Vec<Execution> {
        let fits = |execution: &&Execution| {
            execution.claimable() && execution.lane == lane && routes.contains(&execution.route)
        };
        let mut ready: Vec<_> = self.rows.values().filter(fits).cloned().collect();
        ready.sort_by_key(|execution| (Reverse(execution.priority), execution.rank, execution.row));
        ready.truncate(limit);
        ready
    }
}

/// Steps of SQLite for fifty claims of one execution each, after a first one.
fn claim_steps(store: &mut SqliteStore, lane: LaneId, routes: &[RouteId]) -> u64 {
    let claim = |tx: &mut dyn Transaction| {
        let execution = tx.claimable(lane, routes, 1).unwrap().remove(0);
        tx.save(&leased(execution, "w", at(100))).unwrap();
    };
    commit(store, claim);
    let before = store.statement_counters().vm_steps;
    commit(store, |tx| (0..50).for_each(|_| claim(tx)));
    store.statement_counters().vm_steps - before
}

/// A store whose lane has some ready rows on each of some routes.
fn with_routes(count: usize) -> (SqliteStore, Queue, Vec<RouteId>) {
    let mut store = in_memory();
    let (queue, routes) =
        commit(&mut store, |tx| {
            let queue = Queue::add(tx);
            let mut routes = vec![queue.route];
            routes.extend((1..count).map(|number| {
                tx.add_route(queue.namespace, &format!("kind{number}"), &[]).unwrap()
            }));
            for _ in 0..100_usize.div_ceil(count).max(2) {
                for &route in &routes {
                    insert(tx, Queue { route, ..queue }, 1000);
                }
            }
            (queue, routes)
        });
    (store, queue, routes)
}

#[test]
fn a_claim_over_a_thousand_routes_costs_about_what_one_over_a_single_route_does() {
    let (mut single, queue, routes) = with_routes(1);
    let one = claim_steps(&mut single, queue.lane, &routes);
    let (mut many, queue, routes) = with_routes(1000);
    let thousand = claim_steps(&mut many, queue.lane, &routes);
    assert!(thousand <= 2 * one, "{thousand} steps instead of {one}");
}

#[test]
fn better_work_that_a_worker_does_not_serve_costs_its_claims_nothing() {
    let (mut store, queue, routes) = with_routes(20);
    let other = commit(&mut store, |tx| tx.add_route(queue.namespace, "other", &[]).unwrap());
    let alone = claim_steps(&mut store, queue.lane, &routes);
    let (mut store, queue, routes) = with_routes(20);
    commit(&mut store, |tx| {
        assert_eq!(tx.add_route(queue.namespace, "other", &[]).unwrap(), other);
        for _ in 0..10_000 {
            insert(tx, Queue { route: other, ..queue }, 9000);
        }
    });
    let beside = claim_steps(&mut store, queue.lane, &routes);
    assert!(2 * beside <= 3 * alone, "{beside} steps instead of {alone}");
}
