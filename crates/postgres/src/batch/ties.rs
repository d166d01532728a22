//! What ties executions together, as it was loaded and as a round wrote it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use everloom_core::{
    Edge, EdgeId, Execution, Flow, FlowId, FlowRow, Join, MemberCount, NamespaceId, RowId,
};

use super::known::{Found, Known, absent, merge};
use crate::exchange::{Changes, EdgePlace, Loaded, Wants};

/// What was loaded. A key without a value is one that was looked for and does not exist.
#[derive(Default)]
pub(super) struct Ties {
    pub(super) new_flow_rows: Vec<FlowRow>,
    pub(super) flow_ids: BTreeMap<(NamespaceId, FlowId), Option<FlowRow>>,
    pub(super) flows: BTreeMap<FlowRow, Option<Flow>>,
    pub(super) gates: BTreeMap<FlowRow, bool>,
    /// Rows that were looked for and have no execution.
    pub(super) empty_rows: BTreeSet<RowId>,
    /// Members that were loaded by id without what the end of one needs.
    pub(super) bare: BTreeSet<RowId>,
    pub(super) nodes: BTreeMap<(FlowRow, String), Option<RowId>>,
    pub(super) members: BTreeMap<(FlowRow, Option<String>), Found>,
    pub(super) member_counts: BTreeMap<FlowRow, Vec<MemberCount>>,
    pub(super) children: BTreeMap<(RowId, Option<RowId>), Found>,
    pub(super) joins: BTreeMap<RowId, Option<Join>>,
    pub(super) edges: BTreeMap<EdgePlace, Edge>,
    pub(super) edges_from: BTreeMap<(RowId, Option<RowId>), FoundEdges>,
    pub(super) edges_into: BTreeMap<(RowId, bool), Vec<EdgePlace>>,
    pub(super) edge_ids: BTreeMap<(FlowRow, EdgeId), Option<EdgePlace>>,
    /// Rows whose edges are all in `reach`.
    pub(super) reached: BTreeSet<RowId>,
    pub(super) reach: BTreeSet<EdgePlace>,
}

/// The first edges out of an execution, as many as were asked for or as there are.
pub(super) struct FoundEdges {
    pub(super) places: Vec<EdgePlace>,
    limit: usize,
}

impl FoundEdges {
    /// Whether there are no others.
    pub(super) fn is_all(&self) -> bool {
        self.places.len() < self.limit
    }
}

impl Ties {
    /// Adds what was loaded; `known` are the executions that were before.
    pub(super) fn merge(
        &mut self,
        wants: &mut Wants,
        loaded: &mut Loaded,
        known: &BTreeMap<RowId, Execution>,
    ) {
        self.new_flow_rows.append(&mut loaded.new_flow_rows);
        self.flow_ids.extend(take(&mut wants.flows).into_iter().map(absent));
        self.flows.extend(take(&mut wants.flow_rows).into_iter().map(absent));
        for flow in take(&mut loaded.flows) {
            self.flow_ids.insert((flow.namespace, flow.id), Some(flow.row));
            self.flows.insert(flow.row, Some(flow));
        }
        self.gates.append(&mut loaded.gates);
        let counts = take(&mut wants.member_counts).into_iter().map(|flow| (flow, vec![]));
        self.member_counts.extend(counts);
        self.member_counts.append(&mut loaded.member_counts);
        self.merge_executions(wants, &loaded.executions);
        self.merge_joins(wants, loaded, known);
        self.merge_edges(wants, loaded);
        for execution in &loaded.executions {
            let by_id = wants.executions.contains(&(execution.namespace, execution.id));
            let along = self.edges_from.contains_key(&(execution.row, None));
            if by_id && !along && execution.member.is_some() {
                self.bare.insert(execution.row);
            }
        }
    }

    fn merge_executions(&mut self, wants: &mut Wants, loaded: &[Execution]) {
        self.empty_rows.append(&mut wants.rows);
        self.nodes.extend(take(&mut wants.nodes).into_iter().map(absent));
        for execution in loaded {
            self.empty_rows.remove(&execution.row);
            if let Some(member) = &execution.member {
                self.nodes.insert((member.flow, member.node.clone()), Some(execution.row));
            }
        }
        // What was found otherwise only adds to what comes after the end of a page.
        for ((flow, after), limit) in take(&mut wants.members) {
            let nodes = loaded.iter().filter_map(|execution| {
                let member = execution.member.as_ref().filter(|member| member.flow == flow)?;
                Some((member.node.as_str(), execution.row))
            });
            let mut page: Vec<_> = nodes
                .filter(|(node, _)| after.as_deref().is_none_or(|after| *node > after))
                .collect();
            page.sort_unstable();
            let rows = page.into_iter().map(|(_, row)| row).take(limit).collect();
            self.members.insert((flow, after), Found { rows, limit });
        }
        for ((parent, after), limit) in take(&mut wants.children) {
            let children = loaded.iter().filter(|child| child.parent == Some(parent));
            let page = children.filter(|child| after.is_none_or(|after| child.row > after));
            let (over, open): (Vec<_>, Vec<_>) =
                page.partition(|child| child.status().is_terminal());
            let mut rows: Vec<_> = open.into_iter().map(|child| child.row).collect();
            rows.sort_unstable();
            rows.truncate(limit);
            // One that ended while it was waited for has left its place to another.
            let limit = if over.is_empty() { limit } else { 0 };
            self.children.insert((parent, after), Found { rows, limit });
        }
    }

    fn merge_joins(
        &mut self,
        wants: &mut Wants,
        loaded: &mut Loaded,
        known: &BTreeMap<RowId, Execution>,
    ) {
        let edges = loaded.edges_from.values().flat_map(|(edges, _)| edges);
        let targets = edges.map(|edge| edge.target);
        let wanted: BTreeSet<RowId> = take(&mut wants.joins)
            .into_iter()
            .chain(targets)
            .chain(take(&mut loaded.with_ties))
            .collect();
        let locked: BTreeSet<RowId> =
            loaded.executions.iter().map(|execution| execution.row).collect();
        // Only while its target is locked does a join stay as it is. A row without an execution
        // has no join either.
        let is_locked = |row: &RowId| locked.contains(row) || known.contains_key(row);
        let wanted = wanted.into_iter().filter(is_locked);
        let joins = take(&mut loaded.joins).into_iter();
        let joins = joins.filter(|join| is_locked(&join.target)).map(|join| (join.target, join));
        merge(&mut self.joins, wanted, joins);
    }

    fn merge_edges(&mut self, wants: &mut Wants, loaded: &mut Loaded) {
        for (page, (edges, limit)) in take(&mut loaded.edges_from) {
            let places = self.keep_edges(edges);
            let found = FoundEdges { places, limit };
            if self.edges_from.get(&page).is_none_or(|known| !known.is_all()) {
                self.edges_from.insert(page, found);
            }
        }
        let into = take(&mut wants.edges_into).into_iter().map(|wanted| (wanted, vec![]));
        self.edges_into.extend(into);
        for (target, edges) in take(&mut loaded.edges_into) {
            let places = self.keep_edges(edges);
            self.edges_into.insert(target, places);
        }
        self.edge_ids.extend(take(&mut wants.edge_ids).into_iter().map(absent));
        let named = take(&mut loaded.edges);
        for edge in &named {
            let place = (edge.source, edge.target, edge.ordinal);
            self.edge_ids.extend(edge.id.map(|id| ((edge.flow, id), Some(place))));
        }
        self.keep_edges(named);
        self.reached.append(&mut wants.reach);
        for place in take(&mut loaded.reach) {
            self.reached.extend([place.0, place.1]);
            self.reach.insert(place);
        }
    }

    fn keep_edges(&mut self, edges: Vec<Edge>) -> Vec<EdgePlace> {
        let keep = |edge: Edge| {
            let place = (edge.source, edge.target, edge.ordinal);
            self.edges.insert(place, edge);
            place
        };
        edges.into_iter().map(keep).collect()
    }
}

/// What a round wrote, at its last state. A key without a value was removed.
#[derive(Default)]
pub(super) struct NewTies {
    pub(super) flow_rows_used: usize,
    /// The ids of inserted flows.
    pub(super) flow_ids: BTreeMap<(NamespaceId, FlowId), FlowRow>,
    pub(super) new_flows: BTreeSet<FlowRow>,
    pub(super) flows: BTreeMap<FlowRow, Option<Flow>>,
    /// The names of new members.
    pub(super) nodes: BTreeMap<(FlowRow, String), RowId>,
    pub(super) joins: BTreeMap<RowId, Join>,
    pub(super) edges: BTreeMap<EdgePlace, Option<Edge>>,
    /// The same by target, source and ordinal.
    pub(super) edges_into: BTreeSet<(RowId, RowId, u32)>,
    pub(super) edge_ids: BTreeMap<(FlowRow, EdgeId), EdgePlace>,
}

impl NewTies {
    /// Remembers the name of a new member.
    pub(super) fn note_node(&mut self, execution: &Execution) {
        if let Some(member) = &execution.member {
            self.nodes.insert((member.flow, member.node.clone()), execution.row);
        }
    }

    pub(super) fn put_edge(&mut self, place: EdgePlace, edge: Option<Edge>) {
        let named = edge.as_ref().and_then(|edge| Some((edge.flow, edge.id?)));
        self.edge_ids.extend(named.map(|name| (name, place)));
        self.edges_into.insert((place.1, place.0, place.2));
        self.edges.insert(place, edge);
    }

    /// What is left to be written.
    pub(super) fn into_changes(
        self,
        changes: &mut Changes,
        executions: &BTreeMap<RowId, Option<Execution>>,
        known: &Known,
    ) {
        for (row, flow) in self.flows {
            let before = known.ties.flows.get(&row).and_then(Option::as_ref);
            match (flow, self.new_flows.contains(&row)) {
                (Some(flow), true) => changes.new_flows.push(flow),
                (Some(flow), false) if before != Some(&flow) => {
                    if before.is_none_or(|before| before.terms != flow.terms) {
                        changes.reworded_flows.push(flow.clone());
                    }
                    changes.flows.push(flow);
                }
                (None, false) => changes.removed_flows.push(row),
                // It is what it was, or came and went within the round.
                (Some(_), false) | (None, true) => {}
            }
        }
        let is_removed = |row: &RowId| matches!(executions.get(row), Some(None));
        for (place, edge) in self.edges {
            match edge {
                // They go with their executions.
                _ if is_removed(&place.0) || is_removed(&place.1) => {}
                Some(edge) if known.ties.edges.get(&place) == Some(&edge) => {}
                Some(edge) => changes.edges.push(edge),
                None => changes.dropped_edges.push(place),
            }
        }
        for (target, join) in self.joins {
            if known.ties.joins.get(&target) != Some(&Some(join.clone())) {
                changes.joins.push(join);
            }
        }
    }
}
