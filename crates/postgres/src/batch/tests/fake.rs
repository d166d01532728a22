use std::time::Duration;

use everloom_core::{
    Defaults, Epoch, Execution, ListScan, ListSlice, MemoryStore, Read, Result, RowId, Source,
    Store, StoreInfo, Timestamp, Transaction, Tx, WorkerRow,
};

use super::{gates, mailbox, outputs, ties};
use crate::batch::{Batch, Caches, Rows};
use crate::exchange::{Changes, Inserted, Loaded, Wants};
use crate::options::TimeSource;

/// A store whose database is a memory store; counts what it is asked to do.
#[derive(Default)]
pub(super) struct FakePg {
    rows: MemoryStore,
    caches: Caches,
    /// The database's clock, if that one counts; goes on by a millisecond with every load.
    pub(super) clock: Option<Timestamp>,
    pub(super) counts: Counts,
}

impl FakePg {
    /// Does something as another process that shares the database.
    pub(super) fn elsewhere<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let mine = std::mem::take(&mut self.caches);
        let done = work(self);
        self.caches = mine;
        done
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) loads: usize,
    pub(super) commits: usize,
    pub(super) rollbacks: usize,
    /// Executions written by commits.
    pub(super) written: usize,
}

impl Source for FakePg {
    fn read(&mut self) -> Result<Box<dyn Read + '_>> {
        self.rows.read()
    }
}

impl Store for FakePg {
    fn begin(&mut self) -> Result<Box<dyn Transaction + '_>> {
        let time = self.clock.map_or(TimeSource::Given, |_| TimeSource::Database);
        let rows = FakeRows {
            tx: Some(self.rows.begin()?),
            clock: &mut self.clock,
            counts: &mut self.counts,
        };
        Ok(Box::new(Batch::begin(Box::new(rows), &mut self.caches, time)))
    }

    fn reader(&self) -> Result<Option<Box<dyn Source>>> {
        Ok(None)
    }

    fn changed_elsewhere(&mut self) -> Result<bool> {
        Ok(false)
    }

    fn info(&self) -> StoreInfo {
        self.rows.info()
    }
}

struct FakeRows<'a> {
    tx: Option<Box<dyn Transaction + 'a>>,
    clock: &'a mut Option<Timestamp>,
    counts: &'a mut Counts,
}

impl Rows for FakeRows<'_> {
    fn load(&mut self, wants: &Wants) -> Result<Loaded> {
        self.counts.loads += 1;
        let tx = self.tx.as_deref_mut().expect("the transaction is open");
        let now = match self.clock {
            Some(clock) => {
                *clock = *clock + Duration::from_millis(1);
                *clock
            }
            None => tx.last_now()?,
        };
        let mut loaded = Loaded { now, ..Loaded::default() };
        make(tx, wants, &mut loaded)?;
        gates::trim(tx, wants, &mut loaded)?;
        load_names(tx, wants, &mut loaded)?;
        load_points(tx, wants, &mut loaded)?;
        ties::load(tx, wants, &mut loaded)?;
        mailbox::load(tx, wants, &mut loaded)?;
        outputs::load(tx, wants, &mut loaded)?;
        gates::load(tx, wants, &mut loaded)?;
        load_lists(tx, wants, &mut loaded)?;
        crate::load::leave_each_once(&mut loaded);
        Ok(loaded)
    }

    fn commit(&mut self, changes: &Changes, now: Timestamp) -> Result<()> {
        let mut tx = self.tx.take().expect("the transaction is open");
        self.counts.commits += 1;
        self.counts.written += changes.inserted.len() + changes.saved.len() + changes.removed.len();
        write_executions(&mut *tx, changes)?;
        ties::write(&mut *tx, changes)?;
        mailbox::write(&mut *tx, &changes.mail)?;
        outputs::write(&mut *tx, changes)?;
        write_others(&mut *tx, changes)?;
        gates::write(&mut *tx, changes)?;
        tx.commit(now)
    }

    fn rollback(&mut self) {
        self.counts.rollbacks += 1;
        self.tx = None;
    }

    fn list(
        &mut self,
        filter: &ListScan,
        below: Option<RowId>,
        limit: usize,
        scan: usize,
    ) -> Result<ListSlice> {
        let tx = self.tx.as_deref_mut().expect("the transaction is open");
        tx.list(filter, below, limit, scan)
    }

    fn direct(&mut self) -> Box<dyn Read + '_> {
        panic!("commands ask only what is batched")
    }
}

fn make(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    for name in &wants.new_namespaces {
        loaded.namespaces.push(tx.put_namespace(name, &Defaults::default())?);
    }
    for (namespace, name) in &wants.new_lanes {
        loaded.lanes.push(tx.add_lane(*namespace, name)?);
    }
    for (namespace, kind, capabilities) in &wants.new_routes {
        tx.add_route(*namespace, kind, capabilities)?;
    }
    for _ in 0..wants.new_flow_rows {
        loaded.new_flow_rows.push(tx.new_flow_row()?);
    }
    for _ in 0..wants.new_rows {
        loaded.new_rows.push(tx.new_row()?);
    }
    if let Some((before, limit)) = wants.trim_events {
        loaded.trimmed_events = tx.trim_events(before, limit)?;
    }
    if let Some((by, limit)) = wants.trim_keys {
        loaded.trimmed_keys = tx.trim_keys(by, limit)?;
    }
    for (gone, limit) in &wants.streams.trim {
        loaded.streams.trimmed.insert(gone.clone(), tx.trim_chunks(gone, *limit)?);
    }
    Ok(())
}

fn load_names(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    for name in &wants.namespaces {
        loaded.namespaces.extend(tx.namespace(name)?);
    }
    for id in &wants.namespace_ids {
        loaded.namespaces.extend(tx.namespace_by_id(*id).ok());
    }
    for (namespace, name) in &wants.lanes {
        loaded.lanes.extend(tx.lane(*namespace, name)?);
    }
    for id in &wants.lane_ids {
        loaded.lanes.extend(tx.lane_by_id(*id).ok());
    }
    for (namespace, last) in &wants.routes {
        let table = tx.routes(*namespace)?;
        let added = table.routes().iter().filter(|route| route.id > *last).cloned();
        loaded.routes.insert(*namespace, added.collect());
    }
    Ok(())
}

fn load_points(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    for (namespace, id) in &wants.executions {
        loaded.executions.extend(tx.find(*namespace, &[*id])?.into_iter().flatten());
    }
    for row in &wants.inputs {
        let input = tx.inputs(&[*row])?.remove(0);
        loaded.inputs.insert(*row, (input, tx.fingerprint(*row)?));
    }
    for row in &wants.results {
        loaded.results.extend(tx.result(*row)?.map(|result| (*row, result)));
    }
    for id in &wants.past_leases {
        loaded.past_leases.extend(tx.past_lease(id.0, id.1)?.map(|lease| (*id, lease)));
    }
    for row in &wants.lease_histories {
        let leases = tx.past_leases(*row, Epoch::default(), usize::MAX)?;
        loaded.lease_histories.insert(*row, leases);
    }
    for (namespace, key) in &wants.keys {
        loaded.keys.extend(tx.keys(*namespace, &[key])?.into_iter().flatten());
    }
    for (namespace, instance) in &wants.workers {
        loaded.workers.extend(tx.worker(*namespace, instance)?);
    }
    for kind in &wants.chores_of_kind {
        loaded.chores.extend(tx.find_chore(kind)?);
    }
    for lane in &wants.owned_counts {
        loaded.owned_counts.insert(*lane, tx.count_owned(*lane)?);
    }
    Ok(())
}

fn load_lists(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    for claim in &wants.claims {
        let found = tx.claimable(claim.lane, &claim.routes, claim.limit)?;
        for execution in &found {
            ties::load_claimed(tx, execution, loaded)?;
            let input = tx.inputs(&[execution.row])?.remove(0);
            loaded.inputs.insert(execution.row, (input, tx.fingerprint(execution.row)?));
        }
        loaded.claims.push(keep(&mut loaded.executions, found));
    }
    for ((namespace, worker), limit) in &wants.owned {
        let mut found = tx.owned_by(*namespace, worker, Timestamp::MAX, usize::MAX)?;
        found.sort_by_key(|execution| (execution.since, execution.row));
        found.truncate(*limit);
        let rows = keep(&mut loaded.executions, found);
        loaded.owned.insert((*namespace, worker.clone()), rows);
    }
    if let Some((by, limit)) = wants.due {
        loaded.due = keep(&mut loaded.executions, tx.due(by, limit)?);
    }
    if let Some((by, limit)) = wants.retired {
        loaded.retired = keep(&mut loaded.executions, tx.retired(by, limit)?);
    }
    if let Some((by, limit)) = wants.lapsed_workers {
        let workers = tx.lapsed_workers(by, limit)?;
        let name = |row: &WorkerRow| (row.namespace, row.instance.clone());
        loaded.lapsed_workers = workers.iter().map(name).collect();
        loaded.workers.extend(workers);
    }
    if let Some((by, limit)) = wants.due_chores {
        let chores = tx.chores(by, limit)?;
        loaded.due_chores = chores.iter().map(|chore| chore.id).collect();
        loaded.chores.extend(chores);
    }
    for id in &wants.request_ids {
        loaded.requests.extend(tx.request(*id)?);
    }
    if wants.requests > 0 {
        let waiting = tx.requests(wants.requests)?;
        loaded.waiting_requests = waiting.iter().map(|request| request.id).collect();
        loaded.requests.extend(waiting);
    }
    let moment = |execution: Execution| Some((execution.due_at()?, execution.row));
    let due = tx.due(Timestamp::MAX, wants.next_due)?;
    loaded.due_rows = due.into_iter().filter_map(moment).collect();
    let workers = tx.lapsed_workers(Timestamp::MAX, wants.next_due)?.into_iter();
    loaded.due_workers = workers.map(|row| (row.due_at(), row.namespace, row.instance)).collect();
    let chores = tx.chores(Timestamp::MAX, wants.next_due)?.into_iter();
    loaded.due_moments_of_chores = chores.map(|chore| (chore.due_at, chore.id)).collect();
    Ok(())
}

fn keep(executions: &mut Vec<Execution>, found: Vec<Execution>) -> Vec<RowId> {
    let rows = found.iter().map(|execution| execution.row).collect();
    executions.extend(found);
    rows
}

fn write_executions(tx: &mut dyn Tx, changes: &Changes) -> Result<()> {
    for execution in &changes.removed {
        tx.remove(execution)?;
    }
    for Inserted { execution, input, fingerprint } in &changes.inserted {
        tx.insert(execution, input, fingerprint.as_ref())?;
    }
    for execution in &changes.saved {
        tx.save(execution)?;
    }
    for execution in &changes.placed {
        tx.save_member(execution)?;
    }
    for (execution, _) in &changes.retagged {
        tx.save_tags(execution)?;
    }
    for (row, result) in &changes.results {
        tx.put_result(*row, result)?;
    }
    for row in &changes.dropped_results {
        tx.drop_result(*row)?;
    }
    for lease in &changes.past_leases {
        tx.add_past_lease(lease)?;
    }
    Ok(())
}

fn write_others(tx: &mut dyn Tx, changes: &Changes) -> Result<()> {
    for namespace in &changes.namespaces {
        tx.put_namespace(&namespace.name, &namespace.defaults)?;
    }
    for lane in &changes.lanes {
        tx.save_lane(lane)?;
    }
    for key in &changes.keys {
        tx.put_key(key)?;
    }
    for (namespace, key) in &changes.dropped_keys {
        tx.drop_key(*namespace, key)?;
    }
    for worker in &changes.workers {
        tx.put_worker(worker)?;
    }
    for (namespace, instance) in &changes.dropped_workers {
        tx.drop_worker(*namespace, instance)?;
    }
    for (kind, due_at) in &changes.new_chores {
        tx.add_chore(kind, *due_at)?;
    }
    for chore in &changes.chores {
        tx.save_chore(chore)?;
    }
    for id in &changes.dropped_chores {
        tx.drop_chore(*id)?;
    }
    for id in &changes.dropped_requests {
        tx.drop_request(*id)?;
    }
    for request in &changes.requests {
        tx.save_request(request)?;
    }
    for request in &changes.new_requests {
        tx.add_request(request)?;
    }
    for event in &changes.events {
        tx.add_event(event)?;
    }
    Ok(())
}
