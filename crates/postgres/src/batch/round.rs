use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use everloom_core::{
    Chore, ChoreId, Epoch, Execution, ExecutionId, Key, Lane, LaneId, Namespace, NamespaceId,
    NewEvent, PastLease, Payload, Request, RequestId, RouteTable, RowId, WorkerRow,
};

use super::is_placeholder;
use super::known::{Input, Known, Named};
use super::limits::NewLimits;
use super::mail::NewMail;
use super::streams::NewStreams;
use super::ties::NewTies;
use crate::exchange::{Changes, Inserted};

/// What a round wrote, at its last state. A key without a value was removed.
#[derive(Default)]
pub(super) struct Round {
    /// Whether a question was answered with a guess or not at all.
    pub(super) guessed: bool,
    pub(super) wrote: bool,
    /// The last placeholder given out.
    pub(super) placeholder: i64,
    pub(super) namespace_names: BTreeMap<String, NamespaceId>,
    pub(super) namespaces: BTreeMap<NamespaceId, Arc<Namespace>>,
    pub(super) lane_names: BTreeMap<Named, LaneId>,
    pub(super) lanes: BTreeMap<LaneId, Arc<Lane>>,
    /// Whole tables with placeholders.
    pub(super) routes: BTreeMap<NamespaceId, Arc<RouteTable>>,
    pub(super) rows_used: usize,
    /// The ids of inserted executions.
    pub(super) ids: BTreeMap<(NamespaceId, ExecutionId), RowId>,
    pub(super) executions: BTreeMap<RowId, Option<Execution>>,
    pub(super) ties: NewTies,
    /// Of inserted executions.
    pub(super) inputs: BTreeMap<RowId, Input>,
    pub(super) results: BTreeMap<RowId, Option<Payload>>,
    pub(super) past_leases: BTreeMap<(RowId, Epoch), PastLease>,
    pub(super) mail: NewMail,
    pub(super) streams: NewStreams,
    pub(super) limits: NewLimits,
    pub(super) keys: BTreeMap<Named, Option<Key>>,
    pub(super) workers: BTreeMap<Named, Option<WorkerRow>>,
    /// New ones have placeholders.
    pub(super) chores: BTreeMap<ChoreId, Option<Chore>>,
    /// New ones have placeholders.
    pub(super) requests: BTreeMap<RequestId, Option<Request>>,
    pub(super) events: Vec<NewEvent>,
    /// How many rows at the head of each pool were written.
    pub(super) pool_heads: RefCell<BTreeMap<usize, usize>>,
    /// How much all claims of a lane wanted.
    pub(super) demand: BTreeMap<LaneId, usize>,
    pub(super) told_trimmed_events: bool,
    pub(super) told_trimmed_keys: bool,
}

impl Round {
    pub(super) fn new_placeholder(&mut self) -> i64 {
        self.placeholder -= 1;
        self.placeholder
    }

    /// What is left to be written.
    pub(super) fn into_changes(mut self, known: &Known) -> Changes {
        let mut changes = Changes {
            namespaces: self.namespaces.into_values().map(Arc::unwrap_or_clone).collect(),
            lanes: self.lanes.into_values().map(Arc::unwrap_or_clone).collect(),
            past_leases: self.past_leases.into_values().collect(),
            events: self.events,
            ..Changes::default()
        };
        self.ties.into_changes(&mut changes, &self.executions, known);
        self.mail.into_changes(&mut changes, &known.mail);
        self.streams.into_changes(&mut changes, &known.streams);
        self.limits.into_changes(&mut changes, &known.limits);
        for (row, execution) in self.executions {
            changes.add_execution(row, execution, self.inputs.remove(&row), known);
        }
        for (row, result) in self.results {
            match result {
                Some(result) => changes.results.push((row, result)),
                None => changes.dropped_results.push(row),
            }
        }
        split(self.keys, &mut changes.keys, &mut changes.dropped_keys);
        split(self.workers, &mut changes.workers, &mut changes.dropped_workers);
        for (id, chore) in self.chores {
            match (is_placeholder(id.0), chore) {
                (true, Some(chore)) => changes.new_chores.push((chore.kind, chore.due_at)),
                (true, None) => {}
                (false, Some(chore)) => changes.chores.push(chore),
                (false, None) => changes.dropped_chores.push(id),
            }
        }
        // Placeholders fall, and requests are kept in the order they came in.
        for (id, request) in self.requests.into_iter().rev() {
            match (is_placeholder(id.0), request) {
                (true, Some(request)) => changes.new_requests.push(request.new),
                (true, None) => {}
                (false, Some(request)) => changes.requests.push(request),
                (false, None) => changes.dropped_requests.push(id),
            }
        }
        changes
    }
}

impl Changes {
    fn add_execution(
        &mut self,
        row: RowId,
        execution: Option<Execution>,
        inserted: Option<Input>,
        known: &Known,
    ) {
        let before = known.executions.get(&row);
        match (execution, inserted, before) {
            (Some(execution), Some((input, fingerprint)), _) => {
                self.inserted.push(Inserted { execution, input, fingerprint });
            }
            (Some(execution), None, before) => self.add_saved(execution, before),
            (None, None, Some(before)) => self.removed.push(before.clone()),
            // It came and went within the round.
            (None, _, _) => {}
        }
    }

    fn add_saved(&mut self, execution: Execution, before: Option<&Execution>) {
        let Some(before) = before.filter(|before| **before != execution) else { return };
        if before.tags != execution.tags {
            self.retagged.push((execution.clone(), Arc::clone(&before.tags)));
        }
        if before.policy != execution.policy {
            self.repolicied.push(execution.clone());
        }
        if before.member != execution.member {
            self.placed.push(execution.clone());
        }
        self.saved.push(execution);
    }
}

fn split<K, V>(written: BTreeMap<K, Option<V>>, kept: &mut Vec<V>, dropped: &mut Vec<K>) {
    for (key, value) in written {
        match value {
            Some(value) => kept.push(value),
            None => dropped.push(key),
        }
    }
}
