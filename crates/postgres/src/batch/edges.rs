//! Questions about edges and joins.

use std::collections::{BTreeMap, BTreeSet};

use everloom_core::{Edge, EdgeId, Error, FlowRow, Join, Result, RowId};

use super::Batch;
use super::ties::FoundEdges;
use crate::exchange::EdgePlace;

impl Batch<'_> {
    /// Whether nothing is tied to an execution, as far as the database knows.
    fn is_untied(&self, row: RowId) -> bool {
        let known = self.known.executions.get(&row);
        self.is_new(row)
            || known.is_some_and(|known| known.member.is_none() && !known.beside.children)
    }

    pub(super) fn is_removed(&self, row: RowId) -> bool {
        matches!(self.round.executions.get(&row), Some(None))
    }

    /// An edge as this round sees it.
    fn current_edge(&self, place: &EdgePlace) -> Option<&Edge> {
        if self.is_removed(place.0) || self.is_removed(place.1) {
            return None;
        }
        match self.round.ties.edges.get(place) {
            Some(written) => written.as_ref(),
            None => self.known.ties.edges.get(place),
        }
    }

    pub(super) fn join_of(&mut self, target: RowId) -> Result<Option<Join>> {
        if let Some(written) = self.round.ties.joins.get(&target) {
            return Ok(Some(written.clone()));
        }
        if self.is_removed(target) || self.is_untied(target) {
            return Ok(None);
        }
        if let Some(known) = self.known.ties.joins.get(&target) {
            return Ok(known.clone());
        }
        self.ask().joins.insert(target);
        if self.known.ties.bare.contains(&target) {
            self.ask_ties_of_bare();
        }
        Err(Error::miss())
    }

    pub(super) fn list_edges_from(
        &mut self,
        source: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Result<Vec<Edge>> {
        let is_untied = self.is_untied(source);
        let found = self.found_edges(source, after, limit);
        let is_all = is_untied || found.is_some_and(FoundEdges::is_all);
        let places = found.map_or(&[][..], |found| &found.places);
        let last = places.last().copied();
        let is_after = |place: &EdgePlace| after.is_none_or(|after| place.1 > after);
        let known = places.iter().copied().filter(is_after);
        let mut edges: BTreeMap<EdgePlace, &Edge> =
            known.filter_map(|place| Some((place, self.current_edge(&place)?))).collect();
        let first = (source, after.unwrap_or(RowId(i64::MIN)), 0);
        let written = self.round.ties.edges.range(first..);
        for (place, _) in written.take_while(|(place, _)| place.0 == source) {
            let within = is_all || last.is_some_and(|last| *place <= last);
            if let Some(edge) = self.current_edge(place).filter(|_| within && is_after(place)) {
                edges.insert(*place, edge);
            }
        }
        if is_all || edges.len() >= limit {
            return Ok(edges.into_values().take(limit).cloned().collect());
        }
        let gone = places.len().saturating_sub(edges.len());
        let bare = self.known.ties.bare.contains(&source);
        let wanted = self.ask().edges_from.entry((source, after)).or_default();
        *wanted = limit.saturating_add(gone).max(*wanted);
        if bare {
            self.ask_ties_of_bare();
        }
        Err(Error::miss())
    }

    /// The page that answers a question, or comes nearest to it.
    fn found_edges(
        &self,
        source: RowId,
        after: Option<RowId>,
        limit: usize,
    ) -> Option<&FoundEdges> {
        let pages = self.known.ties.edges_from.range((source, None)..=(source, after));
        let pages = pages.map(|(_, found)| found);
        let behind = |found: &FoundEdges| {
            let is_after = |place: &&EdgePlace| after.is_none_or(|after| place.1 > after);
            found.places.iter().filter(is_after).count()
        };
        pages.max_by_key(|found| (found.is_all(), behind(found).min(limit)))
    }

    pub(super) fn list_edges_into(&mut self, target: RowId, bound: bool) -> Vec<Edge> {
        let known = &self.known.ties.edges_into;
        let found = known.get(&(target, false)).or_else(|| known.get(&(target, bound)));
        let is_known = self.is_untied(target) || found.is_some();
        let mut places: BTreeSet<EdgePlace> = found.into_iter().flatten().copied().collect();
        let written = &self.round.ties.edges_into;
        let of = (target, RowId(i64::MIN), 0)..=(target, RowId(i64::MAX), u32::MAX);
        places.extend(
            written.range(of).map(|(target, source, ordinal)| (*source, *target, *ordinal)),
        );
        let edges = places.iter().filter_map(|place| self.current_edge(place));
        let edges: Vec<Edge> =
            edges.filter(|edge| !bound || edge.bind.is_some()).cloned().collect();
        if !is_known {
            self.ask().edges_into.insert((target, bound));
        }
        self.ask_sources(&edges, bound);
        edges
    }

    /// Asks for the sources of edges, which whoever looks at the edges wants to know next, and for
    /// their results if they are handed over.
    fn ask_sources(&mut self, edges: &[Edge], bound: bool) {
        for source in edges.iter().map(|edge| edge.source) {
            if self.by_row(source).is_err() && bound {
                self.ask().results.insert(source);
            }
        }
    }

    pub(super) fn find_edge(&mut self, flow: FlowRow, id: EdgeId) -> Option<Edge> {
        let name = (flow, id);
        let written = self.round.ties.edge_ids.get(&name).copied().map(Some);
        match written.or_else(|| self.known.ties.edge_ids.get(&name).copied()) {
            Some(place) => place.and_then(|place| self.current_edge(&place)).cloned(),
            None => {
                self.ask().edge_ids.insert(name);
                None
            }
        }
    }

    /// What can be reached along edges. The database has followed its own; those of this round may
    /// lead to where it has not been.
    pub(super) fn walk(&mut self, from: &[RowId]) -> Vec<(RowId, RowId)> {
        let mut pairs = BTreeSet::new();
        let mut seen: BTreeSet<RowId> = from.iter().copied().collect();
        let mut next: Vec<RowId> = seen.iter().copied().collect();
        while let Some(source) = next.pop() {
            if !self.known.ties.reached.contains(&source) && !self.is_untied(source) {
                self.ask().reach.insert(source);
            }
            for target in self.targets(source) {
                pairs.insert((source, target));
                if seen.insert(target) {
                    next.push(target);
                }
            }
        }
        pairs.into_iter().collect()
    }

    fn targets(&self, source: RowId) -> BTreeSet<RowId> {
        let all = (source, RowId(i64::MIN), 0)..=(source, RowId(i64::MAX), u32::MAX);
        let written = &self.round.ties.edges;
        let is_there = |place: &&EdgePlace| {
            let gone = self.is_removed(place.0) || self.is_removed(place.1);
            !gone && written.get(place).is_none_or(Option::is_some)
        };
        let known = self.known.ties.reach.range(all.clone());
        let new = written.range(all).map(|(place, _)| place);
        known.chain(new).filter(is_there).map(|place| place.1).collect()
    }

    pub(super) fn put_new_edge(&mut self, edge: &Edge) -> Result<()> {
        let place = (edge.source, edge.target, edge.ordinal);
        if self.current_edge(&place).is_some() {
            return Err(Error::bug(format!("the edge {place:?} exists")));
        }
        self.overlay().ties.put_edge(place, Some(edge.clone()));
        Ok(())
    }

    pub(super) fn put_edge(&mut self, edge: &Edge) -> Result<()> {
        let place = (edge.source, edge.target, edge.ordinal);
        let Some(saved) = self.current_edge(&place) else {
            return Err(Error::bug(format!("there is no edge {place:?}")));
        };
        let edge = Edge { applied: edge.applied, ..saved.clone() };
        self.overlay().ties.put_edge(place, Some(edge));
        Ok(())
    }
}
