use everloom_core::{Epoch, LeaseEnd, PastLease, RowId, Secret};
use tokio_postgres::Row;

use super::records::Records;
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

/// The columns of the table.
const COLUMNS: i32 = 9;

pub(crate) fn add(leases: &[PastLease]) -> Result<Step> {
    let mut records = Records::new(COLUMNS);
    for lease in leases {
        let how = match &lease.end {
            LeaseEnd::Completed => None,
            end => Some(json(end)?),
        };
        records
            .row()
            .put(lease.execution.0)
            .put(integer(lease.epoch.0))
            .put(i64::from(lease.attempt))
            .put(i64::from(lease.run))
            .put(&*lease.worker)
            .put(&lease.secret.as_bytes()[..])
            .put(lease.claimed_at.as_millis())
            .put(lease.ended_at.as_millis())
            .put(how.as_deref());
    }
    Ok(Step::Prepared(sql::ADD, params![records]))
}
