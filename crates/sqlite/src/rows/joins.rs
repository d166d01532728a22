use everloom_core::{Beginning, Join, Need, Otherwise, Rest, RowId, Verdict};
use rusqlite::{Connection, params};

use super::{first, run};
use crate::error::Result;
use crate::sql::joins as sql;

pub(crate) fn find(conn: &Connection, target: RowId) -> Result<Option<Join>> {
    first(conn, sql::FIND, [target.0], |row| {
        let began = match row.get(7)? {
            None => None,
            Some(need) => {
                let (need, rest) = (Need::from_code(need)?, Rest::from_code(row.get(8)?)?);
                Some(Beginning { need, rest })
            }
        };
        Ok(Join {
            target,
            need: Need::from_code(row.get(0)?)?,
            rest: Rest::from_code(row.get(1)?)?,
            otherwise: Otherwise::from_saved(row.get(2)?, began)?,
            sources: row.get(3)?,
            met: row.get(4)?,
            unmet: row.get(5)?,
            verdict: row.get::<_, Option<i64>>(6)?.map(Verdict::from_code).transpose()?,
        })
    })
}

pub(crate) fn put(conn: &Connection, join: &Join) -> Result<()> {
    let began = join.otherwise.began();
    let params = params![
        join.target.0,
        join.need.code(),
        join.rest.code(),
        join.otherwise.code(),
        join.sources,
        join.met,
        join.unmet,
        join.verdict.map(Verdict::code),
        began.map(|began| began.need.code()),
        began.map(|began| began.rest.code())
    ];
    run(conn, sql::PUT, params).map(drop)
}

pub(crate) fn remove(conn: &Connection, target: RowId) -> Result<()> {
    run(conn, sql::DROP, [target.0]).map(drop)
}
