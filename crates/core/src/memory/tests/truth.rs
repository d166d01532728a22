//! Whatever is written, committed or dropped: the indexes say what a scan of the rows would.

use proptest::prelude::*;

use super::super::tables::{Change, Tables};
use super::*;

#[derive(Clone, Debug)]
enum Write {
    Insert(Shape),
    Save(usize, Shape),
    Remove(usize),
}

/// What an execution is like, as far as the indexes care.
#[derive(Clone, Debug)]
struct Shape {
    state: usize,
    time: i64,
    route: usize,
    priority: i32,
    rank: i64,
    held: bool,
    deadline: Option<i64>,
}

impl Shape {
    fn any() -> impl Strategy<Value = Self> {
        let deadline = prop::option::of(0..50i64);
        let parts = (0..6usize, 0..50i64, 0..3usize, 0..3i32, 0..5i64, any::<bool>(), deadline);
        parts.prop_map(|(state, time, route, priority, rank, held, deadline)| Self {
            state,
            time,
            route,
            priority,
            rank,
            held,
            deadline,
        })
    }

    fn give(&self, execution: &mut Execution) {
        let until = at(self.time);
        let worker = ["v", "w"][self.route % 2];
        execution.state = match self.state {
            0 => State::Waiting,
            1 => State::Resumable,
            2 => delayed(until),
            3 => granted(worker, until),
            4 => leased(worker, until),
            _ => failed("no"),
        };
        execution.since = until;
        execution.priority = self.priority;
        execution.rank = self.rank;
        execution.held = self.held;
        execution.deadline_at = self.deadline.map(at);
    }
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => Shape::any().prop_map(Write::Insert),
        4 => (any::<usize>(), Shape::any()).prop_map(|(which, shape)| Write::Save(which, shape)),
        1 => any::<usize>().prop_map(Write::Remove),
    ]
}

fn apply(tx: &mut dyn Tx, known: &mut Vec<Execution>, write: &Write) {
    match write {
        Write::Insert(shape) => {
            known.push(insert(tx, State::Waiting, |new| {
                shape.give(new);
                new.route = ROUTES[shape.route];
            }));
        }
        Write::Save(which, shape) if !known.is_empty() => {
            let place = which % known.len();
            shape.give(&mut known[place]);
            tx.save(&known[place]).unwrap();
        }
        Write::Remove(which) if !known.is_empty() => {
            let gone = known.swap_remove(which % known.len());
            tx.remove(&gone).unwrap();
        }
        Write::Save(..) | Write::Remove(_) => {}
    }
}

fn sorted<K: Ord>(
    known: &[Execution],
    wanted: impl Fn(&Execution) -> bool,
    key: impl Fn(&Execution) -> K,
) -> Vec<i64> {
    let mut found: Vec<_> = known.iter().filter(|execution| wanted(execution)).collect();
    found.sort_by_key(|execution| key(execution));
    found.iter().map(|execution| execution.row.0).collect()
}

/// The indexes as they would be had each row been written once.
fn rebuilt(tables: &Tables) -> String {
    let mut fresh = Tables::default();
    for (id, row) in &tables.namespaces {
        fresh.apply(Change::Namespace(*id, Some(Arc::clone(row))));
    }
    for (id, row) in &tables.lanes {
        fresh.apply(Change::Lane(*id, Some(Arc::clone(row))));
    }
    for (id, row) in &tables.executions {
        fresh.apply(Change::Execution(*id, Some(row.clone())));
    }
    format!("{:?}", fresh.index)
}

fn compare(store: &mut MemoryStore, known: &[Execution]) {
    assert_eq!(format!("{:?}", store.tables.index), rebuilt(&store.tables));
    let mut read = store.read().unwrap();
    let routes = [ROUTES[0], ROUTES[2]];
    let claimable = sorted(
        known,
        |execution| execution.claimable() && routes.contains(&execution.route),
        |execution| (-execution.priority, execution.rank, execution.row),
    );
    let all = known.len();
    assert_eq!(rows(&read.claimable(LANE, &routes, all).unwrap()), claimable);

    let by = at(25);
    let is_due = |execution: &Execution| execution.due_at().is_some_and(|at| at <= by);
    let over = |execution: &Execution| execution.status().is_terminal();
    let moment = |execution: &Execution| (execution.due_at(), execution.row);
    let due = sorted(known, |one| is_due(one) && !over(one), moment);
    assert_eq!(rows(&read.due(by, all).unwrap()), due);
    let late = at(525);
    let is_retired = |one: &Execution| over(one) && one.due_at().is_some_and(|at| at <= late);
    assert_eq!(rows(&read.retired(late, all).unwrap()), sorted(known, is_retired, moment));

    let owned = |one: &Execution| one.state.worker() == Some("w") && one.since <= by;
    let owned = sorted(known, owned, |one| one.row);
    assert_eq!(rows(&read.owned_by(SPACE, "w", by, all).unwrap()), owned);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn indexes_answer_as_a_scan_would(
        transactions in prop::collection::vec(
            (prop::collection::vec(write(), 1..6), any::<bool>()),
            1..12,
        ),
    ) {
        let mut store = empty_store();
        let mut known = Vec::new();
        for (writes, commits) in transactions {
            let before = known.clone();
            let mut tx = store.begin().unwrap();
            for write in &writes {
                apply(&mut *tx, &mut known, write);
            }
            match commits {
                true => tx.commit(NOW).unwrap(),
                false => {
                    drop(tx);
                    known = before;
                }
            }
            compare(&mut store, &known);
        }
    }
}
