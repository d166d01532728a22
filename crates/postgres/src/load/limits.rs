//! Budgets and quotas, their gates, and what waits before these.

use std::collections::BTreeSet;

use everloom_core::{GateRow, LimitRow, RowId, State, Turn};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Locks;
use crate::error::Result;
use crate::exchange::{GateName, LimitWants, Loaded, PASSAGES, TurnName, Wants};
use crate::link::{Param, params};
use crate::round::Round;
use crate::rows::{
    Columns, all, code, executions, gates, integer, limit, limits, passages, turns, uses,
};
use crate::sql;
use crate::text;

/// Locks limits and gates, also those of executions that are about to be locked.
pub(super) fn ask_gates(round: &mut Round<'_, Loaded>, wants: &Wants, locks: Locks) {
    trim(round, &wants.limits);
    ask_limits(round, wants, locks);
    let limits = &wants.limits;
    if !limits.new_gates.is_empty() {
        round.ask(sql::gates::ADD, names(limits.new_gates.iter()), |_, _| Ok(()));
    }
    let (namespaces, ids) = along(wants);
    let by_name: BTreeSet<&GateName> = limits.gates.union(&limits.new_gates).collect();
    let nothing = by_name.is_empty() && limits.gate_rows.is_empty() && ids.is_empty();
    if nothing && limits.uses.is_empty() && limits.gate_pages.is_empty() {
        return;
    }
    let pages = &limits.gate_pages;
    let of: Vec<i64> = pages.keys().map(|(limit, _)| limit.0).collect();
    let from: Vec<String> = pages.keys().map(|(_, after)| text::from(after.as_deref())).collect();
    let most: Vec<i64> = pages.values().map(|most| limit(*most)).collect();
    let mut params = names(by_name.iter().copied());
    params.extend(params![rows(&limits.gate_rows), namespaces, ids]);
    params.extend(params![execution_rows(&limits.uses), of, from, most]);
    let sql = locks.pick(sql::gates::LOCK, sql::gates::LOCK_NOWAIT, sql::gates::FIND);
    round.ask(sql, params, |rows, loaded| {
        loaded.limits.gates = all(rows, gates::from_row)?;
        Ok(())
    });
    if limits.passages_along {
        let mut params = names(by_name.iter().copied());
        params.extend(params![rows(&limits.gate_rows), limit(PASSAGES)]);
        round.ask(sql::passages::ALONG, params, keep_passages);
    }
}

/// What is only looked at, because something else is locked; what waits before gates, which are; and
/// turns.
pub(super) fn ask(round: &mut Round<'_, Loaded>, wants: &Wants, locks: Locks) {
    ask_uses(round, wants);
    let wants = &wants.limits;
    if !wants.passages.is_empty() {
        let (gates, numbers): (Vec<i64>, Vec<i64>) =
            wants.passages.iter().map(|(gate, number)| (gate.0, integer(*number))).unzip();
        let most = vec![limit(PASSAGES); gates.len()];
        round.ask(sql::passages::PAGES, params![gates, numbers, most], keep_passages);
    }
    if !wants.limited.is_empty() {
        let gates: Vec<i64> = wants.limited.keys().map(|gate| gate.0).collect();
        let most: Vec<i64> = wants.limited.values().map(|most| limit(*most)).collect();
        let sql = locks.pick(
            sql::executions::LOCK_LIMITED,
            sql::executions::LOCK_LIMITED_NOWAIT,
            sql::executions::LIMITED,
        );
        round.ask(sql, params![gates, most], keep_limited);
    }
    ask_turns(round, &wants.turns, locks);
    if wants.new_rows > 0 {
        round.ask(sql::limits::NEW_ROWS, params![limit(wants.new_rows)], |rows, loaded| {
            loaded.limits.new_rows = all(rows, |row| Columns::of(row).take().map(LimitRow))?;
            Ok(())
        });
    }
}

/// Executions that bring along what they have of limits.
fn along(wants: &Wants) -> (Vec<i64>, Vec<Uuid>) {
    let along = wants.executions.iter().filter(|_| wants.limits.along);
    along.map(|(namespace, id)| (namespace.0, id.0)).unzip()
}

fn rows(rows: &BTreeSet<GateRow>) -> Vec<i64> {
    rows.iter().map(|row| row.0).collect()
}

fn execution_rows(rows: &BTreeSet<RowId>) -> Vec<i64> {
    rows.iter().map(|row| row.0).collect()
}

fn names<'a>(names: impl Iterator<Item = &'a GateName> + Clone) -> Vec<Param> {
    let namespaces: Vec<i64> = names.clone().map(|(_, namespace, _)| namespace.0).collect();
    let limits: Vec<i64> = names.clone().map(|(limit, ..)| limit.0).collect();
    let keys: Vec<String> = names.map(|(.., key)| key.clone()).collect();
    params![namespaces, limits, keys]
}

fn ask_limits(round: &mut Round<'_, Loaded>, wants: &Wants, locks: Locks) {
    let limits = &wants.limits;
    if !limits.own.is_empty() {
        let own: Vec<i64> = limits.own.iter().map(|row| row.0).collect();
        let sql = locks.pick(sql::limits::LOCK, sql::limits::LOCK_NOWAIT, sql::limits::BY_ROW);
        round.ask(sql, params![own], keep_limits);
    }
    let (namespaces, ids) = along(wants);
    // The gates by name are of limits that were asked for before.
    let by_row: BTreeSet<LimitRow> =
        limits.gate_pages.keys().map(|(limit, _)| *limit).chain(limits.rows.clone()).collect();
    let nothing = limits.names.is_empty() && by_row.is_empty() && ids.is_empty();
    if nothing && limits.gate_rows.is_empty() && limits.uses.is_empty() {
        return;
    }
    let of: Vec<i64> = limits.names.iter().map(|(namespace, ..)| namespace.0).collect();
    let sorts: Vec<i32> = limits.names.iter().map(|(_, sort, _)| code(sort.code())).collect();
    let names: Vec<String> = limits.names.iter().map(|(.., name)| name.clone()).collect();
    let by_row: Vec<i64> = by_row.iter().map(|row| row.0).collect();
    let mut params = params![of, sorts, names, by_row, rows(&limits.gate_rows)];
    params.extend(params![namespaces, ids, execution_rows(&limits.uses)]);
    let sql = locks.pick(sql::limits::SHARE, sql::limits::SHARE_NOWAIT, sql::limits::KEEP);
    round.ask(sql, params, keep_limits);
}

fn keep_limits(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    loaded.limits.limits.extend(all(rows, limits::from_row)?);
    Ok(())
}

fn keep_passages(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    loaded.limits.passages.extend(all(rows, passages::from_row)?);
    Ok(())
}

fn ask_uses(round: &mut Round<'_, Loaded>, wants: &Wants) {
    let (namespaces, ids) = along(wants);
    let wants = &wants.limits;
    if !ids.is_empty() || !wants.uses.is_empty() {
        let params = params![namespaces, ids, execution_rows(&wants.uses)];
        round.ask(sql::uses::OF, params, |rows, loaded| {
            loaded.limits.uses = all(rows, uses::from_row)?;
            Ok(())
        });
    }
    // Each limit is asked about once or twice, so that pages need not travel together.
    for ((of, after), most) in &wants.open_uses {
        let from = after.map_or(i64::MIN, |row| row.0);
        let params = params![vec![of.0], vec![from], vec![limit(*most)]];
        let page = (*of, *after);
        round.ask(sql::uses::OPEN, params, move |rows, loaded| {
            loaded.limits.open_uses.insert(page, all(rows, uses::from_row)?);
            Ok(())
        });
    }
}

/// In the order of claims, by lane and route.
fn keep_limited(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    let mut found = all(rows, executions::from_row)?;
    found.sort_by_key(executions::place);
    for execution in found {
        if let State::Limited(limited) = &execution.state {
            loaded.limits.limited.entry(limited.gate).or_default().push(execution.row);
        }
        loaded.executions.push(execution);
    }
    Ok(())
}

/// How far lanes have come is read without a lock: every claim moves that on, and nothing is lost
/// if it is a little behind.
fn ask_turns(round: &mut Round<'_, Loaded>, wanted: &BTreeSet<TurnName>, locks: Locks) {
    let (lanes, keys): (Vec<_>, Vec<_>) =
        wanted.iter().partition(|(.., key)| key.as_str() == Turn::NOW);
    let lock = locks.pick(sql::turns::LOCK, sql::turns::LOCK_NOWAIT, sql::turns::FIND);
    for (sql, names) in [(sql::turns::FIND, lanes), (lock, keys)] {
        if !names.is_empty() {
            let lanes: Vec<i64> = names.iter().map(|(lane, ..)| lane.0).collect();
            let priorities: Vec<i32> = names.iter().map(|(_, priority, _)| *priority).collect();
            let keys: Vec<String> = names.iter().map(|(.., key)| key.clone()).collect();
            round.ask(sql, params![lanes, priorities, keys], |rows, loaded| {
                loaded.limits.turns.extend(all(rows, turns::from_row)?);
                Ok(())
            });
        }
    }
}

/// Before gates are read, so that none is read and gone.
fn trim(round: &mut Round<'_, Loaded>, wants: &LimitWants) {
    if let Some((by, most)) = wants.trim_gates {
        let params = params![by.as_millis(), limit(most), rows(&wants.spared)];
        round.ask(sql::gates::TRIM, params, |rows, loaded| {
            loaded.limits.trimmed_gates = rows.len();
            Ok(())
        });
    }
}
