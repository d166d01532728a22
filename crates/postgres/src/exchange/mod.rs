//! What a transaction and the database tell each other: what is wanted, what was loaded, and what
//! is to be written. Plain data, so that neither side knows how the other works.

mod limits;
mod mail;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everloom_core::{
    Chore, ChoreId, ChoreKind, Edge, EdgeId, Epoch, Execution, ExecutionId, Flow, FlowId, FlowRow,
    Join, Key, Lane, LaneId, MemberCount, Namespace, NamespaceId, NewEvent, NewRequest, PastLease,
    Payload, Request, RequestId, Route, RouteId, RowId, Timestamp, WorkerRow,
};

pub(crate) use limits::{
    GateName, GatePage, LimitChanges, LimitName, LimitWants, LoadedLimits, OpenPage, PASSAGES,
    PastTurns, TurnName, UsePlace,
};
pub(crate) use mail::{
    HANDED_OVER, Lasts, LoadedMail, MailChanges, MailWants, Named, Place, SignalName, StepName,
    SuspensionName,
};
pub(crate) use streams::{LoadedStreams, Sort, StreamChanges, StreamWants};

/// Source, target and ordinal.
pub(crate) type EdgePlace = (RowId, RowId, u32);

/// How many edges out of an execution come along with it, unless more are asked for: as many as
/// are asked for at first when it ends.
pub(crate) const EDGES_ALONG: usize = 256;

/// Rows a round of commands asked for and could not see yet. One statement loads each kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wants {
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) namespace_ids: BTreeSet<NamespaceId>,
    pub(crate) lanes: BTreeSet<(NamespaceId, String)>,
    pub(crate) lane_ids: BTreeSet<LaneId>,
    /// Routes of these namespaces with a higher id, after those of `new_routes` were created.
    pub(crate) routes: BTreeMap<NamespaceId, RouteId>,
    /// Row ids for executions to be inserted.
    pub(crate) new_rows: usize,
    /// Locked, in the order of their rows.
    pub(crate) executions: BTreeSet<(NamespaceId, ExecutionId)>,
    /// Whether what the end of a member needs comes along with these executions: their flows, their
    /// joins, edges out of them, and the targets with their joins.
    pub(crate) with_flows: bool,
    /// Row ids for flows to be inserted.
    pub(crate) new_flow_rows: usize,
    /// Locked, in the order of their rows and before executions.
    pub(crate) flows: BTreeSet<(NamespaceId, FlowId)>,
    pub(crate) flow_rows: BTreeSet<FlowRow>,
    /// Whether these flows are held or being closed; not locked.
    pub(crate) gates: BTreeSet<FlowRow>,
    /// Executions by row, locked together with those wanted by id.
    pub(crate) rows: BTreeSet<RowId>,
    /// Members by name, which bring along what those wanted by id do.
    pub(crate) nodes: BTreeSet<(FlowRow, String)>,
    /// Members of flows by name, after one, and how many.
    pub(crate) members: BTreeMap<(FlowRow, Option<String>), usize>,
    pub(crate) member_counts: BTreeSet<FlowRow>,
    /// Children that are not over by row, after one, and how many.
    pub(crate) children: BTreeMap<(RowId, Option<RowId>), usize>,
    /// Brings along what waits.
    pub(crate) joins: BTreeSet<RowId>,
    /// Edges to targets after one, and how many; brings along the targets with their joins.
    pub(crate) edges_from: BTreeMap<(RowId, Option<RowId>), usize>,
    /// Whether only those that bind a result.
    pub(crate) edges_into: BTreeSet<(RowId, bool)>,
    pub(crate) edge_ids: BTreeSet<(FlowRow, EdgeId)>,
    /// All that can be reached from these along edges.
    pub(crate) reach: BTreeSet<RowId>,
    pub(crate) inputs: BTreeSet<RowId>,
    pub(crate) results: BTreeSet<RowId>,
    pub(crate) past_leases: BTreeSet<(RowId, Epoch)>,
    /// All ended leases of these executions; rarely asked.
    pub(crate) lease_histories: BTreeSet<RowId>,
    pub(crate) mail: MailWants,
    pub(crate) streams: StreamWants,
    pub(crate) limits: LimitWants,
    pub(crate) keys: BTreeSet<(NamespaceId, String)>,
    pub(crate) workers: BTreeSet<(NamespaceId, String)>,
    pub(crate) chores_of_kind: Vec<ChoreKind>,
    pub(crate) owned_counts: BTreeSet<LaneId>,
    /// Locked, and skipping what others have locked; after all others.
    pub(crate) claims: Vec<WantedClaim>,
    pub(crate) due: Option<(Timestamp, usize)>,
    pub(crate) retired: Option<(Timestamp, usize)>,
    /// What workers own, the longest owned first, and how much of it.
    pub(crate) owned: BTreeMap<(NamespaceId, String), usize>,
    pub(crate) lapsed_workers: Option<(Timestamp, usize)>,
    pub(crate) due_chores: Option<(Timestamp, usize)>,
    /// Requests by name, and how many of those that wait.
    pub(crate) request_ids: BTreeSet<RequestId>,
    pub(crate) requests: usize,
    /// How many of the earliest due moments of each kind.
    pub(crate) next_due: usize,
    /// To be created unless they exist; ids must be known before anything refers to them.
    pub(crate) new_namespaces: BTreeSet<String>,
    pub(crate) new_lanes: BTreeSet<(NamespaceId, String)>,
    /// Kind and sorted capabilities.
    pub(crate) new_routes: BTreeSet<(NamespaceId, String, Vec<String>)>,
    /// To be removed now, because the rule wants to know how many there were.
    pub(crate) trim_events: Option<(Timestamp, usize)>,
    pub(crate) trim_keys: Option<(Timestamp, usize)>,
}

/// Claimable executions of a lane on some routes, as many as all claims of a round want together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedClaim {
    pub(crate) lane: LaneId,
    pub(crate) routes: Arc<[RouteId]>,
    pub(crate) limit: usize,
}

/// The answers to [`Wants`]. What was wanted and is absent from a map does not exist.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The database's clock, read after everything was locked.
    pub(crate) now: Timestamp,
    pub(crate) namespaces: Vec<Arc<Namespace>>,
    pub(crate) lanes: Vec<Arc<Lane>>,
    /// In the order of their ids.
    pub(crate) routes: BTreeMap<NamespaceId, Vec<Arc<Route>>>,
    pub(crate) new_rows: Vec<RowId>,
    /// Executions from every question, locked by this transaction.
    pub(crate) executions: Vec<Execution>,
    pub(crate) new_flow_rows: Vec<FlowRow>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) gates: BTreeMap<FlowRow, bool>,
    pub(crate) member_counts: BTreeMap<FlowRow, Vec<MemberCount>>,
    /// Executions by id or name that have brought their joins and edges along.
    pub(crate) with_ties: Vec<RowId>,
    pub(crate) joins: Vec<Join>,
    /// With how many were looked for.
    pub(crate) edges_from: BTreeMap<(RowId, Option<RowId>), (Vec<Edge>, usize)>,
    pub(crate) edges_into: BTreeMap<(RowId, bool), Vec<Edge>>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) reach: Vec<EdgePlace>,
    pub(crate) inputs: BTreeMap<RowId, (Payload, Option<[u8; 16]>)>,
    pub(crate) results: BTreeMap<RowId, Payload>,
    pub(crate) past_leases: BTreeMap<(RowId, Epoch), PastLease>,
    pub(crate) lease_histories: BTreeMap<RowId, Vec<PastLease>>,
    pub(crate) mail: LoadedMail,
    pub(crate) streams: LoadedStreams,
    pub(crate) limits: LoadedLimits,
    pub(crate) keys: Vec<Key>,
    pub(crate) workers: Vec<WorkerRow>,
    pub(crate) chores: Vec<Chore>,
    pub(crate) owned_counts: BTreeMap<LaneId, u32>,
    /// In the order of [`Wants::claims`]: rows in claim order.
    pub(crate) claims: Vec<Vec<RowId>>,
    pub(crate) due: Vec<RowId>,
    pub(crate) retired: Vec<RowId>,
    pub(crate) owned: BTreeMap<(NamespaceId, String), Vec<RowId>>,
    pub(crate) lapsed_workers: Vec<(NamespaceId, String)>,
    pub(crate) due_chores: Vec<ChoreId>,
    /// Requests from every question, locked by this transaction, and which of them wait.
    pub(crate) requests: Vec<Request>,
    pub(crate) waiting_requests: Vec<RequestId>,
    /// The earliest due moments of executions that are not over, with their rows; not locked.
    pub(crate) due_rows: Vec<(Timestamp, RowId)>,
    /// The earliest due moments of workers and chores.
    pub(crate) due_workers: Vec<(Timestamp, NamespaceId, String)>,
    pub(crate) due_moments_of_chores: Vec<(Timestamp, ChoreId)>,
    pub(crate) trimmed_events: usize,
    pub(crate) trimmed_keys: usize,
}

/// What a batch wrote. One statement writes each kind, in the order of the fields.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Namespaces whose defaults changed.
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) new_flows: Vec<Flow>,
    pub(crate) flows: Vec<Flow>,
    /// Of these, the ones whose terms changed.
    pub(crate) reworded_flows: Vec<Flow>,
    pub(crate) removed_flows: Vec<FlowRow>,
    /// Before the inserted ones: an id may have a second life in one batch.
    pub(crate) removed: Vec<Execution>,
    pub(crate) inserted: Vec<Inserted>,
    /// Executions that existed before and are kept, at their last state.
    pub(crate) saved: Vec<Execution>,
    /// Of these, the ones whose tags changed, with the tags before.
    pub(crate) retagged: Vec<(Execution, Arc<everloom_core::Tags>)>,
    /// Of these, the ones whose policy changed.
    pub(crate) repolicied: Vec<Execution>,
    /// Of these, the ones that got a place in a flow.
    pub(crate) placed: Vec<Execution>,
    /// New ones, and those that changed.
    pub(crate) edges: Vec<Edge>,
    pub(crate) dropped_edges: Vec<EdgePlace>,
    pub(crate) joins: Vec<Join>,
    pub(crate) results: Vec<(RowId, Payload)>,
    pub(crate) dropped_results: Vec<RowId>,
    pub(crate) past_leases: Vec<PastLease>,
    pub(crate) mail: MailChanges,
    pub(crate) streams: StreamChanges,
    pub(crate) limits: LimitChanges,
    pub(crate) keys: Vec<Key>,
    pub(crate) dropped_keys: Vec<(NamespaceId, String)>,
    pub(crate) workers: Vec<WorkerRow>,
    pub(crate) dropped_workers: Vec<(NamespaceId, String)>,
    pub(crate) new_chores: Vec<(ChoreKind, Timestamp)>,
    pub(crate) chores: Vec<Chore>,
    pub(crate) dropped_chores: Vec<ChoreId>,
    pub(crate) new_requests: Vec<NewRequest>,
    pub(crate) requests: Vec<Request>,
    pub(crate) dropped_requests: Vec<RequestId>,
    /// In the order they happened.
    pub(crate) events: Vec<NewEvent>,
}

/// An execution to insert, at its last state in the batch.
#[derive(Debug)]
pub(crate) struct Inserted {
    pub(crate) execution: Execution,
    pub(crate) input: Payload,
    pub(crate) fingerprint: Option<[u8; 16]>,
}

impl Wants {
    /// Whether executions are wanted by more than their ids.
    pub(crate) fn wants_tied_executions(&self) -> bool {
        let wanted_by_id = self.with_flows && !self.executions.is_empty();
        let others = self.rows.is_empty()
            && self.nodes.is_empty()
            && self.members.is_empty()
            && self.children.is_empty()
            && self.joins.is_empty()
            && self.edges_from.is_empty();
        wanted_by_id || !others
    }

    /// Wants also what `others` wants to lock in order.
    pub(crate) fn add_locked(&mut self, others: &Self) {
        self.lanes.extend(others.lanes.iter().cloned());
        self.lane_ids.extend(&others.lane_ids);
        self.owned_counts.extend(&others.owned_counts);
        self.flows.extend(&others.flows);
        self.flow_rows.extend(&others.flow_rows);
        self.executions.extend(&others.executions);
        self.with_flows |= others.with_flows;
        self.rows.extend(&others.rows);
        self.nodes.extend(others.nodes.iter().cloned());
        self.joins.extend(&others.joins);
        add_pages(&mut self.members, &others.members);
        add_pages(&mut self.children, &others.children);
        add_pages(&mut self.edges_from, &others.edges_from);
        self.mail.add_locked(&others.mail);
        self.streams.add_locked(&others.streams);
        self.limits.add_locked(&others.limits);
    }
}

/// Wants as much of each as any of both.
fn add_pages<K: Ord + Clone>(pages: &mut BTreeMap<K, usize>, others: &BTreeMap<K, usize>) {
    for (page, most) in others {
        let wanted = pages.entry(page.clone()).or_default();
        *wanted = (*wanted).max(*most);
    }
}
