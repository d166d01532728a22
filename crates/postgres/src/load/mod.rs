//! Everything a round of commands wants, as statements for one round trip.
//!
//! Locks are taken in a fixed order: lanes, limits, gates, flows, executions in the order of their rows,
//! workers, chores, signing keys, what waits before gates, turns, and then whatever others have not locked. A transaction that already holds locks may
//! need one that comes earlier; it does not wait for that but gives up, and takes all of them in
//! order when it runs again.

mod flows;
mod limits;
mod mail;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use everloom_core::{ChoreId, LaneId, NamespaceId, RowId, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::Result;
use crate::exchange::{Loaded, WantedClaim, Wants};
use crate::link::{Param, params};
use crate::options::TimeSource;
use crate::round::Round;
use crate::rows::{
    Columns, all, chores, executions, inbox, integer, json, keys, lanes, limit, namespaces, only,
    past_leases, payloads, routes, workers,
};
use crate::sql;

/// How many candidates a claim over several routes takes from each beyond what it wants.
const RESERVE: usize = 256;

/// Whether to lock rows, and to wait for that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locks {
    Wait,
    Try,
    None,
}

impl Locks {
    fn pick(self, wait: &'static str, nowait: &'static str, free: &'static str) -> &'static str {
        match self {
            Self::Wait => wait,
            Self::Try => nowait,
            Self::None => free,
        }
    }
}

/// Adds all questions.
pub(crate) fn ask(
    round: &mut Round<'_, Loaded>,
    wants: &Wants,
    exclusive: &BTreeSet<LaneId>,
    locks: Locks,
    clock: TimeSource,
) -> Result<()> {
    ask_names(round, wants, exclusive, locks)?;
    ask_routes(round, wants)?;
    limits::ask_gates(round, wants, locks);
    flows::ask_flows(round, wants, locks);
    ask_rows(round, wants, locks)?;
    flows::ask_around(round, wants);
    ask_beside(round, wants);
    mail::ask(round, wants, locks);
    streams::ask(round, wants);
    limits::ask(round, wants, locks);
    ask_claims(round, &wants.claims);
    ask_by_time(round, wants);
    ask_inbox(round, wants, locks);
    ask_next_due(round, wants.next_due);
    ask_trims(round, wants);
    if wants.new_rows > 0 {
        round.ask(sql::executions::NEW_ROWS, params![limit(wants.new_rows)], |rows, loaded| {
            loaded.new_rows = all(rows, |row| Columns::of(row).take().map(RowId))?;
            Ok(())
        });
    }
    // The last: the time after everything was locked.
    round.ask(sql::meta::NOW, params![], move |rows, loaded| {
        for row in rows {
            let (now, last) = (row.try_get(0)?, row.try_get(1)?);
            loaded.now = Timestamp::from_millis(match clock {
                TimeSource::Database => i64::max(now, last),
                TimeSource::Given => last,
            });
        }
        Ok(())
    });
    Ok(())
}

fn ask_names(
    round: &mut Round<'_, Loaded>,
    wants: &Wants,
    exclusive: &BTreeSet<LaneId>,
    locks: Locks,
) -> Result<()> {
    if !wants.new_namespaces.is_empty() {
        let names: Vec<String> = wants.new_namespaces.iter().cloned().collect();
        round.ask(sql::namespaces::ADD, params![names], |_, _| Ok(()));
    }
    if !wants.limits.own_namespaces.is_empty() {
        let ids: Vec<i64> = wants.limits.own_namespaces.iter().map(|id| id.0).collect();
        round.ask(sql::namespaces::LOCK, params![ids], |_, _| Ok(()));
    }
    let names: BTreeSet<&String> = wants.namespaces.union(&wants.new_namespaces).collect();
    if !names.is_empty() {
        let names: Vec<String> = names.into_iter().cloned().collect();
        round.ask(sql::namespaces::BY_NAME, params![names], keep_namespaces);
    }
    if !wants.namespace_ids.is_empty() {
        let ids: Vec<i64> = wants.namespace_ids.iter().map(|id| id.0).collect();
        round.ask(sql::namespaces::BY_ID, params![ids], keep_namespaces);
    }
    if !wants.new_lanes.is_empty() {
        round.ask(sql::lanes::ADD, named(&wants.new_lanes), |_, _| Ok(()));
    }
    if !exclusive.is_empty() {
        let ids: Vec<i64> = exclusive.iter().map(|id| id.0).collect();
        let sql = locks.pick(sql::lanes::LOCK, sql::lanes::LOCK_NOWAIT, sql::lanes::BY_ID);
        round.ask(sql, params![ids], |_, _| Ok(()));
    }
    let lanes: BTreeSet<_> = wants.lanes.union(&wants.new_lanes).cloned().collect();
    if !lanes.is_empty() {
        let sql = locks.pick(
            sql::lanes::SHARE_BY_NAME,
            sql::lanes::SHARE_BY_NAME_NOWAIT,
            sql::lanes::BY_NAME,
        );
        round.ask(sql, named(&lanes), keep_lanes);
    }
    if !wants.lane_ids.is_empty() {
        let ids: Vec<i64> = wants.lane_ids.iter().map(|id| id.0).collect();
        let sql =
            locks.pick(sql::lanes::SHARE_BY_ID, sql::lanes::SHARE_BY_ID_NOWAIT, sql::lanes::BY_ID);
        round.ask(sql, params![ids], keep_lanes);
    }
    Ok(())
}

fn keep_namespaces(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    loaded.namespaces.extend(all(rows, namespaces::from_row)?);
    Ok(())
}

fn keep_lanes(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    loaded.lanes.extend(all(rows, lanes::from_row)?);
    Ok(())
}

fn named(names: &BTreeSet<(NamespaceId, String)>) -> Vec<Param> {
    let namespaces: Vec<i64> = names.iter().map(|(namespace, _)| namespace.0).collect();
    let names: Vec<String> = names.iter().map(|(_, name)| name.clone()).collect();
    params![namespaces, names]
}

fn ask_routes(round: &mut Round<'_, Loaded>, wants: &Wants) -> Result<()> {
    if !wants.new_routes.is_empty() {
        let namespaces: BTreeSet<i64> =
            wants.new_routes.iter().map(|(namespace, ..)| namespace.0).collect();
        let namespaces: Vec<i64> = namespaces.into_iter().collect();
        round.ask(sql::namespaces::LOCK, params![namespaces], |_, _| Ok(()));
        round.tell(routes::add(&wants.new_routes)?);
    }
    if !wants.routes.is_empty() {
        let namespaces: Vec<i64> = wants.routes.keys().map(|id| id.0).collect();
        let known: Vec<i64> = wants.routes.values().map(|id| id.0).collect();
        round.ask(sql::routes::AFTER, params![namespaces, known], |rows, loaded| {
            for (namespace, route) in all(rows, routes::from_row)? {
                loaded.routes.entry(namespace).or_default().push(route);
            }
            Ok(())
        });
    }
    Ok(())
}

/// Rows that are asked for by name and locked.
fn ask_rows(round: &mut Round<'_, Loaded>, wants: &Wants, locks: Locks) -> Result<()> {
    if wants.wants_tied_executions() {
        flows::ask_tied(round, wants, locks);
    } else if !wants.executions.is_empty() {
        let namespaces: Vec<i64> = wants.executions.iter().map(|(id, _)| id.0).collect();
        let uuids: Vec<Uuid> = wants.executions.iter().map(|(_, id)| id.0).collect();
        let sql =
            locks.pick(sql::executions::LOCK, sql::executions::LOCK_NOWAIT, sql::executions::FIND);
        round.ask(sql, params![namespaces, uuids], |rows, loaded| {
            keep_executions(rows, loaded).map(drop)
        });
    }
    if !wants.workers.is_empty() {
        let sql = locks.pick(sql::workers::LOCK, sql::workers::LOCK_NOWAIT, sql::workers::FIND);
        round.ask(sql, named(&wants.workers), |rows, loaded| {
            loaded.workers.extend(all(rows, workers::from_row)?);
            Ok(())
        });
    }
    if !wants.chores_of_kind.is_empty() {
        let kinds: Vec<String> = wants.chores_of_kind.iter().map(json).collect::<Result<_>>()?;
        let sql = locks.pick(sql::chores::LOCK, sql::chores::LOCK_NOWAIT, sql::chores::FIND_ALL);
        round.ask(sql, params![kinds], |rows, loaded| {
            loaded.chores.extend(all(rows, chores::from_row)?);
            Ok(())
        });
    }
    Ok(())
}

/// Keeps executions and tells their rows.
fn keep_executions(rows: &[Row], loaded: &mut Loaded) -> Result<Vec<RowId>> {
    let found = all(rows, executions::from_row)?;
    let ids = found.iter().map(|execution| execution.row).collect();
    loaded.executions.extend(found);
    Ok(ids)
}

/// Leaves each row that several questions have brought once.
pub(crate) fn leave_each_once(loaded: &mut Loaded) {
    let mut rows = BTreeSet::new();
    loaded.executions.retain(|execution| rows.insert(execution.row));
    let mut names = BTreeSet::new();
    loaded.workers.retain(|worker| names.insert((worker.namespace, worker.instance.clone())));
    let mut ids = BTreeSet::new();
    loaded.chores.retain(|chore| ids.insert(chore.id));
}

/// What lies beside an execution's row.
fn ask_beside(round: &mut Round<'_, Loaded>, wants: &Wants) {
    let of = |rows: &BTreeSet<RowId>| -> Vec<i64> { rows.iter().map(|row| row.0).collect() };
    if !wants.keys.is_empty() {
        round.ask(sql::keys::FIND, named(&wants.keys), |rows, loaded| {
            loaded.keys = all(rows, keys::from_row)?;
            Ok(())
        });
    }
    if !wants.inputs.is_empty() {
        let wanted = wants.inputs.clone();
        round.ask(sql::payloads::INPUT, params![of(&wanted)], move |rows, loaded| {
            loaded.inputs.extend(all(rows, payloads::input_from_row)?);
            // An empty input has no row.
            for row in wanted {
                loaded.inputs.entry(row).or_default();
            }
            Ok(())
        });
    }
    if !wants.results.is_empty() {
        round.ask(sql::payloads::RESULT, params![of(&wants.results)], |rows, loaded| {
            loaded.results.extend(all(rows, payloads::result_from_row)?);
            Ok(())
        });
    }
    if !wants.past_leases.is_empty() {
        let rows: Vec<i64> = wants.past_leases.iter().map(|(row, _)| row.0).collect();
        let epochs: Vec<i64> =
            wants.past_leases.iter().map(|(_, epoch)| integer(epoch.0)).collect();
        round.ask(sql::past_leases::FIND, params![rows, epochs], |rows, loaded| {
            for lease in all(rows, past_leases::from_row)? {
                loaded.past_leases.insert((lease.execution, lease.epoch), lease);
            }
            Ok(())
        });
    }
    if !wants.lease_histories.is_empty() {
        round.ask(sql::past_leases::OF, params![of(&wants.lease_histories)], |rows, loaded| {
            for lease in all(rows, past_leases::from_row)? {
                loaded.lease_histories.entry(lease.execution).or_default().push(lease);
            }
            Ok(())
        });
    }
    if !wants.owned_counts.is_empty() {
        let wanted = wants.owned_counts.clone();
        let lanes: Vec<i64> = wanted.iter().map(|id| id.0).collect();
        round.ask(sql::executions::COUNT_OWNED, params![lanes], move |rows, loaded| {
            loaded.owned_counts = wanted.into_iter().map(|lane| (lane, 0)).collect();
            loaded.owned_counts.extend(counts(rows)?);
            Ok(())
        });
    }
}

pub(crate) fn counts(rows: &[Row]) -> Result<BTreeMap<LaneId, u32>> {
    let count = |row: &Row| -> Result<(LaneId, u32)> {
        let owned: i64 = row.try_get(1)?;
        Ok((LaneId(row.try_get(0)?), u32::try_from(owned).unwrap_or(u32::MAX)))
    };
    rows.iter().map(count).collect()
}

fn ask_claims(round: &mut Round<'_, Loaded>, claims: &[WantedClaim]) {
    for claim in claims {
        let routes: Vec<i64> = claim.routes.iter().map(|id| id.0).collect();
        let (lane, wanted) = (claim.lane.0, limit(claim.limit));
        let (sql, params) = match routes[..] {
            [route] => (sql::executions::CLAIM_ROUTE, params![lane, route, wanted]),
            _ => {
                let reserve = limit(claim.limit.saturating_add(RESERVE));
                (sql::executions::CLAIM_ROUTES, params![lane, routes, wanted, reserve])
            }
        };
        round.ask(sql, params, |rows, loaded| {
            let mut claimed = Vec::with_capacity(rows.len());
            for whole in all(rows, executions::whole_from_row)? {
                let execution = whole.execution;
                claimed.push(execution.row);
                loaded.inputs.insert(execution.row, whole.input);
                let flow = execution.member.as_ref().map(|member| member.flow);
                loaded.gates.extend(flow.zip(whole.gate));
                loaded.edges_into.insert((execution.row, true), whole.bound);
                loaded.executions.push(execution);
            }
            loaded.claims.push(claimed);
            Ok(())
        });
    }
}

/// Asks about claims that found less than they wanted whether there is more that others have locked.
/// `true` is put into the answer for each of which that holds.
pub(crate) fn ask_for_locked(round: &mut Round<'_, bool>, claims: &[WantedClaim], loaded: &Loaded) {
    for (claim, rows) in claims.iter().zip(&loaded.claims) {
        if rows.len() < claim.limit {
            let routes: Vec<i64> = claim.routes.iter().map(|id| id.0).collect();
            let found = limit(rows.len());
            let params = params![claim.lane.0, routes, found + 1];
            round.ask(sql::executions::COUNT_READY, params, move |rows, locked| {
                *locked |= only::<i64>(rows)? > found;
                Ok(())
            });
        }
    }
}

fn ask_by_time(round: &mut Round<'_, Loaded>, wants: &Wants) {
    if let Some((by, most)) = wants.due {
        let params = params![by.as_millis(), limit(most)];
        round.ask(sql::executions::LOCK_DUE, params, |rows, loaded| {
            loaded.due = keep_executions(rows, loaded)?;
            Ok(())
        });
    }
    if let Some((by, most)) = wants.retired {
        let params = params![by.as_millis(), limit(most)];
        round.ask(sql::executions::LOCK_RETIRED, params, |rows, loaded| {
            loaded.retired = keep_executions(rows, loaded)?;
            Ok(())
        });
    }
    for ((namespace, worker), most) in &wants.owned {
        let params = params![worker.clone(), namespace.0, limit(*most)];
        let name = (*namespace, worker.clone());
        round.ask(sql::executions::LOCK_OWNED, params, move |rows, loaded| {
            let owned = keep_executions(rows, loaded)?;
            loaded.owned.insert(name, owned);
            Ok(())
        });
    }
    if let Some((by, most)) = wants.lapsed_workers {
        let params = params![by.as_millis(), limit(most)];
        round.ask(sql::workers::LOCK_LAPSED, params, |rows, loaded| {
            let lapsed = all(rows, workers::from_row)?;
            loaded.lapsed_workers =
                lapsed.iter().map(|worker| (worker.namespace, worker.instance.clone())).collect();
            loaded.workers.extend(lapsed);
            Ok(())
        });
    }
    if let Some((by, most)) = wants.due_chores {
        let params = params![by.as_millis(), limit(most)];
        round.ask(sql::chores::LOCK_DUE, params, |rows, loaded| {
            let due = all(rows, chores::from_row)?;
            loaded.due_chores = due.iter().map(|chore| chore.id).collect();
            loaded.chores.extend(due);
            Ok(())
        });
    }
}

fn ask_inbox(round: &mut Round<'_, Loaded>, wants: &Wants, locks: Locks) {
    if !wants.request_ids.is_empty() {
        let ids: Vec<i64> = wants.request_ids.iter().map(|id| id.0).collect();
        let sql = locks.pick(sql::inbox::LOCK, sql::inbox::LOCK_NOWAIT, sql::inbox::FIND);
        round.ask(sql, params![ids], |rows, loaded| {
            loaded.requests.extend(all(rows, inbox::from_row)?);
            Ok(())
        });
    }
    if wants.requests > 0 {
        let most = limit(wants.requests);
        round.ask(sql::inbox::LOCK_WAITING, params![most], |rows, loaded| {
            let waiting = all(rows, inbox::from_row)?;
            loaded.waiting_requests = waiting.iter().map(|request| request.id).collect();
            loaded.requests.extend(waiting);
            Ok(())
        });
    }
}

fn ask_next_due(round: &mut Round<'_, Loaded>, most: usize) {
    if most == 0 {
        return;
    }
    round.ask(sql::executions::NEXT_DUE, params![limit(most)], |rows, loaded| {
        loaded.due_rows = all(rows, |row| Ok((due(row)?, RowId(row.try_get(1)?))))?;
        Ok(())
    });
    round.ask(sql::workers::NEXT_DUE, params![limit(most)], |rows, loaded| {
        loaded.due_workers =
            all(rows, |row| Ok((due(row)?, NamespaceId(row.try_get(1)?), row.try_get(2)?)))?;
        Ok(())
    });
    round.ask(sql::chores::NEXT_DUE, params![limit(most)], |rows, loaded| {
        loaded.due_moments_of_chores = all(rows, |row| Ok((due(row)?, ChoreId(row.try_get(1)?))))?;
        Ok(())
    });
}

fn due(row: &Row) -> Result<Timestamp> {
    Ok(Timestamp::from_millis(row.try_get(0)?))
}

fn ask_trims(round: &mut Round<'_, Loaded>, wants: &Wants) {
    if let Some((before, most)) = wants.trim_events {
        let params = params![before.as_millis(), limit(most)];
        round.ask(sql::events::TRIM, params, |rows, loaded| {
            loaded.trimmed_events = rows.len();
            Ok(())
        });
    }
    if let Some((by, most)) = wants.trim_keys {
        let params = params![by.as_millis(), limit(most)];
        round.ask(sql::keys::TRIM, params, |rows, loaded| {
            loaded.trimmed_keys = rows.len();
            Ok(())
        });
    }
    streams::ask_trims(round, wants);
}
