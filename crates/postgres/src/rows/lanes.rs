use std::sync::Arc;

use everloom_core::{Lane, LaneId, LaneMode, NamespaceId};
use tokio_postgres::Row;

use super::{Columns, from_json, json, json_unless_default};
use crate::error::{Fault, Result};
use crate::link::{Step, params};
use crate::sql::lanes as sql;

pub(crate) fn from_row(row: &Row) -> Result<Arc<Lane>> {
    let mut columns = Columns::of(row);
    Ok(Arc::new(Lane {
        id: LaneId(columns.take()?),
        namespace: NamespaceId(columns.take()?),
        name: columns.take()?,
        mode: mode_of(columns.take()?)?,
        max_active: columns.optional_count()?,
        active: columns.count()?,
        defaults: columns.json_or_default()?,
        limits: columns.json_or_default()?,
        fairness: columns.take::<Option<&str>>()?.map(from_json).transpose()?,
        course: columns.take()?,
    }))
}

fn code_of(mode: LaneMode) -> i32 {
    match mode {
        LaneMode::Open => 0,
        LaneMode::Paused => 1,
        LaneMode::Draining => 2,
    }
}

fn mode_of(code: i32) -> Result<LaneMode> {
    match code {
        0 => Ok(LaneMode::Open),
        1 => Ok(LaneMode::Paused),
        2 => Ok(LaneMode::Draining),
        _ => Err(Fault::bug(format!("a lane has the unknown mode {code}"))),
    }
}

pub(crate) fn save(lanes: &[Lane]) -> Result<Step> {
    let ids: Vec<i64> = lanes.iter().map(|lane| lane.id.0).collect();
    let modes: Vec<i32> = lanes.iter().map(|lane| code_of(lane.mode)).collect();
    let caps: Vec<Option<i64>> = lanes.iter().map(|lane| lane.max_active.map(i64::from)).collect();
    let active: Vec<i64> = lanes.iter().map(|lane| i64::from(lane.active)).collect();
    let defaults: Vec<Option<String>> =
        lanes.iter().map(|lane| json_unless_default(&lane.defaults)).collect::<Result<_>>()?;
    let limits: Vec<Option<String>> =
        lanes.iter().map(|lane| json_unless_default(&lane.limits)).collect::<Result<_>>()?;
    let fairness: Vec<Option<String>> = lanes
        .iter()
        .map(|lane| lane.fairness.as_ref().map(json).transpose())
        .collect::<Result<_>>()?;
    let courses: Vec<Option<i64>> = lanes.iter().map(|lane| lane.course).collect();
    let params = params![ids, modes, caps, active, defaults, limits, fairness, courses];
    Ok(Step::Prepared(sql::SAVE, params))
}
