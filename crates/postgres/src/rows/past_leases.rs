use everloom_core::{Epoch, LeaseEnd, PastLease, RowId, Secret};
use tokio_postgres::Row;

use super::{Columns, integer, json};
use crate::error::{Fault, Result};
use crate::link::{Step, params};
use crate::sql::past_leases as sql;

pub(crate) fn from_row(row: &Row) -> Result<PastLease> {
    let mut columns = Columns::of(row);
    Ok(PastLease {
        execution: RowId(columns.take()?),
        epoch: Epoch(columns.count()?),
        attempt: columns.count()?,
        run: columns.count()?,
        worker: columns.take()?,
        secret: columns
            .bytes()?
            .map(Secret::new)
            .ok_or_else(|| Fault::bug("an ended lease has no secret"))?,
        claimed_at: columns.time()?,
        ended_at: columns.time()?,
        end: match columns.take::<Option<&str>>()? {
            None => LeaseEnd::Completed,
            Some(text) => LeaseEnd::from_stored(text)?,
        },
    })
}

pub(crate) fn add(leases: &[PastLease]) -> Result<Step> {
    let executions: Vec<i64> = leases.iter().map(|lease| lease.execution.0).collect();
    let epochs: Vec<i64> = leases.iter().map(|lease| integer(lease.epoch.0)).collect();
    let attempts: Vec<i64> = leases.iter().map(|lease| i64::from(lease.attempt)).collect();
    let runs: Vec<i64> = leases.iter().map(|lease| i64::from(lease.run)).collect();
    let workers: Vec<String> = leases.iter().map(|lease| lease.worker.clone()).collect();
    let secrets: Vec<Vec<u8>> =
        leases.iter().map(|lease| lease.secret.as_bytes().to_vec()).collect();
    let begins: Vec<i64> = leases.iter().map(|lease| lease.claimed_at.as_millis()).collect();
    let ends: Vec<i64> = leases.iter().map(|lease| lease.ended_at.as_millis()).collect();
    let how: Vec<Option<String>> = leases
        .iter()
        .map(|lease| match &lease.end {
            LeaseEnd::Completed => Ok(None),
            end => json(end).map(Some),
        })
        .collect::<Result<_>>()?;
    let params = params![executions, epochs, attempts, runs, workers, secrets, begins, ends, how];
    Ok(Step::Prepared(sql::ADD, params))
}
