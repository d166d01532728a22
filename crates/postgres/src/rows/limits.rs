use std::sync::Arc;

use everloom_core::{Limit, LimitRow, NamespaceId};
use tokio_postgres::Row;

use super::records::Records;
use super::{Columns, code, from_json, json, json_unless_default};
use crate::error::Result;
use crate::link::{Step, params};
use crate::sql::limits as sql;

pub(crate) fn from_row(row: &Row) -> Result<Arc<Limit>> {
    let mut columns = Columns::of(row);
    Ok(Arc::new(Limit {
        row: LimitRow(columns.take()?),
        namespace: NamespaceId(columns.take()?),
        name: columns.take()?,
        terms: from_json(columns.take()?)?,
        places: columns.json_or_default()?,
        created_at: columns.time()?,
    }))
}

/// The columns of the table.
const COLUMNS: i32 = 7;

pub(crate) fn put(limits: &[Arc<Limit>]) -> Result<Step> {
    let mut records = Records::new(COLUMNS);
    for limit in limits {
        let (terms, places) = (json(&limit.terms)?, json_unless_default(&limit.places)?);
        records
            .row()
            .put(limit.row.0)
            .put(limit.namespace.0)
            .put(code(limit.sort().code()))
            .put(&*limit.name)
            .put(&*terms)
            .put(places.as_deref())
            .put(limit.created_at.as_millis());
    }
    Ok(Step::Prepared(sql::PUT, params![records]))
}
