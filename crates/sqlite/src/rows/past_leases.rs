use everloom_core::{Epoch, LeaseEnd, PastLease, RowId, Secret};
use rusqlite::{Connection, Row, params};

use super::{all, count, first, integer, json, limit, run, run_on_one, time};
use crate::error::Result;
use crate::sql::past_leases as sql;

fn from_row(row: &Row<'_>) -> Result<PastLease> {
    Ok(PastLease {
        execution: RowId(row.get(0)?),
        epoch: Epoch(count(row, 1)?),
        attempt: row.get(2)?,
        run: row.get(3)?,
        worker: row.get(4)?,
        secret: Secret::new(row.get(5)?),
        claimed_at: time(row, 6)?,
        ended_at: time(row, 7)?,
        end: match row.get_ref(8)?.as_str_or_null()? {
            None => LeaseEnd::Completed,
            Some(text) => LeaseEnd::from_stored(text)?,
        },
    })
}

pub(crate) fn find(conn: &Connection, row: RowId, epoch: Epoch) -> Result<Option<PastLease>> {
    first(conn, sql::FIND, params![row.0, integer(epoch.0)], from_row)
}

pub(crate) fn after(
    conn: &Connection,
    row: RowId,
    after: Epoch,
    rows: usize,
) -> Result<Vec<PastLease>> {
    all(conn, sql::AFTER, params![row.0, integer(after.0), limit(rows)], from_row)
}

pub(crate) fn add(conn: &Connection, lease: &PastLease) -> Result<()> {
    let how = match &lease.end {
        LeaseEnd::Completed => None,
        end => Some(json(end)?),
    };
    run_on_one(
        conn,
        sql::ADD,
        params![
            lease.execution.0,
            integer(lease.epoch.0),
            lease.attempt,
            lease.run,
            lease.worker,
            lease.secret.as_bytes(),
            lease.claimed_at.as_millis(),
            lease.ended_at.as_millis(),
            how
        ],
    )
}

pub(crate) fn drop_all(conn: &Connection, row: RowId) -> Result<()> {
    run(conn, sql::DROP_ALL, [row.0]).map(drop)
}
