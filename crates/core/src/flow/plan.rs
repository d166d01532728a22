//! Nodes and edges to put into a flow, and everything that can be wrong with them there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::graph::{NewEdge, NewNode, Upstream, check_nodes, find_cycle, tell_cycle};
use crate::command::Context;
use crate::limit::check_named;
use crate::model::{Check, Code, Error, Execution, Flow, Limits, Namespace, Result, RowId, State};
use crate::store::Read;
use crate::submit::{Refusals, check_routes, may_enter};

/// Nodes and edges to put into a flow, checked, with the members they name.
pub(super) struct Plan<'a> {
    pub(super) nodes: &'a [NewNode],
    pub(super) edges: &'a [NewEdge],
    /// Members that are in the flow already, by name and in a fixed order.
    pub(super) known: BTreeMap<String, Execution>,
}

impl<'a> Plan<'a> {
    /// Checks everything, and finds what is named and in the flow already.
    pub(super) fn check(
        read: &mut dyn Read,
        cx: &Context,
        namespace: Option<&Namespace>,
        flow: Option<&Flow>,
        nodes: &'a [NewNode],
        edges: &'a [NewEdge],
        mut check: Check,
    ) -> Result<Self> {
        let known = match flow {
            Some(flow) => find_members(read, flow, nodes, edges)?,
            None => BTreeMap::new(),
        };
        check_nodes(&mut check, nodes, &|name| known.contains_key(name));
        let bytes = nodes.iter().map(|node| node.execution.input.bytes.len()).sum();
        check.bytes("nodes", bytes, cx.limits().batch_bytes);
        for (index, node) in nodes.iter().enumerate().take(Limits::FLOW_NODES) {
            check.part("nodes", index, "execution");
            node.execution.check(&mut check, cx.limits());
        }
        let plan = Self { nodes, edges, known };
        plan.check_edges(&mut check);
        plan.check_targets(read, &mut check)?;
        plan.check_ids(&mut check);
        check.whole();
        let size = flow.map_or(0, |flow| flow.counts.nodes) as usize + nodes.len();
        check.at_most("nodes", size, Limits::FLOW_SIZE);
        if let Some(cycle) = plan.find_cycle(read)? {
            match check.is_clean() {
                true => return Err(cycle),
                false => check.violate(Code::Cycle, "nodes", cycle.message().to_owned()),
            }
        }
        check.finish()?;
        if let Some(flow) = flow {
            // An open flow without members does not keep what it names from being removed.
            check_named(read, namespace, &flow.terms.policy, "flow.policy.")?;
        }
        plan.refuse_entry(read, cx, namespace)?;
        Ok(plan)
    }

    fn check_edges(&self, check: &mut Check) {
        let new: BTreeSet<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        let exists = |name: &str| new.contains(name) || self.known.contains_key(name);
        check.whole();
        let edges = self.edges.len() + self.waits().count();
        if !self.edges.is_empty() {
            check.at_most("edges", edges, Limits::FLOW_EDGES);
        }
        for (index, edge) in self.edges.iter().enumerate().take(Limits::FLOW_EDGES) {
            check.item("edges", index);
            for (field, name) in [("from", &edge.from), ("to", &edge.to)] {
                check.that(exists(name), field, || {
                    format!("there is no node `{}` in the flow", name.escape_debug())
                });
            }
            if edge.from == edge.to {
                let what = format!("`{}` can not wait for itself", edge.from);
                check.violate(Code::SelfEdge, "to", what);
            }
            if let Some(bind) = &edge.bind {
                check.name("bind", bind);
            }
            if let Some(target) = self.known.get(&edge.to)
                && let Err(error) = expect_unstarted(target)
            {
                check.violate(error.code(), "to", error.message().to_owned());
            }
        }
    }

    /// What the new nodes say they wait for.
    fn waits(&self) -> impl Iterator<Item = (&NewNode, &Upstream)> {
        self.nodes.iter().flat_map(|node| {
            node.after.iter().flat_map(|after| &after.of).map(move |upstream| (node, upstream))
        })
    }

    /// Checks what the new edges make of the joins they go into.
    fn check_targets(&self, read: &mut dyn Read, check: &mut Check) -> Result<()> {
        let mut into = BTreeMap::<&str, Vec<(usize, &NewEdge)>>::new();
        for (index, edge) in self.edges.iter().enumerate().take(Limits::FLOW_EDGES) {
            into.entry(&edge.to).or_default().push((index, edge));
        }
        let new: HashMap<&str, &NewNode> =
            self.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let names: HashMap<RowId, &String> =
            self.known.iter().map(|(name, known)| (known.row, name)).collect();
        for (to, edges) in into {
            let mut between = HashMap::<String, usize>::new();
            let mut bound = BTreeSet::<String>::new();
            let after = new.get(to).and_then(|node| node.after.as_ref());
            for upstream in after.iter().flat_map(|after| &after.of) {
                *between.entry(upstream.node.clone()).or_default() += 1;
                bound.extend(upstream.bind.clone());
            }
            if let Some(target) = self.known.get(to) {
                for edge in read.edges_into(target.row, false)? {
                    let source = names.get(&edge.source).map(|name| (*name).clone());
                    let source = source.unwrap_or_else(|| format!("#{}", edge.source.0));
                    *between.entry(source).or_default() += 1;
                    bound.extend(edge.bind);
                }
            }
            for (index, edge) in edges {
                check.item("edges", index);
                let parallel = between.entry(edge.from.clone()).or_default();
                *parallel += 1;
                check.at_most("from", *parallel, Limits::PARALLEL_EDGES);
                check.at_most("to", between.len(), Limits::FAN_IN);
                if let Some(bind) = &edge.bind {
                    check.that(bound.insert(bind.clone()), "bind", || {
                        format!("`{bind}` is bound already")
                    });
                }
            }
        }
        Ok(())
    }

    fn check_ids(&self, check: &mut Check) {
        let mut ids = HashMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(id) = node.execution.id
                && let Some(first) = ids.insert(id, index)
            {
                check.item("nodes", index);
                let what = format!("{id} is the id of nodes[{first}] too");
                check.violate(Code::InvalidInput, "execution.id", what);
            }
        }
    }

    /// A circle of nodes that would wait for each other. Only an edge into a node that is there
    /// already can close one through the old graph.
    fn find_cycle(&self, read: &mut dyn Read) -> Result<Option<Error>> {
        let mut places = HashMap::new();
        let mut names: Vec<String> = Vec::new();
        for node in self.nodes {
            places.insert(node.name.clone(), names.len());
            names.push(node.name.clone());
        }
        let mut rows = HashMap::new();
        for (name, execution) in &self.known {
            rows.insert(execution.row, names.len());
            places.insert(name.clone(), names.len());
            names.push(name.clone());
        }
        let mut pairs = Vec::new();
        let waits = self.waits().map(|(node, upstream)| (&upstream.node, &node.name));
        let edges = self.edges.iter().map(|edge| (&edge.from, &edge.to));
        for (from, to) in waits.chain(edges).filter(|(from, to)| from != to) {
            // What names nobody is a violation of its own.
            if let (Some(from), Some(to)) = (places.get(from), places.get(to)) {
                pairs.push((*from, *to));
            }
        }
        let into_old = self.edges.iter().filter_map(|edge| self.known.get(&edge.to));
        let into_old: BTreeSet<RowId> = into_old.map(|target| target.row).collect();
        let into_old: Vec<RowId> = into_old.into_iter().collect();
        let old = if into_old.is_empty() { vec![] } else { read.reach(&into_old)? };
        let mut unnamed = BTreeMap::new();
        let mut place = |row: RowId| {
            *rows.entry(row).or_insert_with(|| {
                names.push(String::new());
                unnamed.insert(names.len() - 1, row);
                names.len() - 1
            })
        };
        let old: Vec<_> = old.into_iter().map(|(from, to)| (place(from), place(to))).collect();
        pairs.extend(old);
        let Some(cycle) = find_cycle(names.len(), &pairs) else { return Ok(None) };
        for node in &cycle {
            if let Some(row) = unnamed.get(node)
                && let Some(execution) = read.execution(*row)?
                && let Some(member) = &execution.member
            {
                names[*node] = member.node.clone();
            }
        }
        let cycle: Vec<&str> = cycle.iter().map(|node| names[*node].as_str()).collect();
        let told = format!("these nodes would wait for each other: {}", tell_cycle(&cycle));
        let details = serde_json::json!({ "cycle": cycle });
        Ok(Some(Error::new(Code::Cycle, told).with_details(details)))
    }

    fn refuse_entry(
        &self,
        read: &mut dyn Read,
        cx: &Context,
        namespace: Option<&Namespace>,
    ) -> Result<()> {
        let mut refusals = Refusals::of("nodes").within("execution.");
        for (index, node) in self.nodes.iter().enumerate() {
            if let Err(error) = may_enter(read, cx, namespace, &node.execution) {
                refusals.add(index, error)?;
            }
            if let (Some(namespace), Some(id)) = (namespace, node.execution.id)
                && read.find(namespace.id, &[id])?.pop().flatten().is_some()
            {
                refusals.add(index, crate::submit::used_otherwise("id", &id.to_string()))?;
            }
        }
        refusals.finish()?;
        let items: Vec<_> = self.nodes.iter().map(|node| &node.execution).collect();
        check_routes(read, namespace, &items, "nodes")
    }

    /// How many edges there are.
    pub(super) fn edge_count(&self) -> u64 {
        let after = self.nodes.iter().filter_map(|node| node.after.as_ref());
        (after.map(|after| after.of.len()).sum::<usize>() + self.edges.len()) as u64
    }
}

fn find_members(
    read: &mut dyn Read,
    flow: &Flow,
    nodes: &[NewNode],
    edges: &[NewEdge],
) -> Result<BTreeMap<String, Execution>> {
    let mut names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    for after in nodes.iter().filter_map(|node| node.after.as_ref()) {
        names.extend(after.of.iter().map(|upstream| upstream.node.as_str()));
    }
    names.extend(edges.iter().flat_map(|edge| [edge.from.as_str(), edge.to.as_str()]));
    let mut known = BTreeMap::new();
    for name in names {
        if let Some(execution) = read.member(flow.row, name)? {
            known.insert(name.to_owned(), execution);
        }
    }
    Ok(known)
}

/// Refuses to let something wait that may have begun.
pub(super) fn expect_unstarted(execution: &Execution) -> Result<()> {
    let waits = matches!(
        execution.state,
        State::Waiting | State::Delayed(_) | State::WaitingChildren(_) | State::Limited(_)
    );
    if waits && execution.started_at.is_none() {
        return Ok(());
    }
    let node = execution.member.as_ref().map_or_else(String::new, |m| format!("`{}` ", m.node));
    Err(Error::new(
        Code::WrongState,
        format!(
            "{node}({}) is {} and has started or ended; only what has not can be made to wait",
            execution.id,
            execution.status()
        ),
    ))
}
