//! The rows and every index over them.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use crate::chore::{Chore, ChoreKind};
use crate::event::NewEvent;
use crate::inbox::Request;
use crate::model::{
    ChoreId, Chunk, Cursor, Edge, EdgeId, Epoch, Execution, ExecutionId, Flow, FlowId, FlowRow,
    Gate, GateRow, Join, Key, Lane, LaneId, Limit, LimitRow, LimitSort, Namespace, NamespaceId,
    Passage, PastLease, Payload, RequestId, Route, RouteId, RouteTable, RowId, Signal, SigningKey,
    State, Step, Stream, Summary, Suspension, Timestamp, Turn, Use, Waitpoint, WaitpointId,
    WorkerRow,
};

/// Everything the store holds.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) last_now: Timestamp,
    pub(super) sequences: Sequences,
    pub(super) namespaces: BTreeMap<NamespaceId, Arc<Namespace>>,
    pub(super) lanes: BTreeMap<LaneId, Arc<Lane>>,
    pub(super) routes: BTreeMap<(NamespaceId, RouteId), Arc<Route>>,
    pub(super) executions: BTreeMap<RowId, Box<Execution>>,
    pub(super) inputs: BTreeMap<RowId, Input>,
    pub(super) results: BTreeMap<RowId, Payload>,
    pub(super) past_leases: BTreeMap<(RowId, Epoch), Box<PastLease>>,
    pub(super) events: BTreeMap<Cursor, Box<NewEvent>>,
    /// The newest event that was removed.
    pub(super) trimmed: Cursor,
    pub(super) keys: BTreeMap<Named, Box<Key>>,
    pub(super) workers: BTreeMap<Named, Box<WorkerRow>>,
    pub(super) chores: BTreeMap<ChoreId, Box<Chore>>,
    pub(super) flows: BTreeMap<FlowRow, Box<Flow>>,
    pub(super) edges: BTreeMap<EdgePlace, Box<Edge>>,
    pub(super) joins: BTreeMap<RowId, Box<Join>>,
    pub(super) inbox: BTreeMap<RequestId, Box<Request>>,
    pub(super) suspensions: BTreeMap<Numbered, Box<Suspension>>,
    pub(super) waitpoints: BTreeMap<Numbered, Box<Waitpoint>>,
    pub(super) signals: BTreeMap<Numbered, Box<(Signal, Payload)>>,
    pub(super) steps: BTreeMap<Numbered, Box<(Step, Payload)>>,
    pub(super) signing_keys: BTreeMap<Named, Box<SigningKey>>,
    pub(super) streams: BTreeMap<RowId, Box<Stream>>,
    pub(super) chunks: BTreeMap<(RowId, u64), Box<Chunk>>,
    pub(super) summaries: BTreeMap<RowId, Box<Summary>>,
    pub(super) limits: BTreeMap<LimitRow, Arc<Limit>>,
    pub(super) gates: BTreeMap<GateRow, Box<Gate>>,
    pub(super) passages: BTreeMap<(GateRow, u64), Box<Passage>>,
    pub(super) uses: BTreeMap<(RowId, LimitRow), Box<Use>>,
    pub(super) turns: BTreeMap<(LaneId, i32, String), Box<Turn>>,
    pub(super) index: Indexes,
    route_tables: BTreeMap<NamespaceId, Arc<RouteTable>>,
}

/// Where an edge stands among those out of its source: target and ordinal.
pub(super) type EdgePlace = (RowId, RowId, u32);

/// What is numbered within an execution.
pub(super) type Numbered = (RowId, u32);

/// What is named within a namespace.
pub(super) type Named = (NamespaceId, String);

/// The last id given out of each sort. Not part of any transaction: an id is never used again,
/// not even when what it was given out for is rolled back.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    pub(super) namespace: i64,
    pub(super) lane: i64,
    pub(super) route: i64,
    pub(super) row: i64,
    pub(super) cursor: i64,
    pub(super) chore: i64,
    pub(super) flow: i64,
    pub(super) request: i64,
    pub(super) limit: i64,
    pub(super) gate: i64,
}

/// What lies beside an execution from its beginning.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) payload: Payload,
    pub(super) fingerprint: Option<[u8; 16]>,
}

/// A row as it shall be; nothing when it shall not exist.
#[derive(Debug)]
pub(super) enum Change {
    Namespace(NamespaceId, Option<Arc<Namespace>>),
    Lane(LaneId, Option<Arc<Lane>>),
    Route((NamespaceId, RouteId), Option<Arc<Route>>),
    Execution(RowId, Option<Box<Execution>>),
    Input(RowId, Option<Input>),
    Result(RowId, Option<Payload>),
    PastLease((RowId, Epoch), Option<Box<PastLease>>),
    Event(Cursor, Option<Box<NewEvent>>),
    Trimmed(Cursor),
    Key(Named, Option<Box<Key>>),
    Worker(Named, Option<Box<WorkerRow>>),
    Chore(ChoreId, Option<Box<Chore>>),
    Flow(FlowRow, Option<Box<Flow>>),
    Edge(EdgePlace, Option<Box<Edge>>),
    Join(RowId, Option<Box<Join>>),
    Request(RequestId, Option<Box<Request>>),
    Suspension(Numbered, Option<Box<Suspension>>),
    Waitpoint(Numbered, Option<Box<Waitpoint>>),
    Signal(Numbered, Option<Box<(Signal, Payload)>>),
    Step(Numbered, Option<Box<(Step, Payload)>>),
    SigningKey(Named, Option<Box<SigningKey>>),
    Stream(RowId, Option<Box<Stream>>),
    Chunk((RowId, u64), Option<Box<Chunk>>),
    Summary(RowId, Option<Box<Summary>>),
    Limit(LimitRow, Option<Arc<Limit>>),
    Gate(GateRow, Option<Box<Gate>>),
    Passage((GateRow, u64), Option<Box<Passage>>),
    Use((RowId, LimitRow), Option<Box<Use>>),
    Turn((LaneId, i32, String), Option<Box<Turn>>),
}

impl Tables {
    /// Makes a change and answers with the one that takes it back.
    pub(super) fn apply(&mut self, change: Change) -> Change {
        let index = &mut self.index;
        match change {
            Change::Namespace(id, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.namespace(old, new);
                Change::Namespace(id, replace(&mut self.namespaces, id, new, relink))
            }
            Change::Lane(id, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.lane(old, new);
                Change::Lane(id, replace(&mut self.lanes, id, new, relink))
            }
            Change::Route(id, new) => {
                self.route_tables.remove(&id.0);
                Change::Route(id, put(&mut self.routes, id, new))
            }
            Change::Execution(row, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.execution(old, new);
                Change::Execution(row, replace(&mut self.executions, row, new, relink))
            }
            Change::Input(row, new) => Change::Input(row, put(&mut self.inputs, row, new)),
            Change::Result(row, new) => Change::Result(row, put(&mut self.results, row, new)),
            Change::PastLease(id, new) => {
                Change::PastLease(id, put(&mut self.past_leases, id, new))
            }
            Change::Event(cursor, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.event(cursor, old, new);
                Change::Event(cursor, replace(&mut self.events, cursor, new, relink))
            }
            Change::Trimmed(cursor) => {
                Change::Trimmed(std::mem::replace(&mut self.trimmed, cursor))
            }
            Change::Key(name, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.key(old, new);
                let old = replace(&mut self.keys, name.clone(), new, relink);
                Change::Key(name, old)
            }
            Change::Worker(name, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.worker(old, new);
                let old = replace(&mut self.workers, name.clone(), new, relink);
                Change::Worker(name, old)
            }
            Change::Chore(id, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.chore(old, new);
                Change::Chore(id, replace(&mut self.chores, id, new, relink))
            }
            Change::Flow(row, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.flow(old, new);
                Change::Flow(row, replace(&mut self.flows, row, new, relink))
            }
            Change::Edge(place, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.edge(old, new);
                Change::Edge(place, replace(&mut self.edges, place, new, relink))
            }
            Change::Join(row, new) => Change::Join(row, put(&mut self.joins, row, new)),
            Change::Request(id, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.request(old, new);
                Change::Request(id, replace(&mut self.inbox, id, new, relink))
            }
            Change::Suspension(id, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.suspension(old, new);
                Change::Suspension(id, replace(&mut self.suspensions, id, new, relink))
            }
            Change::Waitpoint(id, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.waitpoint(old, new);
                Change::Waitpoint(id, replace(&mut self.waitpoints, id, new, relink))
            }
            Change::Signal(id, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.signal(old, new);
                Change::Signal(id, replace(&mut self.signals, id, new, relink))
            }
            Change::Step(id, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.step(old, new);
                Change::Step(id, replace(&mut self.steps, id, new, relink))
            }
            Change::SigningKey(name, new) => {
                let old = put(&mut self.signing_keys, name.clone(), new);
                Change::SigningKey(name, old)
            }
            Change::Stream(row, new) => Change::Stream(row, put(&mut self.streams, row, new)),
            Change::Chunk(place, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.chunk(old, new);
                Change::Chunk(place, replace(&mut self.chunks, place, new, relink))
            }
            Change::Summary(row, new) => Change::Summary(row, put(&mut self.summaries, row, new)),
            Change::Limit(row, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.limit(old, new);
                Change::Limit(row, replace(&mut self.limits, row, new, relink))
            }
            Change::Gate(row, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.gate(old, new);
                Change::Gate(row, replace(&mut self.gates, row, new, relink))
            }
            Change::Passage(place, new) => {
                Change::Passage(place, put(&mut self.passages, place, new))
            }
            Change::Use(place, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.limit_use(old, new);
                Change::Use(place, replace(&mut self.uses, place, new, relink))
            }
            Change::Turn(place, new) => {
                let relink = |old: Option<&_>, new: Option<&_>| index.turn(old, new);
                let old = replace(&mut self.turns, place.clone(), new, relink);
                Change::Turn(place, old)
            }
        }
    }

    /// The execution an index entry points to.
    pub(super) fn execution(&self, row: RowId) -> &Execution {
        self.executions.get(&row).expect("an index entry has its row")
    }

    /// The newest event ever written: it is never removed.
    pub(super) fn last_cursor(&self) -> Cursor {
        self.events.last_key_value().map_or(Cursor::default(), |(cursor, _)| *cursor)
    }

    /// The table of a namespace's routes, made anew only after a route came or went.
    pub(super) fn route_table(&mut self, namespace: NamespaceId) -> Arc<RouteTable> {
        let table = self.route_tables.entry(namespace).or_insert_with(|| {
            let all = (namespace, RouteId(i64::MIN))..=(namespace, RouteId(i64::MAX));
            let routes = self.routes.range(all).map(|(_, route)| Arc::clone(route));
            Arc::new(RouteTable::new(routes.collect()))
        });
        Arc::clone(table)
    }
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, new: Option<V>) -> Option<V> {
    match new {
        Some(new) => map.insert(key, new),
        None => map.remove(&key),
    }
}

/// As [`put`], for a table with indexes, which `relink` leads from the old row to the new.
fn replace<K: Ord, V: Deref>(
    map: &mut BTreeMap<K, V>,
    key: K,
    new: Option<V>,
    relink: impl FnOnce(Option<&V::Target>, Option<&V::Target>),
) -> Option<V> {
    match map.entry(key) {
        Entry::Occupied(mut entry) => {
            relink(Some(entry.get()), new.as_deref());
            Some(match new {
                Some(new) => entry.insert(new),
                None => entry.remove(),
            })
        }
        Entry::Vacant(entry) => {
            relink(None, new.as_deref());
            new.map(|new| entry.insert(new));
            None
        }
    }
}

/// What is derived from the rows, so that no question scans them.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    pub(super) namespace_names: BTreeMap<String, NamespaceId>,
    pub(super) lane_names: BTreeMap<Named, LaneId>,
    pub(super) ids: BTreeMap<(NamespaceId, ExecutionId), RowId>,
    pub(super) members: BTreeSet<(NamespaceId, RowId)>,
    pub(super) ready: BTreeSet<(LaneId, RouteId, Place)>,
    pub(super) owned_in: BTreeSet<(LaneId, RowId)>,
    pub(super) owned_by: BTreeSet<(NamespaceId, String, RowId)>,
    pub(super) due: BTreeSet<(Timestamp, RowId)>,
    pub(super) retired: BTreeSet<(Timestamp, RowId)>,
    pub(super) events: BTreeSet<(RowId, Cursor)>,
    pub(super) key_expiry: BTreeSet<(Timestamp, Named)>,
    pub(super) worker_due: BTreeSet<(Timestamp, Named)>,
    pub(super) chore_due: BTreeSet<(Timestamp, ChoreId)>,
    pub(super) chore_kinds: BTreeSet<(String, ChoreId)>,
    pub(super) flow_ids: BTreeMap<(NamespaceId, FlowId), FlowRow>,
    pub(super) flows_in: BTreeSet<(NamespaceId, FlowRow)>,
    pub(super) nodes: BTreeMap<(FlowRow, String), RowId>,
    pub(super) children: BTreeSet<(RowId, RowId)>,
    pub(super) edges_into: BTreeSet<EdgePlace>,
    pub(super) edge_ids: BTreeMap<(FlowRow, EdgeId), EdgePlace>,
    pub(super) waiting_requests: BTreeSet<RequestId>,
    pub(super) refused_requests: BTreeSet<RequestId>,
    pub(super) suspension_keys: BTreeMap<(RowId, u32, String), Numbered>,
    pub(super) waitpoint_ids: BTreeMap<(RowId, WaitpointId), Numbered>,
    pub(super) open_waitpoints: BTreeSet<Numbered>,
    pub(super) open_in: BTreeMap<(NamespaceId, WaitpointId), Numbered>,
    pub(super) signal_keys: BTreeMap<(RowId, String), Numbered>,
    pub(super) kept_signals: BTreeSet<(RowId, u32, u32)>,
    pub(super) taken_signals: BTreeSet<(RowId, u32, u32)>,
    pub(super) chunks: BTreeSet<(RowId, bool, u64)>,
    pub(super) step_names: BTreeMap<(RowId, String, u32), Numbered>,
    pub(super) limited: BTreeSet<(GateRow, LaneId, RouteId, Place)>,
    pub(super) limit_names: BTreeMap<(NamespaceId, LimitSort, String), LimitRow>,
    pub(super) gate_keys: BTreeMap<(LimitRow, NamespaceId, String), GateRow>,
    pub(super) idle_gates: BTreeSet<(Timestamp, GateRow)>,
    pub(super) open_uses: BTreeSet<(LimitRow, RowId)>,
    pub(super) turns: BTreeSet<(LaneId, i32, i64, String)>,
}

/// Where a claimable execution stands: the least goes first.
pub(super) type Place = (Reverse<i32>, i64, RowId);

impl Indexes {
    fn namespace(&mut self, old: Option<&Namespace>, new: Option<&Namespace>) {
        let entry = |row: &Namespace| (row.name.clone(), row.id);
        rename(&mut self.namespace_names, old.map(entry), new.map(entry));
    }

    fn lane(&mut self, old: Option<&Lane>, new: Option<&Lane>) {
        let entry = |row: &Lane| ((row.namespace, row.name.clone()), row.id);
        rename(&mut self.lane_names, old.map(entry), new.map(entry));
    }

    fn execution(&mut self, old: Option<&Execution>, new: Option<&Execution>) {
        let id = |row: &Execution| ((row.namespace, row.id), row.row);
        rename(&mut self.ids, old.map(id), new.map(id));
        let member = |row: &Execution| (row.namespace, row.row);
        shift(&mut self.members, old.map(member), new.map(member));
        shift(&mut self.ready, old.and_then(ready), new.and_then(ready));
        shift(&mut self.limited, old.and_then(limited), new.and_then(limited));
        shift(&mut self.owned_in, old.and_then(owned_in), new.and_then(owned_in));
        shift(&mut self.owned_by, old.and_then(owned_by), new.and_then(owned_by));
        shift(&mut self.due, old.and_then(due), new.and_then(due));
        shift(&mut self.retired, old.and_then(retired), new.and_then(retired));
        rename(&mut self.nodes, old.and_then(node), new.and_then(node));
        shift(&mut self.children, old.and_then(child), new.and_then(child));
    }

    fn flow(&mut self, old: Option<&Flow>, new: Option<&Flow>) {
        let id = |row: &Flow| ((row.namespace, row.id), row.row);
        rename(&mut self.flow_ids, old.map(id), new.map(id));
        let place = |row: &Flow| (row.namespace, row.row);
        shift(&mut self.flows_in, old.map(place), new.map(place));
    }

    fn edge(&mut self, old: Option<&Edge>, new: Option<&Edge>) {
        let into = |row: &Edge| (row.target, row.source, row.ordinal);
        shift(&mut self.edges_into, old.map(into), new.map(into));
        let id = |row: &Edge| Some(((row.flow, row.id?), (row.source, row.target, row.ordinal)));
        rename(&mut self.edge_ids, old.and_then(id), new.and_then(id));
    }

    fn event(&mut self, cursor: Cursor, old: Option<&NewEvent>, new: Option<&NewEvent>) {
        let entry = |row: &NewEvent| row.execution.map(|(execution, _)| (execution, cursor));
        shift(&mut self.events, old.and_then(entry), new.and_then(entry));
    }

    fn key(&mut self, old: Option<&Key>, new: Option<&Key>) {
        let entry = |row: &Key| Some((row.expires_at?, (row.namespace, row.key.clone())));
        shift(&mut self.key_expiry, old.and_then(entry), new.and_then(entry));
    }

    fn worker(&mut self, old: Option<&WorkerRow>, new: Option<&WorkerRow>) {
        let entry = |row: &WorkerRow| (row.due_at(), (row.namespace, row.instance.clone()));
        shift(&mut self.worker_due, old.map(entry), new.map(entry));
    }

    fn chore(&mut self, old: Option<&Chore>, new: Option<&Chore>) {
        let due = |row: &Chore| (row.due_at, row.id);
        shift(&mut self.chore_due, old.map(due), new.map(due));
        let kind = |row: &Chore| (kind_text(&row.kind), row.id);
        shift(&mut self.chore_kinds, old.map(kind), new.map(kind));
    }

    fn request(&mut self, old: Option<&Request>, new: Option<&Request>) {
        let waits = |row: &Request| row.refusal.is_none().then_some(row.id);
        shift(&mut self.waiting_requests, old.and_then(waits), new.and_then(waits));
        let refused = |row: &Request| row.refusal.is_some().then_some(row.id);
        shift(&mut self.refused_requests, old.and_then(refused), new.and_then(refused));
    }

    fn suspension(&mut self, old: Option<&Suspension>, new: Option<&Suspension>) {
        let key = |row: &Suspension| {
            let key = row.key.clone()?;
            Some(((row.execution, row.run, key), (row.execution, row.number)))
        };
        rename(&mut self.suspension_keys, old.and_then(key), new.and_then(key));
    }

    fn waitpoint(&mut self, old: Option<&Waitpoint>, new: Option<&Waitpoint>) {
        let place = |row: &Waitpoint| (row.execution, row.seq);
        let id = |row: &Waitpoint| ((row.execution, row.id), place(row));
        rename(&mut self.waitpoint_ids, old.map(id), new.map(id));
        let open = |row: &Waitpoint| row.is_open().then_some(place(row));
        shift(&mut self.open_waitpoints, old.and_then(open), new.and_then(open));
        let open = |row: &Waitpoint| row.is_open().then_some(((row.namespace, row.id), place(row)));
        rename(&mut self.open_in, old.and_then(open), new.and_then(open));
    }

    fn signal(&mut self, old: Option<&(Signal, Payload)>, new: Option<&(Signal, Payload)>) {
        let key = |(row, _): &(Signal, Payload)| {
            let key = row.key.clone()?;
            Some(((row.execution, key), (row.execution, row.seq)))
        };
        rename(&mut self.signal_keys, old.and_then(key), new.and_then(key));
        let kept = |(row, _): &(Signal, Payload)| {
            row.taken.is_none().then_some((row.execution, row.run, row.seq))
        };
        shift(&mut self.kept_signals, old.and_then(kept), new.and_then(kept));
        let taken = |(row, _): &(Signal, Payload)| {
            row.taken.map(|taken| (row.execution, taken.suspension, row.seq))
        };
        shift(&mut self.taken_signals, old.and_then(taken), new.and_then(taken));
    }

    fn chunk(&mut self, old: Option<&Chunk>, new: Option<&Chunk>) {
        let entry = |row: &Chunk| (row.execution, row.live, row.first);
        shift(&mut self.chunks, old.map(entry), new.map(entry));
    }

    fn step(&mut self, old: Option<&(Step, Payload)>, new: Option<&(Step, Payload)>) {
        let name = |(row, _): &(Step, Payload)| {
            ((row.execution, row.name.clone(), row.occurrence), (row.execution, row.seq))
        };
        rename(&mut self.step_names, old.map(name), new.map(name));
    }

    fn limit(&mut self, old: Option<&Limit>, new: Option<&Limit>) {
        let name = |row: &Limit| ((row.namespace, row.sort(), row.name.clone()), row.row);
        rename(&mut self.limit_names, old.map(name), new.map(name));
    }

    fn gate(&mut self, old: Option<&Gate>, new: Option<&Gate>) {
        let key = |row: &Gate| ((row.limit, row.namespace, row.key.clone()), row.row);
        rename(&mut self.gate_keys, old.map(key), new.map(key));
        let idle = |row: &Gate| row.idle_at.map(|at| (at, row.row));
        shift(&mut self.idle_gates, old.and_then(idle), new.and_then(idle));
    }

    fn limit_use(&mut self, old: Option<&Use>, new: Option<&Use>) {
        let open = |row: &Use| row.open.then_some((row.limit, row.execution));
        shift(&mut self.open_uses, old.and_then(open), new.and_then(open));
    }

    fn turn(&mut self, old: Option<&Turn>, new: Option<&Turn>) {
        let entry = |row: &Turn| (row.lane, row.priority, row.next, row.key.clone());
        shift(&mut self.turns, old.map(entry), new.map(entry));
    }
}

fn ready(row: &Execution) -> Option<(LaneId, RouteId, Place)> {
    let place = (Reverse(row.priority), row.rank, row.row);
    row.claimable().then_some((row.lane, row.route, place))
}

fn limited(row: &Execution) -> Option<(GateRow, LaneId, RouteId, Place)> {
    let State::Limited(limited) = &row.state else { return None };
    let place = (Reverse(row.priority), row.rank, row.row);
    Some((limited.gate, row.lane, row.route, place))
}

fn owned_in(row: &Execution) -> Option<(LaneId, RowId)> {
    row.state.worker().map(|_| (row.lane, row.row))
}

fn owned_by(row: &Execution) -> Option<(NamespaceId, String, RowId)> {
    Some((row.namespace, row.state.worker()?.to_owned(), row.row))
}

fn due(row: &Execution) -> Option<(Timestamp, RowId)> {
    let over = row.status().is_terminal();
    row.due_at().filter(|_| !over).map(|at| (at, row.row))
}

fn retired(row: &Execution) -> Option<(Timestamp, RowId)> {
    let over = row.status().is_terminal();
    row.due_at().filter(|_| over).map(|at| (at, row.row))
}

fn node(row: &Execution) -> Option<((FlowRow, String), RowId)> {
    let member = row.member.as_ref()?;
    Some(((member.flow, member.node.clone()), row.row))
}

fn child(row: &Execution) -> Option<(RowId, RowId)> {
    let over = row.status().is_terminal();
    row.parent.filter(|_| !over).map(|parent| (parent, row.row))
}

/// A chore's kind as text, by which chores can be found.
pub(super) fn kind_text(kind: &ChoreKind) -> String {
    serde_json::to_string(kind).expect("plain data has a JSON form")
}

fn shift<T: Ord>(set: &mut BTreeSet<T>, old: Option<T>, new: Option<T>) {
    if old == new {
        return;
    }
    if let Some(old) = old {
        set.remove(&old);
    }
    if let Some(new) = new {
        set.insert(new);
    }
}

fn rename<K: Ord, V: PartialEq>(
    map: &mut BTreeMap<K, V>,
    old: Option<(K, V)>,
    new: Option<(K, V)>,
) {
    if old == new {
        return;
    }
    if let Some((key, _)) = old {
        map.remove(&key);
    }
    if let Some((key, value)) = new {
        map.insert(key, value);
    }
}
