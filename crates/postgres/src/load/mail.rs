//! What lies beside executions that wait. Their rows are locked before any of it is read, and so
//! nobody changes it meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use everloom_core::{Error, NamespaceId, RowId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::Locks;
use crate::error::Result;
use crate::exchange::{HANDED_OVER, Loaded, MailWants, Place, Wants};
use crate::link::{Param, params};
use crate::round::Round;
use crate::rows::{
    all, limit, mailboxes, payloads, signals, signing_keys, steps, suspensions, waitpoints,
};
use crate::sql;

/// How many bytes of payloads come along with signals and with steps that are handed over.
const BYTES_ALONG: usize = 4 << 20;

/// Adds all questions.
pub(super) fn ask(round: &mut Round<'_, Loaded>, wants: &Wants, locks: Locks) {
    ask_signing_keys(round, &wants.mail, locks);
    ask_boxes(round, wants);
    ask_points(round, &wants.mail);
    ask_pages(round, &wants.mail);
    ask_steps(round, &wants.mail);
    ask_payloads(round, &wants.mail);
}

fn ask_signing_keys(round: &mut Round<'_, Loaded>, wants: &MailWants, locks: Locks) {
    let ids = |namespaces: &BTreeSet<NamespaceId>| -> Vec<i64> {
        namespaces.iter().map(|id| id.0).collect()
    };
    let own = &wants.own_signing_keys;
    let shared: BTreeSet<_> = wants.signing_keys.difference(own).copied().collect();
    lock(round, ids(own), locks, sql::signing_keys::LOCK, sql::signing_keys::TRY_LOCK);
    lock(round, ids(&shared), locks, sql::signing_keys::SHARE, sql::signing_keys::TRY_SHARE);
    let all_keys: BTreeSet<_> = own.union(&shared).copied().collect();
    if !all_keys.is_empty() {
        round.ask(sql::signing_keys::OF, params![ids(&all_keys)], |rows, loaded| {
            loaded.mail.signing_keys = all(rows, signing_keys::from_row)?;
            Ok(())
        });
    }
    if !wants.signed.is_empty() {
        round.ask(sql::waitpoints::SIGNED, super::named(&wants.signed), |rows, loaded| {
            loaded.mail.signed = all(rows, waitpoints::signed_from_row)?.into_iter().collect();
            Ok(())
        });
    }
}

/// Locks the signing keys of namespaces. Whoever may not wait tries, and is told whether it could.
fn lock(
    round: &mut Round<'_, Loaded>,
    namespaces: Vec<i64>,
    locks: Locks,
    wait: &'static str,
    attempt: &'static str,
) {
    match locks {
        _ if namespaces.is_empty() => {}
        Locks::None => {}
        Locks::Wait => round.ask(wait, params![namespaces], |_, _| Ok(())),
        Locks::Try => round.ask(attempt, params![namespaces], |rows, _| {
            let had = all(rows, |row| Ok(row.try_get::<_, bool>(0)?))?;
            match had.contains(&false) {
                true => Err(Error::conflict("signing keys are being changed; try again").into()),
                false => Ok(()),
            }
        }),
    }
}

fn ask_boxes(round: &mut Round<'_, Loaded>, wants: &Wants) {
    let along = wants.executions.iter().filter(|_| wants.mail.along);
    let (namespaces, ids): (Vec<i64>, Vec<Uuid>) =
        along.map(|(namespace, id)| (namespace.0, id.0)).unzip();
    let rows: Vec<i64> = wants.mail.boxes.iter().map(|row| row.0).collect();
    if ids.is_empty() && rows.is_empty() {
        return;
    }
    let params = || params![namespaces.clone(), ids.clone(), rows.clone()];
    round.ask(sql::mailboxes::LASTS, params(), |rows, loaded| {
        for (row, lasts, suspension) in all(rows, mailboxes::from_row)? {
            loaded.mail.boxes.insert(row, lasts);
            loaded.mail.suspensions.extend(suspension);
        }
        Ok(())
    });
    round.ask(sql::mailboxes::OPEN_WAITPOINTS, params(), keep_waitpoints);
    round.ask(sql::mailboxes::KEPT_SIGNALS, params(), keep_signals);
}

fn keep_suspensions(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    loaded.mail.suspensions.extend(all(rows, suspensions::from_row)?);
    Ok(())
}

fn keep_waitpoints(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    loaded.mail.waitpoints.extend(all(rows, waitpoints::from_row)?);
    Ok(())
}

fn keep_signals(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    loaded.mail.signals.extend(all(rows, signals::from_row)?);
    Ok(())
}

fn keep_steps(rows: &[Row], loaded: &mut Loaded) -> Result<()> {
    loaded.mail.steps.extend(all(rows, steps::from_row)?);
    Ok(())
}

/// Executions and numbers within them.
fn places<'a>(places: impl IntoIterator<Item = &'a Place>) -> (Vec<i64>, Vec<i64>) {
    places.into_iter().map(|(row, number)| (row.0, i64::from(*number))).unzip()
}

fn ask_points(round: &mut Round<'_, Loaded>, wants: &MailWants) {
    if !wants.suspensions.is_empty() {
        let (rows, numbers) = places(&wants.suspensions);
        round.ask(sql::suspensions::FIND, params![rows, numbers], keep_suspensions);
    }
    if !wants.suspension_names.is_empty() {
        let names = || wants.suspension_names.iter();
        let rows: Vec<i64> = names().map(|(row, ..)| row.0).collect();
        let runs: Vec<i64> = names().map(|(_, run, _)| i64::from(*run)).collect();
        let keys: Vec<String> = names().map(|(.., key)| key.clone()).collect();
        round.ask(sql::suspensions::BY_KEY, params![rows, runs, keys], keep_suspensions);
    }
    if !wants.waitpoints.is_empty() {
        let (rows, ids): (Vec<i64>, Vec<Uuid>) =
            wants.waitpoints.iter().map(|(row, id)| (row.0, id.0)).unzip();
        round.ask(sql::waitpoints::BY_UUID, params![rows, ids], keep_waitpoints);
    }
    if !wants.signal_names.is_empty() {
        let (rows, keys): (Vec<i64>, Vec<String>) =
            wants.signal_names.iter().map(|(row, key)| (row.0, key.clone())).unzip();
        round.ask(sql::signals::BY_KEY, params![rows, keys], keep_signals);
    }
    if !wants.kept_signals.is_empty() {
        let (rows, runs) = places(&wants.kept_signals);
        round.ask(sql::signals::KEPT, params![rows, runs], keep_signals);
    }
}

fn ask_pages(round: &mut Round<'_, Loaded>, wants: &MailWants) {
    type Keep = fn(&[Row], &mut Loaded) -> Result<()>;
    let pages: [(_, _, Keep); 3] = [
        (sql::suspensions::PAGES, &wants.suspension_pages, keep_suspensions),
        (sql::waitpoints::PAGES, &wants.waitpoint_pages, keep_waitpoints),
        (sql::signals::PAGES, &wants.signal_pages, keep_signals),
    ];
    for (sql, pages, keep) in pages {
        if !pages.is_empty() {
            round.ask(sql, page_params(pages), keep);
        }
    }
    if !wants.step_pages.is_empty() {
        let mut params = page_params(&wants.step_pages);
        params.extend(params![limit(BYTES_ALONG)]);
        round.ask(sql::steps::PAGES_WITH_RESULTS, params, |rows, loaded| {
            for (step, result) in all(rows, steps::whole_from_row)? {
                let place = (step.execution, step.seq);
                loaded.mail.step_results.extend(result.map(|result| (place, result)));
                loaded.mail.steps.push(step);
            }
            Ok(())
        });
    }
    ask_taken(round, wants);
}

/// Whoever asks what a suspension has taken hands it over, with the payloads.
fn ask_taken(round: &mut Round<'_, Loaded>, wants: &MailWants) {
    if wants.taken_pages.is_empty() && wants.resumptions.is_empty() {
        return;
    }
    let (rows, suspensions) = places(wants.taken_pages.keys().map(|(place, _)| place));
    let afters: Vec<i64> = wants.taken_pages.keys().map(|(_, after)| i64::from(*after)).collect();
    let limits: Vec<i64> = wants.taken_pages.values().map(|most| limit(*most)).collect();
    let resumed: Vec<i64> = wants.resumptions.iter().map(|row| row.0).collect();
    let mut params = params![rows, suspensions, afters, limits];
    params.extend(params![resumed, limit(HANDED_OVER), limit(BYTES_ALONG)]);
    round.ask(sql::signals::TAKEN_WITH_PAYLOADS, params, |rows, loaded| {
        for (signal, payload) in all(rows, signals::whole_from_row)? {
            let place = (signal.execution, signal.seq);
            loaded.mail.signal_payloads.extend(payload.map(|payload| (place, payload)));
            loaded.mail.signals.push(signal);
        }
        Ok(())
    });
}

fn page_params(pages: &BTreeMap<Place, usize>) -> Vec<Param> {
    let (rows, afters) = places(pages.keys());
    let limits: Vec<i64> = pages.values().map(|most| limit(*most)).collect();
    params![rows, afters, limits]
}

fn ask_steps(round: &mut Round<'_, Loaded>, wants: &MailWants) {
    if !wants.step_names.is_empty() {
        let names = || wants.step_names.iter();
        let rows: Vec<i64> = names().map(|(row, ..)| row.0).collect();
        let texts: Vec<String> = names().map(|(_, name, _)| name.clone()).collect();
        let occurrences: Vec<i64> = names().map(|(.., number)| i64::from(*number)).collect();
        round.ask(sql::steps::BY_NAME, params![rows, texts, occurrences], keep_steps);
    }
    if !wants.last_steps.is_empty() {
        let rows: Vec<i64> = wants.last_steps.iter().map(|row: &RowId| row.0).collect();
        round.ask(sql::steps::LAST, params![rows], |rows, loaded| {
            loaded.mail.last_steps = all(rows, steps::last_from_row)?.into_iter().collect();
            Ok(())
        });
    }
}

fn ask_payloads(round: &mut Round<'_, Loaded>, wants: &MailWants) {
    if !wants.signal_payloads.is_empty() {
        let (rows, seqs) = places(&wants.signal_payloads);
        round.ask(sql::signals::PAYLOADS, params![rows, seqs], |rows, loaded| {
            loaded.mail.signal_payloads.extend(all(rows, payloads::numbered_from_row)?);
            Ok(())
        });
    }
    if !wants.step_results.is_empty() {
        let (rows, seqs) = places(&wants.step_results);
        round.ask(sql::steps::RESULTS, params![rows, seqs], |rows, loaded| {
            loaded.mail.step_results.extend(all(rows, payloads::numbered_from_row)?);
            Ok(())
        });
    }
}
