//! Everything a batch wrote, as one statement per kind.

use std::collections::{BTreeMap, BTreeSet};

use everloom_core::{Key, NamespaceId, Tags, WorkerRow};
use tokio_postgres::Row;

use crate::error::Result;
use crate::exchange::{Changes, Loaded, Wants};
use crate::link::{Step, params};
use crate::rows::tags::Labels;
use crate::rows::{
    chores, chunks, edges, events, executions, flows, gates, inbox, joins, keys, lanes, limits,
    members, namespaces, passages, past_leases, payloads, signals, signing_keys, steps as recorded,
    streams, summaries, suspensions, turns, uses, waitpoints, workers,
};
use crate::sql;

/// What a transaction was told about rows it did not lock.
#[derive(Default)]
pub(crate) struct Told {
    /// Idempotency keys as they were read, if they existed.
    pub(crate) keys: BTreeMap<(NamespaceId, String), Option<Key>>,
    /// Workers that did not exist.
    pub(crate) absent_workers: BTreeSet<(NamespaceId, String)>,
}

impl Told {
    /// Notes what a load has told.
    pub(crate) fn note(&mut self, wants: &Wants, loaded: &Loaded) {
        for name in &wants.keys {
            self.keys.entry(name.clone()).or_insert(None);
        }
        for key in &loaded.keys {
            self.keys.insert((key.namespace, key.key.clone()), Some(key.clone()));
        }
        self.absent_workers.extend(wants.workers.iter().cloned());
        for worker in &loaded.workers {
            self.absent_workers.remove(&(worker.namespace, worker.instance.clone()));
        }
    }
}

/// Statements, some of which only hit rows that are still as they were read.
#[derive(Default)]
pub(crate) struct Flush {
    pub(crate) steps: Vec<Step>,
    /// Which statement must have hit how many rows, or another transaction got in the way.
    pub(crate) guards: Vec<(usize, usize)>,
}

impl Flush {
    /// Whether another transaction got in the way.
    pub(crate) fn is_spoilt(&self, answers: &[Vec<Row>]) -> bool {
        self.guards.iter().any(|(step, rows)| answers[*step].len() != *rows)
    }

    fn push_guarded(&mut self, step: Step, rows: usize) {
        self.guards.push((self.steps.len(), rows));
        self.steps.push(step);
    }
}

/// Everything a batch of a process wrote.
pub(crate) fn flush(changes: &Changes, told: &Told, source: i64) -> Result<Flush> {
    let mut flush = Flush::default();
    if !changes.namespaces.is_empty() {
        flush.steps.push(namespaces::save(&changes.namespaces)?);
    }
    if !changes.lanes.is_empty() {
        flush.steps.push(lanes::save(&changes.lanes)?);
    }
    flush_flows(changes, &mut flush.steps)?;
    flush_executions(changes, &mut flush.steps)?;
    flush_ties(changes, &mut flush.steps);
    flush_beside(changes, &mut flush.steps)?;
    flush_mail(changes, &mut flush.steps)?;
    flush_steps(changes, &mut flush.steps)?;
    flush_streams(changes, &mut flush.steps)?;
    flush_limits(changes, &mut flush.steps)?;
    flush_keys(changes, told, &mut flush);
    flush_workers(changes, told, &mut flush.steps)?;
    if !changes.dropped_chores.is_empty() {
        flush.steps.push(chores::remove(&changes.dropped_chores));
    }
    if !changes.chores.is_empty() {
        flush.steps.push(chores::save(&changes.chores)?);
    }
    if !changes.new_chores.is_empty() {
        flush.steps.push(chores::add(&changes.new_chores)?);
    }
    if !changes.dropped_requests.is_empty() {
        flush.steps.push(inbox::remove(&changes.dropped_requests));
    }
    if !changes.requests.is_empty() {
        flush.steps.push(inbox::save(&changes.requests));
    }
    if !changes.new_requests.is_empty() {
        flush.steps.push(inbox::add(&changes.new_requests));
    }
    if !changes.events.is_empty() {
        flush.steps.push(events::add(&changes.events, source)?);
    }
    Ok(flush)
}

fn flush_flows(changes: &Changes, steps: &mut Vec<Step>) -> Result<()> {
    if !changes.removed_flows.is_empty() {
        steps.push(flows::remove(&changes.removed_flows));
    }
    if !changes.new_flows.is_empty() {
        steps.push(flows::insert(&changes.new_flows)?);
    }
    if !changes.flows.is_empty() {
        steps.push(flows::save(&changes.flows)?);
    }
    if !changes.reworded_flows.is_empty() {
        steps.push(flows::save_terms(&changes.reworded_flows)?);
    }
    Ok(())
}

/// What ties executions together, after these.
fn flush_ties(changes: &Changes, steps: &mut Vec<Step>) {
    let tied = changes.removed.iter().filter(|old| old.member.is_some() || old.beside.children);
    let untied: Vec<i64> = tied.map(|old| old.row.0).collect();
    if !untied.is_empty() {
        steps.extend([
            Step::Prepared(sql::joins::DROP, params![untied.clone()]),
            Step::Prepared(sql::edges::DROP_FROM, params![untied.clone()]),
            Step::Prepared(sql::edges::DROP_INTO, params![untied]),
        ]);
    }
    if !changes.dropped_edges.is_empty() {
        steps.push(edges::remove(&changes.dropped_edges));
    }
    if !changes.edges.is_empty() {
        steps.push(edges::put(&changes.edges));
    }
    if !changes.joins.is_empty() {
        steps.push(joins::put(&changes.joins));
    }
}

fn flush_executions(changes: &Changes, steps: &mut Vec<Step>) -> Result<()> {
    let none = Tags::new();
    let (mut gone, mut new) = (Labels::default(), Labels::default());
    if !changes.removed.is_empty() {
        let rows: Vec<i64> = changes.removed.iter().map(|execution| execution.row.0).collect();
        steps.extend([
            Step::Prepared(sql::executions::REMOVE, params![rows.clone()]),
            Step::Prepared(sql::payloads::DROP_INPUT, params![rows.clone()]),
            Step::Prepared(sql::payloads::DROP_RESULT, params![rows.clone()]),
            Step::Prepared(sql::past_leases::DROP_ALL, params![rows]),
        ]);
        changes.removed.iter().for_each(|old| gone.collect(old, &old.tags, &none));
    }
    if !changes.inserted.is_empty() {
        steps.push(executions::insert(&changes.inserted)?);
        steps.extend(payloads::add_inputs(&changes.inserted));
        for inserted in &changes.inserted {
            new.collect(&inserted.execution, &inserted.execution.tags, &none);
        }
    }
    if !changes.saved.is_empty() {
        steps.push(executions::save(&changes.saved)?);
    }
    if !changes.repolicied.is_empty() {
        steps.push(executions::save_policies(&changes.repolicied)?);
    }
    if !changes.placed.is_empty() {
        steps.push(members::save(&changes.placed));
    }
    if !changes.retagged.is_empty() {
        let retagged: Vec<_> = changes.retagged.iter().map(|(execution, _)| execution).collect();
        steps.push(executions::save_tags(&retagged)?);
        for (execution, before) in &changes.retagged {
            gone.collect(execution, before, &execution.tags);
            new.collect(execution, &execution.tags, before);
        }
    }
    steps.extend(gone.remove());
    steps.extend(new.add());
    Ok(())
}

fn flush_beside(changes: &Changes, steps: &mut Vec<Step>) -> Result<()> {
    if !changes.dropped_results.is_empty() {
        let rows: Vec<i64> = changes.dropped_results.iter().map(|row| row.0).collect();
        steps.push(Step::Prepared(sql::payloads::DROP_RESULT, params![rows]));
    }
    if !changes.results.is_empty() {
        steps.push(payloads::put_results(&changes.results));
    }
    if !changes.past_leases.is_empty() {
        steps.push(past_leases::add(&changes.past_leases)?);
    }
    Ok(())
}

/// What lies beside executions that wait.
fn flush_mail(changes: &Changes, steps: &mut Vec<Step>) -> Result<()> {
    let with_mail = changes.removed.iter().filter(|old| old.beside.mail);
    let gone: Vec<i64> = with_mail.map(|old| old.row.0).collect();
    if !gone.is_empty() {
        steps.extend([
            Step::Prepared(sql::suspensions::DROP_ALL, params![gone.clone()]),
            Step::Prepared(sql::waitpoints::DROP_ALL, params![gone.clone()]),
            Step::Prepared(sql::signals::DROP_ALL, params![gone]),
        ]);
    }
    let mail = &changes.mail;
    if !mail.suspensions.is_empty() {
        steps.push(suspensions::save(&mail.suspensions)?);
    }
    if !mail.new_suspensions.is_empty() {
        steps.push(suspensions::add(&mail.new_suspensions)?);
    }
    if !mail.waitpoints.is_empty() {
        steps.push(waitpoints::save(&mail.waitpoints)?);
    }
    if !mail.new_waitpoints.is_empty() {
        steps.push(waitpoints::add(&mail.new_waitpoints)?);
    }
    if !mail.signals.is_empty() {
        steps.push(signals::save(&mail.signals));
    }
    if !mail.new_signals.is_empty() {
        steps.push(signals::add(&mail.new_signals)?);
    }
    if !mail.signing_keys.is_empty() {
        steps.push(signing_keys::put(&mail.signing_keys)?);
    }
    Ok(())
}

/// Recorded steps, of which new ones may take the places of old ones.
fn flush_steps(changes: &Changes, steps: &mut Vec<Step>) -> Result<()> {
    let with_steps = changes.removed.iter().filter(|old| old.beside.steps);
    let gone: Vec<i64> = with_steps.map(|old| old.row.0).collect();
    if !gone.is_empty() {
        steps.push(Step::Prepared(sql::steps::DROP_ALL, params![gone]));
    }
    if !changes.mail.dropped_steps.is_empty() {
        steps.push(recorded::remove(&changes.mail.dropped_steps));
    }
    if !changes.mail.new_steps.is_empty() {
        steps.push(recorded::add(&changes.mail.new_steps)?);
    }
    Ok(())
}

/// What executions have put out.
fn flush_streams(changes: &Changes, steps: &mut Vec<Step>) -> Result<()> {
    let with_stream = changes.removed.iter().filter(|old| old.beside.stream);
    let gone: Vec<i64> = with_stream.map(|old| old.row.0).collect();
    if !gone.is_empty() {
        steps.extend([
            Step::Prepared(sql::streams::DROP_ALL, params![gone.clone()]),
            Step::Prepared(sql::summaries::DROP_ALL, params![gone]),
        ]);
    }
    let changes = &changes.streams;
    if !changes.dropped_chunks.is_empty() {
        steps.push(chunks::remove(&changes.dropped_chunks));
    }
    if !changes.new_chunks.is_empty() {
        steps.push(chunks::add(&changes.new_chunks)?);
    }
    if !changes.streams.is_empty() {
        steps.push(streams::put(&changes.streams)?);
    }
    if !changes.summaries.is_empty() {
        steps.push(summaries::put(&changes.summaries));
    }
    Ok(())
}

/// What work may use, and what it has of that.
fn flush_limits(changes: &Changes, steps: &mut Vec<Step>) -> Result<()> {
    let with_uses = changes.removed.iter().filter(|old| old.beside.limits);
    let gone: Vec<i64> = with_uses.map(|old| old.row.0).collect();
    if !gone.is_empty() {
        steps.push(Step::Prepared(sql::uses::DROP_ALL, params![gone]));
    }
    let changes = &changes.limits;
    if !changes.namespaces.is_empty() {
        steps.push(namespaces::save_limits(&changes.namespaces)?);
    }
    if !changes.dropped.is_empty() {
        let rows: Vec<i64> = changes.dropped.iter().map(|limit| limit.row.0).collect();
        steps.extend([
            Step::Prepared(sql::limits::DROP, params![rows.clone()]),
            Step::Prepared(sql::gates::DROP_OF, params![rows.clone()]),
            Step::Prepared(sql::uses::DROP_OF, params![rows]),
        ]);
    }
    if !changes.limits.is_empty() {
        steps.push(limits::put(&changes.limits)?);
    }
    if !changes.gates.is_empty() {
        steps.push(gates::save(&changes.gates)?);
    }
    if !changes.dropped_gates.is_empty() {
        let rows: Vec<i64> = changes.dropped_gates.iter().map(|row| row.0).collect();
        steps.push(Step::Prepared(sql::gates::DROP, params![rows]));
    }
    if !changes.dropped_passages.is_empty() {
        steps.push(passages::remove(&changes.dropped_passages));
    }
    if !changes.passages.is_empty() {
        steps.push(passages::put(&changes.passages));
    }
    if !changes.dropped_uses.is_empty() {
        steps.push(uses::remove(&changes.dropped_uses));
    }
    if !changes.uses.is_empty() {
        steps.push(uses::put(&changes.uses)?);
    }
    if !changes.new_turns.is_empty() {
        steps.push(turns::write(sql::turns::ADD, &changes.new_turns));
    }
    if !changes.turns.is_empty() {
        steps.push(turns::write(sql::turns::PUT, &changes.turns));
    }
    if !changes.past_turns.is_empty() {
        steps.push(turns::remove(&changes.past_turns));
    }
    Ok(())
}

/// Keys are not locked when they are read, because most stay as they are. One that did not exist
/// is inserted, which fails if it does by now; one that did is only changed if it is the same.
fn flush_keys(changes: &Changes, told: &Told, flush: &mut Flush) {
    let old = |name: &(NamespaceId, String)| told.keys.get(name).and_then(Option::as_ref);
    let dropped: Vec<&Key> = changes.dropped_keys.iter().filter_map(old).collect();
    if !dropped.is_empty() {
        flush.push_guarded(keys::remove(&dropped), dropped.len());
    }
    let (mut new, mut changed) = (Vec::new(), Vec::new());
    for key in &changes.keys {
        match old(&(key.namespace, key.key.clone())) {
            Some(old) => changed.push((key, old)),
            None => new.push(key),
        }
    }
    if !changed.is_empty() {
        flush.push_guarded(keys::save(&changed), changed.len());
    }
    if !new.is_empty() {
        flush.steps.push(keys::add(&new));
    }
}

fn flush_workers(changes: &Changes, told: &Told, steps: &mut Vec<Step>) -> Result<()> {
    if !changes.dropped_workers.is_empty() {
        let namespaces: Vec<i64> = changes.dropped_workers.iter().map(|(id, _)| id.0).collect();
        let names: Vec<String> =
            changes.dropped_workers.iter().map(|(_, name)| name.clone()).collect();
        steps.push(Step::Prepared(sql::workers::DROP, params![namespaces, names]));
    }
    let is_new = |worker: &&WorkerRow| {
        told.absent_workers.contains(&(worker.namespace, worker.instance.clone()))
    };
    let (new, known): (Vec<_>, Vec<_>) = changes.workers.iter().partition(is_new);
    if !new.is_empty() {
        steps.push(workers::write(sql::workers::ADD, &new)?);
    }
    if !known.is_empty() {
        steps.push(workers::write(sql::workers::PUT, &known)?);
    }
    Ok(())
}
