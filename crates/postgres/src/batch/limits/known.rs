//! What was loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::sync::Arc;

use everloom_core::{
    Execution, Gate, GateRow, Limit, LimitRow, NamespaceId, Passage, RowId, Turn, Use,
};

use super::super::caches::Caches;
use super::super::known::{absent, merge};
use crate::exchange::{
    GateName, GatePage, LimitName, LimitWants, Loaded, LoadedLimits, OpenPage, PASSAGES, TurnName,
};

/// What was loaded. A key without a value is one that was looked for and does not exist.
#[derive(Default)]
pub(in crate::batch) struct KnownLimits {
    pub(super) new_rows: Vec<LimitRow>,
    /// Namespaces whose limits nobody else changes.
    pub(super) own_namespaces: BTreeSet<NamespaceId>,
    pub(super) names: BTreeMap<LimitName, Option<LimitRow>>,
    pub(super) limits: BTreeMap<LimitRow, Option<Arc<Limit>>>,
    /// Limits that nobody else reads.
    pub(super) own: BTreeSet<LimitRow>,
    pub(super) gate_names: BTreeMap<GateName, Option<GateRow>>,
    pub(super) gates: BTreeMap<GateRow, Option<Gate>>,
    pub(super) gate_pages: BTreeMap<GatePage, Page<GateRow>>,
    pub(super) uses: BTreeMap<RowId, BTreeMap<LimitRow, Use>>,
    pub(super) open_uses: BTreeMap<OpenPage, Page<Use>>,
    passages: BTreeMap<(GateRow, u64), Passage>,
    /// From which number up to which one all passages through a gate are known.
    spans: BTreeMap<GateRow, Vec<(u64, u64)>>,
    pub(super) limited: BTreeMap<GateRow, Page<RowId>>,
    pub(super) turns: BTreeMap<TurnName, Option<Turn>>,
    pub(super) trimmed: Option<usize>,
}

/// The first of a list, as many as were asked for or as there are.
pub(super) struct Page<T> {
    pub(super) rows: Vec<T>,
    pub(super) limit: usize,
}

impl<T> Page<T> {
    /// Whether there are no others.
    pub(super) fn is_all(&self) -> bool {
        self.rows.len() < self.limit
    }
}

impl KnownLimits {
    /// The gates that were read.
    pub(in crate::batch) fn gate_rows(&self) -> BTreeSet<GateRow> {
        self.gates.keys().copied().collect()
    }

    /// The passage through a gate that has a number, if that is known.
    pub(super) fn passage(&self, gate: GateRow, number: u64) -> Option<Option<&Passage>> {
        let mut spans = self.spans.get(&gate)?.iter();
        spans.find(|(from, to)| (*from..=*to).contains(&number))?;
        let before = self.passages.range((gate, 0)..=(gate, number)).next_back();
        Some(before.map(|(_, passage)| passage).filter(|passage| number <= passage.last))
    }

    /// Adds what was loaded; `executions` are those that are locked, of which `named` were wanted
    /// by id.
    pub(in crate::batch) fn merge(
        &mut self,
        wants: &mut LimitWants,
        loaded: &mut Loaded,
        executions: &BTreeMap<RowId, Execution>,
        named: &[RowId],
        caches: &mut Caches,
    ) {
        let loaded = &mut loaded.limits;
        self.new_rows.append(&mut loaded.new_rows);
        self.own_namespaces.append(&mut wants.own_namespaces);
        self.merge_limits(wants, loaded, caches);
        self.merge_passages(wants, loaded, caches);
        self.merge_gates(wants, loaded);
        self.merge_uses(wants, loaded, executions, named);
        for (gate, limit) in take(&mut wants.limited) {
            let rows = loaded.limited.remove(&gate).unwrap_or_default();
            self.limited.insert(gate, Page { rows, limit });
        }
        let turns = take(&mut loaded.turns).into_iter();
        let turns = turns.map(|turn| ((turn.lane, turn.priority, turn.key.clone()), turn));
        merge(&mut self.turns, take(&mut wants.turns), turns);
        if wants.trim_gates.is_some() {
            self.trimmed = Some(loaded.trimmed_gates);
        }
    }

    fn merge_limits(
        &mut self,
        wants: &mut LimitWants,
        loaded: &mut LoadedLimits,
        caches: &mut Caches,
    ) {
        for name in &wants.names {
            caches.drop_limit(name);
        }
        self.names.extend(take(&mut wants.names).into_iter().map(absent));
        let rows = take(&mut wants.rows);
        self.limits.extend(rows.into_iter().chain(wants.own.iter().copied()).map(absent));
        for limit in take(&mut loaded.limits) {
            caches.keep_limit(&limit);
            let name = (limit.namespace, limit.sort(), limit.name.clone());
            self.names.insert(name, Some(limit.row));
            self.limits.insert(limit.row, Some(limit));
        }
        // What was read before may have changed until nobody else could.
        self.open_uses.retain(|page, _| !wants.own.contains(&page.0));
        self.gate_pages.retain(|page, _| !wants.own.contains(&page.0));
        self.own.append(&mut wants.own);
    }

    fn merge_gates(&mut self, wants: &mut LimitWants, loaded: &mut LoadedLimits) {
        let names = take(&mut wants.gates).into_iter().chain(take(&mut wants.new_gates));
        self.gate_names.extend(names.map(absent));
        self.gates.extend(take(&mut wants.gate_rows).into_iter().map(absent));
        // What was found otherwise only adds to what comes after the end of a page.
        for ((limit, after), most) in take(&mut wants.gate_pages) {
            let of = loaded.gates.iter().filter(|gate| gate.limit == limit);
            let mut page: Vec<_> = of
                .map(|gate| (gate.key.as_str(), gate.row))
                .filter(|(key, _)| after.as_deref().is_none_or(|after| *key > after))
                .collect();
            page.sort_unstable();
            let rows = page.into_iter().map(|(_, row)| row).take(most).collect();
            self.gate_pages.insert((limit, after), Page { rows, limit: most });
        }
        for gate in take(&mut loaded.gates) {
            let name = (gate.limit, gate.namespace, gate.key.clone());
            self.gate_names.insert(name, Some(gate.row));
            self.gates.insert(gate.row, Some(gate));
        }
    }

    fn merge_uses(
        &mut self,
        wants: &mut LimitWants,
        loaded: &mut LoadedLimits,
        executions: &BTreeMap<RowId, Execution>,
        named: &[RowId],
    ) {
        // What comes along with an execution that was not there to be locked may still change.
        let is_locked = |row: &RowId| executions.contains_key(row);
        let along = named.iter().filter(|_| wants.along);
        for row in take(&mut wants.uses).into_iter().chain(along.copied()).filter(is_locked) {
            self.uses.entry(row).or_default();
        }
        for of in take(&mut loaded.uses) {
            if let Some(uses) = self.uses.get_mut(&of.execution) {
                uses.insert(of.limit, of);
            }
        }
        for (page, limit) in take(&mut wants.open_uses) {
            let rows = loaded.open_uses.remove(&page).unwrap_or_default();
            self.open_uses.insert(page, Page { rows, limit });
        }
    }

    fn merge_passages(
        &mut self,
        wants: &mut LimitWants,
        loaded: &mut LoadedLimits,
        caches: &mut Caches,
    ) {
        let mut pages = take(&mut wants.passages);
        caches.keep_passages(!pages.is_empty());
        if wants.passages_along {
            let by_name = |gate: &&Gate| {
                let name = (gate.limit, gate.namespace, gate.key.clone());
                wants.gates.contains(&name) || wants.new_gates.contains(&name)
            };
            pages.extend(loaded.gates.iter().filter(by_name).map(|gate| (gate.row, 0)));
            pages.extend(wants.gate_rows.iter().map(|row| (*row, 0)));
        }
        let passages = take(&mut loaded.passages).into_iter();
        self.passages.extend(passages.map(|(gate, one)| ((gate, one.first), one)));
        for (gate, number) in pages {
            let from = self.passages.range((gate, 0)..=(gate, number)).next_back();
            let from = from.map_or(number, |(place, _)| place.1);
            let page = self.passages.range((gate, from)..=(gate, u64::MAX));
            let last = page.take(PASSAGES).enumerate().last();
            let to = match last {
                Some((index, (_, last))) if index + 1 == PASSAGES => last.last,
                _ => u64::MAX,
            };
            self.spans.entry(gate).or_default().push((number, to));
        }
    }
}
