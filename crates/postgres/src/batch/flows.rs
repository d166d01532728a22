//! Questions about flows and their members.

use std::collections::BTreeMap;
use std::sync::Arc;

use everloom_core::{
    Error, Execution, Flow, FlowId, FlowRow, MemberCount, NamespaceId, Result, RowId, Status,
};

use super::known::Found;
use super::read::missing;
use super::{Batch, is_placeholder};
use crate::exchange::EDGES_ALONG;
use crate::text;

impl Batch<'_> {
    /// Whether an execution has no past in the database.
    pub(super) fn is_new(&self, row: RowId) -> bool {
        is_placeholder(row.0) || self.round.inputs.contains_key(&row)
    }

    fn is_new_flow(&self, row: FlowRow) -> bool {
        is_placeholder(row.0) || self.round.ties.new_flows.contains(&row)
    }

    pub(super) fn by_row(&mut self, row: RowId) -> Result<Option<Execution>> {
        if let Some(written) = self.round.executions.get(&row) {
            return Ok(written.clone());
        }
        if let Some(known) = self.known.executions.get(&row) {
            return Ok(Some(known.clone()));
        }
        if is_placeholder(row.0) || self.known.ties.empty_rows.contains(&row) {
            return Ok(None);
        }
        self.ask().rows.insert(row);
        Err(Error::miss())
    }

    /// A flow as this round sees it, if that is known.
    fn current_flow(&self, row: FlowRow) -> Option<Option<&Flow>> {
        let flow = self.round.ties.flows.get(&row).or_else(|| self.known.ties.flows.get(&row));
        flow.map(Option::as_ref)
    }

    pub(super) fn find_flow(&mut self, namespace: NamespaceId, id: FlowId) -> Option<Flow> {
        let key = (namespace, id);
        let inserted = self.round.ties.flow_ids.get(&key).copied().map(Some);
        match inserted.or_else(|| self.known.ties.flow_ids.get(&key).copied()) {
            Some(row) => row.and_then(|row| self.current_flow(row)).flatten().cloned(),
            None => {
                if !is_placeholder(namespace.0) {
                    self.ask().flows.insert(key);
                }
                None
            }
        }
    }

    pub(super) fn flow_in(&mut self, row: FlowRow) -> Result<Flow> {
        match self.current_flow(row) {
            Some(flow) => flow.cloned().ok_or_else(|| missing("flow", row.0)),
            None => {
                self.ask().flow_rows.insert(row);
                self.ask_ties_of_bare();
                Err(Error::miss())
            }
        }
    }

    /// Asks for what the end of a member needs, for all those that have not brought it along.
    pub(super) fn ask_ties_of_bare(&mut self) {
        let bare = std::mem::take(&mut self.known.ties.bare);
        for row in bare {
            let flow =
                self.known.executions.get(&row).and_then(|one| Some(one.member.as_ref()?.flow));
            let known = flow.is_none_or(|flow| self.known.ties.flows.contains_key(&flow));
            let wants = self.ask();
            wants.flow_rows.extend(flow.filter(|_| !known));
            wants.joins.insert(row);
            wants.edges_from.insert((row, None), EDGES_ALONG);
        }
    }

    pub(super) fn is_flow_gated(&mut self, row: FlowRow) -> bool {
        if let Some(flow) = self.current_flow(row) {
            return flow.is_some_and(Flow::is_gated);
        }
        if let Some(gate) = self.known.ties.gates.get(&row) {
            return *gate;
        }
        self.ask().gates.insert(row);
        false
    }

    pub(super) fn find_member(&mut self, flow: FlowRow, node: &str) -> Option<Execution> {
        let name = (flow, node.to_owned());
        let written = self.round.ties.nodes.get(&name).copied().map(Some);
        match written.or_else(|| self.known.ties.nodes.get(&name).copied()) {
            Some(row) => row.and_then(|row| self.current(row)).cloned(),
            None => {
                if !self.is_new_flow(flow) && text::can_be(node) {
                    self.ask().nodes.insert(name);
                }
                None
            }
        }
    }

    pub(super) fn list_members(
        &mut self,
        flow: FlowRow,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<Execution> {
        let is_after = |node: &str| after.is_none_or(|after| node > after);
        let found = self.found_members(flow, after, limit);
        let is_all = self.is_new_flow(flow) || found.is_some_and(Found::is_all);
        let rows = found.map_or(&[][..], |found| &found.rows);
        let last = rows.last().and_then(|row| self.known_node(*row));
        let known = rows.iter().filter_map(|row| Some((self.known_node(*row)?, *row)));
        let known = known.filter(|(node, row)| is_after(node) && self.current(*row).is_some());
        let mut nodes: BTreeMap<&str, RowId> = known.collect();
        let written = self.round.ties.nodes.range((flow, after.unwrap_or_default().to_owned())..);
        for ((_, node), row) in written.take_while(|((of, _), _)| *of == flow) {
            let within = is_all || last.is_some_and(|last| node.as_str() <= last);
            if within && is_after(node) && self.current(*row).is_some() {
                nodes.insert(node, *row);
            }
        }
        let nodes = nodes.into_values().take(limit);
        let page: Vec<_> = nodes.filter_map(|row| self.current(row)).cloned().collect();
        if page.len() < limit && !is_all {
            // Whoever reads on and on gets more and more at a time.
            let more = limit.saturating_add(self.number_listed(flow));
            let wanted = self.ask().members.entry((flow, after.map(str::to_owned))).or_default();
            *wanted = more.max(*wanted);
        }
        page
    }

    /// The page that answers a question, or comes nearest to it.
    fn found_members(&self, flow: FlowRow, after: Option<&str>, limit: usize) -> Option<&Found> {
        let behind = |found: &Found| {
            let nodes = found.rows.iter().filter_map(|row| self.known_node(*row));
            nodes.filter(|node| after.is_none_or(|after| *node > after)).count()
        };
        let pages = (flow, None)..=(flow, after.map(str::to_owned));
        let pages = self.known.ties.members.range(pages).map(|(_, found)| found);
        pages.max_by_key(|found| (found.is_all(), behind(found).min(limit)))
    }

    /// How many members of a flow were listed.
    fn number_listed(&self, flow: FlowRow) -> usize {
        let pages = self.known.ties.members.range((flow, None)..);
        let pages = pages.take_while(|((of, _), _)| *of == flow);
        pages.map(|(_, found)| found.rows.len()).sum()
    }

    fn known_node(&self, row: RowId) -> Option<&str> {
        Some(self.known.executions.get(&row)?.member.as_ref()?.node.as_str())
    }

    pub(super) fn number_members(&mut self, flow: FlowRow) -> Vec<MemberCount> {
        let mut counts = BTreeMap::<(Status, bool), u64>::new();
        match self.known.ties.member_counts.get(&flow) {
            Some(known) => {
                counts.extend(known.iter().map(|one| ((one.status, one.started), one.count)));
            }
            None if self.is_new_flow(flow) => {}
            None => {
                self.ask().member_counts.insert(flow);
            }
        }
        let sort = |execution: &Execution| (execution.status(), execution.started_at.is_some());
        let is_member = |execution: &&Execution| {
            execution.member.as_ref().is_some_and(|member| member.flow == flow)
        };
        for (row, written) in &self.round.executions {
            if let Some(before) = self.known.executions.get(row).filter(is_member) {
                let count = counts.entry(sort(before)).or_default();
                *count = count.saturating_sub(1);
            }
            if let Some(after) = written.as_ref().filter(is_member) {
                *counts.entry(sort(after)).or_default() += 1;
            }
        }
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        counts.map(|((status, started), count)| MemberCount { status, started, count }).collect()
    }

    pub(super) fn list_children(
        &mut self,
        parent: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Vec<Execution> {
        let is_childless = self.is_new(parent)
            || self.known.executions.get(&parent).is_some_and(|parent| !parent.beside.children);
        let page = (parent, after);
        let found = self.known.ties.children.get(&page);
        let is_all = is_childless || found.is_some_and(Found::is_all);
        let rows = found.map_or(&[][..], |found| &found.rows);
        let last = rows.last().copied();
        let is_open = |child: &&Execution| {
            child.parent == Some(parent)
                && !child.status().is_terminal()
                && after.is_none_or(|after| child.row > after)
        };
        let mut children: BTreeMap<RowId, &Execution> = BTreeMap::new();
        for child in rows.iter().filter_map(|row| self.current(*row)).filter(is_open) {
            children.insert(child.row, child);
        }
        let gone = rows.len() - children.len();
        for child in self.round.executions.values().flatten().filter(is_open) {
            if is_all || last.is_some_and(|last| child.row <= last) {
                children.insert(child.row, child);
            }
        }
        let listed: Vec<_> = children.into_values().take(limit).cloned().collect();
        if listed.len() < limit && !is_all {
            let wanted = self.ask().children.entry(page).or_default();
            *wanted = limit.saturating_add(gone).max(*wanted);
        }
        listed
    }

    pub(super) fn put_new_flow(&mut self, flow: &Flow) -> Result<()> {
        let key = (flow.namespace, flow.id);
        let known = self.round.ties.flow_ids.get(&key).copied();
        let known = known.or_else(|| self.known.ties.flow_ids.get(&key).copied().flatten());
        if known.is_some_and(|row| self.current_flow(row).flatten().is_some()) {
            return Err(Error::bug(format!("the flow {} exists", flow.id)));
        }
        let ties = &mut self.overlay().ties;
        ties.flow_ids.insert(key, flow.row);
        ties.new_flows.insert(flow.row);
        ties.flows.insert(flow.row, Some(flow.clone()));
        Ok(())
    }

    pub(super) fn put_flow(&mut self, flow: &Flow) -> Result<()> {
        let saved = self.flow_in(flow.row)?;
        // What is fixed stays as it is.
        let flow = Flow {
            state: flow.state.clone(),
            since: flow.since,
            held: flow.held,
            run: flow.run,
            counts: flow.counts,
            deadline_at: flow.deadline_at,
            tags: Arc::clone(&flow.tags),
            ..saved
        };
        self.overlay().ties.flows.insert(flow.row, Some(flow));
        Ok(())
    }

    pub(super) fn put_terms(&mut self, flow: &Flow) -> Result<()> {
        let saved = self.flow_in(flow.row)?;
        let flow = Flow { terms: Arc::clone(&flow.terms), ..saved };
        self.overlay().ties.flows.insert(flow.row, Some(flow));
        Ok(())
    }

    pub(super) fn drop_flow(&mut self, flow: &Flow) -> Result<()> {
        self.flow_in(flow.row)?;
        self.overlay().ties.flows.insert(flow.row, None);
        Ok(())
    }
}
