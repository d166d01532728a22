//! Budgets and quotas in a memory store that serves as the database.

use std::collections::BTreeSet;

use everloom_core::{Gate, GateRow, LimitRow, Result, RowId, State, Timestamp, Transaction, Tx};

use crate::exchange::{Changes, Loaded, PASSAGES, Wants};

pub(super) fn load(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    let mut rows: BTreeSet<GateRow> = wants.limits.gate_rows.clone();
    let mut limits: BTreeSet<LimitRow> = &wants.limits.rows | &wants.limits.own;
    let mut users: BTreeSet<RowId> = wants.limits.uses.clone();
    for (namespace, id) in wants.executions.iter().filter(|_| wants.limits.along) {
        for execution in tx.find(*namespace, &[*id])?.into_iter().flatten() {
            users.insert(execution.row);
            if let State::Limited(limited) = &execution.state {
                rows.insert(limited.gate);
            }
            if let Some(key) = &execution.policy.concurrency_key {
                let gate = tx.find_gate(*namespace, LimitRow::KEYS, &key.key)?;
                rows.extend(gate.map(|gate| gate.row));
            }
        }
    }
    for row in users {
        let uses = tx.uses(row)?;
        rows.extend(uses.iter().filter_map(|of| of.gate));
        limits.extend(uses.iter().map(|of| of.limit));
        loaded.limits.uses.extend(uses);
    }
    load_gates(tx, wants, rows, &mut limits, loaded)?;
    for (namespace, sort, name) in &wants.limits.names {
        loaded.limits.limits.extend(tx.limit(*namespace, *sort, name)?);
    }
    for row in limits.into_iter().filter(|row| *row != LimitRow::KEYS) {
        loaded.limits.limits.extend(tx.limit_by_row(row).ok());
    }
    load_lists(tx, wants, loaded)
}

fn load_gates(
    tx: &mut dyn Transaction,
    wants: &Wants,
    rows: BTreeSet<GateRow>,
    limits: &mut BTreeSet<LimitRow>,
    loaded: &mut Loaded,
) -> Result<()> {
    let wants = &wants.limits;
    let loaded = &mut loaded.limits;
    for (limit, namespace, key) in &wants.gates {
        loaded.gates.extend(tx.find_gate(*namespace, *limit, key)?);
    }
    for (limit, namespace, key) in &wants.new_gates {
        loaded.gates.push(tx.gate(*namespace, *limit, key)?);
    }
    for ((limit, after), most) in &wants.gate_pages {
        loaded.gates.extend(tx.gates(*limit, after.as_deref(), *most)?);
    }
    for row in rows {
        loaded.gates.extend(tx.gate_by_row(row)?);
    }
    loaded.gates.sort_by_key(|gate| gate.row);
    loaded.gates.dedup_by_key(|gate| gate.row);
    limits.extend(loaded.gates.iter().map(|gate| gate.limit));
    let along = loaded.gates.iter().filter(|_| wants.passages_along);
    let pages: Vec<_> = along.map(|gate| (gate.row, 0)).chain(wants.passages.clone()).collect();
    for (gate, number) in pages {
        let Some(passed) = tx.gate_by_row(gate)?.map(|gate| gate.course.passed) else { continue };
        let mut next = number;
        for _ in 0..PASSAGES {
            let mut numbers = next..=passed;
            let Some(found) = numbers.find_map(|number| tx.passage(gate, number).transpose())
            else {
                break;
            };
            let passage = found?;
            next = passage.last + 1;
            loaded.passages.push((gate, passage));
        }
    }
    Ok(())
}

fn load_lists(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    let wants = &wants.limits;
    for _ in 0..wants.new_rows {
        loaded.limits.new_rows.push(tx.new_limit_row()?);
    }
    for ((limit, after), most) in &wants.open_uses {
        let uses = tx.open_uses(*limit, *after, *most)?;
        loaded.limits.open_uses.insert((*limit, *after), uses);
    }
    for (gate, each) in &wants.limited {
        let found = tx.limited(*gate, *each)?;
        let rows = found.iter().map(|execution| execution.row).collect();
        loaded.limits.limited.insert(*gate, rows);
        loaded.executions.extend(found);
    }
    for (lane, priority, key) in &wants.turns {
        loaded.limits.turns.extend(tx.turn(*lane, *priority, key)?);
    }
    Ok(())
}

/// Spares what was read, as the database does.
pub(super) fn trim(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    let Some((by, limit)) = wants.limits.trim_gates else { return Ok(()) };
    let mut spared = Vec::new();
    for row in &wants.limits.spared {
        let Some(gate) = tx.gate_by_row(*row)? else { continue };
        let mut kept = gate.clone();
        kept.idle_at = None;
        tx.save_gate(&kept)?;
        spared.push(gate);
    }
    loaded.limits.trimmed_gates = tx.trim_gates(by, limit)?;
    for gate in spared {
        tx.save_gate(&gate)?;
    }
    Ok(())
}

pub(super) fn write(tx: &mut dyn Tx, changes: &Changes) -> Result<()> {
    for execution in &changes.repolicied {
        tx.save_policy(execution)?;
    }
    for flow in &changes.reworded_flows {
        tx.save_terms(flow)?;
    }
    let changes = &changes.limits;
    for (namespace, limits) in &changes.namespaces {
        tx.save_limits(*namespace, limits)?;
    }
    for limit in &changes.dropped {
        tx.drop_limit(limit)?;
    }
    for limit in &changes.limits {
        tx.put_limit(limit)?;
    }
    for gate in &changes.gates {
        tx.save_gate(gate)?;
    }
    // Before all that is idle by itself.
    let first = Timestamp::from_millis(-1);
    for row in &changes.dropped_gates {
        let gate = tx.gate_by_row(*row)?.expect("it was read");
        tx.save_gate(&Gate { idle_at: Some(first), ..gate })?;
    }
    assert_eq!(tx.trim_gates(first, usize::MAX)?, changes.dropped_gates.len());
    for (gate, through) in &changes.dropped_passages {
        tx.drop_passages(*gate, *through)?;
    }
    for (gate, passage) in &changes.passages {
        tx.put_passage(*gate, passage)?;
    }
    for (execution, limit) in &changes.dropped_uses {
        tx.drop_use(*execution, *limit)?;
    }
    for of in &changes.uses {
        tx.put_use(of)?;
    }
    for turn in changes.new_turns.iter().chain(&changes.turns) {
        tx.put_turn(turn)?;
    }
    for past in &changes.past_turns {
        tx.drop_turns(past.lane, past.priority, past.before, past.limit)?;
    }
    Ok(())
}
