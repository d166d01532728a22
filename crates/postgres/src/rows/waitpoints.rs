use everloom_core::{Fingerprint, NamespaceId, RowId, Waitpoint, WaitpointCourse, WaitpointId};
use tokio_postgres::Row;

use super::records::Records;
use super::{Columns, from_json, json, millis};
use crate::error::{Fault, Result};
use crate::exchange::Named;
use crate::link::{Step, params};
use crate::sql::waitpoints as sql;

pub(crate) fn from_row(row: &Row) -> Result<Waitpoint> {
    let mut columns = Columns::of(row);
    let execution = RowId(columns.take()?);
    let seq = columns.count()?;
    let id = WaitpointId(columns.take()?);
    let namespace = NamespaceId(columns.take()?);
    let (key, kid) = (columns.take()?, columns.take()?);
    let fingerprint = columns
        .bytes()?
        .map(Fingerprint)
        .ok_or_else(|| Fault::bug("a waitpoint has no fingerprint"))?;
    let (created_at, expires_at) = (columns.time()?, columns.optional_time()?);
    let WaitpointCourse { state, borne } = from_json(columns.take()?)?;
    Ok(Waitpoint {
        id,
        namespace,
        execution,
        seq,
        key,
        kid,
        fingerprint,
        created_at,
        expires_at,
        state,
        borne,
    })
}

pub(crate) fn signed_from_row(row: &Row) -> Result<(Named, u64)> {
    let mut columns = Columns::of(row);
    Ok(((NamespaceId(columns.take()?), columns.take()?), columns.count()?))
}

/// The columns of the table.
const COLUMNS: i32 = 11;

pub(crate) fn add(waitpoints: &[Waitpoint]) -> Result<Step> {
    let mut records = Records::new(COLUMNS);
    for waitpoint in waitpoints {
        let state = json(&waitpoint.course())?;
        records
            .row()
            .put(waitpoint.execution.0)
            .put(i64::from(waitpoint.seq))
            .put(waitpoint.id.0)
            .put(waitpoint.namespace.0)
            .put(&*waitpoint.key)
            .put(&*waitpoint.kid)
            .put(&waitpoint.fingerprint.0[..])
            .put(waitpoint.created_at.as_millis())
            .put(millis(waitpoint.expires_at))
            .put(waitpoint.is_open())
            .put(&*state);
    }
    Ok(Step::Prepared(sql::ADD, params![records]))
}

pub(crate) fn save(waitpoints: &[Waitpoint]) -> Result<Step> {
    let rows: Vec<i64> = waitpoints.iter().map(|waitpoint| waitpoint.execution.0).collect();
    let seqs: Vec<i64> = waitpoints.iter().map(|waitpoint| i64::from(waitpoint.seq)).collect();
    let kids: Vec<String> = waitpoints.iter().map(|waitpoint| waitpoint.kid.clone()).collect();
    let fingerprints: Vec<Vec<u8>> =
        waitpoints.iter().map(|waitpoint| waitpoint.fingerprint.0.to_vec()).collect();
    let open: Vec<bool> = waitpoints.iter().map(Waitpoint::is_open).collect();
    let states: Vec<String> =
        waitpoints.iter().map(|waitpoint| json(&waitpoint.course())).collect::<Result<_>>()?;
    Ok(Step::Prepared(sql::SAVE, params![rows, seqs, kids, fingerprints, open, states]))
}
