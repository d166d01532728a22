//! What ties executions together: flows, edges, joins, and executions that are found through them.

use everloom_core::{FlowRow, RowId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Locks;
use crate::error::Result;
use crate::exchange::{EDGES_ALONG, Loaded, Wants};
use crate::link::{Param, params};
use crate::round::Round;
use crate::rows::{Columns, all, edges, executions, flows, joins, limit, members};
use crate::sql;

/// Before every target.
const FIRST: i64 = i64::MIN;

/// Locks flows, also those of executions that are about to be locked.
pub(super) fn ask_flows(round: &mut Round<'_, Loaded>, wants: &Wants, locks: Locks) {
    let along = wants.wants_tied_executions() && !wants.executions.is_empty();
    if along || !wants.flow_rows.is_empty() || !wants.flows.is_empty() {
        let of = wants.executions.iter().filter(|_| along);
        let (namespaces, executions): (Vec<i64>, Vec<Uuid>) =
            of.map(|(namespace, id)| (namespace.0, id.0)).unzip();
        let rows: Vec<i64> = wants.flow_rows.iter().map(|row| row.0).collect();
        let (of, ids): (Vec<i64>, Vec<Uuid>) =
            wants.flows.iter().map(|(namespace, id)| (namespace.0, id.0)).unzip();
        let sql = locks.pick(sql::flows::LOCK, sql::flows::LOCK_NOWAIT, sql::flows::FIND);
        round.ask(sql, params![namespaces, executions, rows, of, ids], |rows, loaded| {
            loaded.flows = all(rows, flows::from_row)?;
            Ok(())
        });
    }
    if wants.new_flow_rows > 0 {
        round.ask(sql::flows::NEW_ROWS, params![limit(wants.new_flow_rows)], |rows, loaded| {
            loaded.new_flow_rows = all(rows, |row| Columns::of(row).take().map(FlowRow))?;
            Ok(())
        });
    }
}

/// Executions by id and by name whose edges come along, and others whose edges are wanted.
fn sources(wants: &Wants) -> Vec<Param> {
    let (namespaces, ids): (Vec<i64>, Vec<Uuid>) =
        wants.executions.iter().map(|(namespace, id)| (namespace.0, id.0)).unzip();
    let (flows, nodes): (Vec<i64>, Vec<String>) =
        wants.nodes.iter().map(|(flow, node)| (flow.0, node.clone())).unzip();
    let sources: Vec<i64> = wants.edges_from.keys().map(|(source, _)| source.0).collect();
    let after = |after: &Option<RowId>| after.map_or(FIRST, |row| row.0);
    let afters: Vec<i64> = wants.edges_from.keys().map(|(_, row)| after(row)).collect();
    let limits: Vec<i64> = wants.edges_from.values().map(|most| limit(*most)).collect();
    let along = limit(EDGES_ALONG);
    params![namespaces, ids, flows, nodes, FIRST, along, sources, afters, limits]
}

/// Locks executions however they are found, all of them in the order of their rows, and then asks
/// for what they wait for and what waits for them.
pub(super) fn ask_tied(round: &mut Round<'_, Loaded>, wants: &Wants, locks: Locks) {
    let rows = |rows: &std::collections::BTreeSet<RowId>| -> Vec<i64> {
        rows.iter().map(|row| row.0).collect()
    };
    // Many may look at one that is over, unless its turn comes in the order of the rows.
    let shares = locks == Locks::Try && !wants.rows.is_empty();
    let mut params = sources(wants);
    params.extend(params![rows(&wants.rows), !shares]);
    params.extend(pages(wants));
    params.extend(params![rows(&wants.joins)]);
    let sql = locks.pick(sql::members::LOCK, sql::members::LOCK_NOWAIT, sql::members::FIND);
    round.ask(sql, params, |rows, loaded| {
        for (execution, gate) in all(rows, executions::gated_from_row)? {
            let flow = execution.member.as_ref().map(|member| member.flow);
            loaded.gates.extend(flow.zip(gate));
            loaded.executions.push(execution);
        }
        Ok(())
    });
    if shares {
        let sql = sql::members::SHARE_BY_ROW_NOWAIT;
        round.ask(sql, params![rows(&wants.rows)], |rows, loaded| {
            super::keep_executions(rows, loaded).map(drop)
        });
    }
    ask_edges_from(round, wants);
    let mut params = sources(wants);
    params.extend(params![rows(&wants.joins)]);
    round.ask(sql::joins::FIND, params, |rows, loaded| {
        loaded.joins = all(rows, joins::from_row)?;
        Ok(())
    });
}

fn pages(wants: &Wants) -> Vec<Param> {
    let flows: Vec<i64> = wants.members.keys().map(|(flow, _)| flow.0).collect();
    let afters: Vec<String> =
        wants.members.keys().map(|(_, after)| after.clone().unwrap_or_default()).collect();
    let limits: Vec<i64> = wants.members.values().map(|most| limit(*most)).collect();
    let parents: Vec<i64> = wants.children.keys().map(|(parent, _)| parent.0).collect();
    let children: Vec<i64> =
        wants.children.keys().map(|(_, after)| after.map_or(FIRST, |row| row.0)).collect();
    let most: Vec<i64> = wants.children.values().map(|most| limit(*most)).collect();
    params![flows, afters, limits, parents, children, most]
}

fn ask_edges_from(round: &mut Round<'_, Loaded>, wants: &Wants) {
    let pages = wants.edges_from.clone();
    let (ids, nodes) = (wants.executions.clone(), wants.nodes.clone());
    round.ask(sql::edges::FROM, sources(wants), move |rows, loaded| {
        let is_named = |execution: &&everloom_core::Execution| {
            let member = execution.member.as_ref();
            ids.contains(&(execution.namespace, execution.id))
                || member.is_some_and(|member| nodes.contains(&(member.flow, member.node.clone())))
        };
        let named = loaded.executions.iter().filter(is_named);
        loaded.with_ties = named.map(|execution| execution.row).collect();
        let along = loaded.with_ties.iter().map(|row| ((*row, None), EDGES_ALONG));
        for (page, most) in along.chain(pages) {
            let (_, limit) = loaded.edges_from.entry(page).or_default();
            *limit = most.max(*limit);
        }
        for (edge, after) in all(rows, edges::paged_from_row)? {
            let page = (edge.source, (after != FIRST).then_some(RowId(after)));
            if let Some((edges, _)) = loaded.edges_from.get_mut(&page) {
                edges.push(edge);
            }
        }
        Ok(())
    });
}

/// What is only looked at: it changes while something else is locked, or not to anyone's harm.
pub(super) fn ask_around(round: &mut Round<'_, Loaded>, wants: &Wants) {
    if !wants.edges_into.is_empty() {
        let (targets, bound): (Vec<i64>, Vec<bool>) =
            wants.edges_into.iter().map(|(target, bound)| (target.0, *bound)).unzip();
        round.ask(sql::edges::INTO, params![targets, bound], |rows, loaded| {
            for (edge, bound) in all(rows, edges::into_from_row)? {
                loaded.edges_into.entry((edge.target, bound)).or_default().push(edge);
            }
            Ok(())
        });
    }
    if !wants.edge_ids.is_empty() {
        let (flows, ids): (Vec<i64>, Vec<Uuid>) =
            wants.edge_ids.iter().map(|(flow, id)| (flow.0, id.0)).unzip();
        round.ask(sql::edges::BY_UUID, params![flows, ids], |rows, loaded| {
            loaded.edges = all(rows, edges::from_row)?;
            Ok(())
        });
    }
    if !wants.reach.is_empty() {
        let from: Vec<i64> = wants.reach.iter().map(|row| row.0).collect();
        round.ask(sql::edges::REACH, params![from], |rows, loaded| {
            loaded.reach = all(rows, edges::place_from_row)?;
            Ok(())
        });
    }
    if !wants.gates.is_empty() {
        let flows: Vec<i64> = wants.gates.iter().map(|row| row.0).collect();
        round.ask(sql::flows::GATES, params![flows], keep_gates);
    }
    if !wants.member_counts.is_empty() {
        let flows: Vec<i64> = wants.member_counts.iter().map(|row| row.0).collect();
        round.ask(sql::members::COUNT, params![flows], |rows, loaded| {
            for (flow, count) in all(rows, members::count_from_row)? {
                loaded.member_counts.entry(flow).or_default().push(count);
            }
            Ok(())
        });
    }
}

fn keep_gates(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    let gate = |row: &Row| -> Result<_> { Ok((FlowRow(row.try_get(0)?), row.try_get(1)?)) };
    loaded.gates.extend(all(rows, gate)?);
    Ok(())
}
