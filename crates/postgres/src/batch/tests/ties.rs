//! What ties executions together, in a memory store that serves as the database.

use everloom_core::{Execution, Result, RowId, Transaction, Tx};

use crate::exchange::{Changes, EDGES_ALONG, Loaded, Wants};

pub(super) fn load(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    for (namespace, id) in &wants.flows {
        loaded.flows.extend(tx.flow(*namespace, *id)?);
    }
    for row in &wants.flow_rows {
        loaded.flows.extend(tx.flow_by_row(*row).ok());
    }
    if wants.wants_tied_executions() {
        load_executions(tx, wants, loaded)?;
    }
    for flow in &wants.gates {
        loaded.gates.insert(*flow, tx.is_gated(*flow)?);
    }
    for flow in &wants.member_counts {
        loaded.member_counts.insert(*flow, tx.count_members(*flow)?);
    }
    for (target, bound) in &wants.edges_into {
        loaded.edges_into.insert((*target, *bound), tx.edges_into(*target, *bound)?);
    }
    for (flow, id) in &wants.edge_ids {
        loaded.edges.extend(tx.edge(*flow, *id)?);
    }
    for (source, target) in tx.reach(&wants.reach.iter().copied().collect::<Vec<_>>())? {
        let edges = tx.edges_from(source, None, usize::MAX)?;
        let parallel = edges.iter().filter(|edge| edge.target == target);
        loaded.reach.extend(parallel.map(|edge| (source, target, edge.ordinal)));
    }
    Ok(())
}

fn load_executions(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    let mut along: Vec<Execution> = Vec::new();
    for (namespace, id) in &wants.executions {
        along.extend(tx.find(*namespace, &[*id])?.into_iter().flatten());
    }
    for member in along.iter().filter_map(|execution| execution.member.as_ref()) {
        loaded.flows.push(tx.flow_by_row(member.flow)?);
    }
    for (flow, node) in &wants.nodes {
        along.extend(tx.member(*flow, node)?);
    }
    for row in &wants.rows {
        loaded.executions.extend(tx.execution(*row)?);
    }
    for ((flow, after), limit) in &wants.members {
        loaded.executions.extend(tx.members(*flow, after.as_deref(), *limit)?);
    }
    for ((parent, after), limit) in &wants.children {
        loaded.executions.extend(tx.children(*parent, *after, *limit)?);
    }
    for row in &wants.joins {
        load_waiting(tx, *row, loaded)?;
    }
    for execution in along {
        let page = (execution.row, None);
        let limit = wants.edges_from.get(&page).copied().unwrap_or(0).max(EDGES_ALONG);
        load_edges_from(tx, page, limit, loaded)?;
        load_waiting(tx, execution.row, loaded)?;
        loaded.with_ties.push(execution.row);
    }
    for (page, limit) in &wants.edges_from {
        load_edges_from(tx, *page, *limit, loaded)?;
    }
    Ok(())
}

fn load_edges_from(
    tx: &mut dyn Transaction,
    page: (RowId, Option<RowId>),
    limit: usize,
    loaded: &mut Loaded,
) -> Result<()> {
    let edges = tx.edges_from(page.0, page.1, limit)?;
    for edge in &edges {
        load_waiting(tx, edge.target, loaded)?;
    }
    loaded.edges_from.insert(page, (edges, limit));
    Ok(())
}

fn load_waiting(tx: &mut dyn Transaction, row: RowId, loaded: &mut Loaded) -> Result<()> {
    let Some(execution) = tx.execution(row)? else { return Ok(()) };
    if let Some(member) = &execution.member {
        loaded.gates.insert(member.flow, tx.is_gated(member.flow)?);
    }
    loaded.executions.push(execution);
    loaded.joins.extend(tx.join(row)?);
    Ok(())
}

/// What comes along with a claimable execution.
pub(super) fn load_claimed(
    tx: &mut dyn Transaction,
    execution: &Execution,
    loaded: &mut Loaded,
) -> Result<()> {
    let bound = tx.edges_into(execution.row, true)?;
    loaded.edges_into.insert((execution.row, true), bound);
    if let Some(member) = &execution.member {
        loaded.gates.insert(member.flow, tx.is_gated(member.flow)?);
    }
    Ok(())
}

pub(super) fn write(tx: &mut dyn Tx, changes: &Changes) -> Result<()> {
    for row in &changes.removed_flows {
        let flow = tx.flow_by_row(*row)?;
        tx.remove_flow(&flow)?;
    }
    for flow in &changes.new_flows {
        tx.insert_flow(flow)?;
    }
    for flow in &changes.flows {
        tx.save_flow(flow)?;
    }
    for (source, target, ordinal) in &changes.dropped_edges {
        let edges = tx.edges_from(*source, None, usize::MAX)?;
        let same = edges.iter().find(|edge| (edge.target, edge.ordinal) == (*target, *ordinal));
        same.map_or(Ok(()), |edge| tx.drop_edge(edge))?;
    }
    for edge in &changes.edges {
        tx.drop_edge(edge)?;
        tx.add_edge(edge)?;
    }
    for join in &changes.joins {
        tx.put_join(join)?;
    }
    Ok(())
}
