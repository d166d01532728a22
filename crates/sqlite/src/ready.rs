//! How a claim finds its work.
//!
//! A worker may serve a thousand routes, and each claim would have to look at the first ready row
//! of every one of them. So for each lane in use the place of that row is remembered per route:
//! a claim takes the best of these heads and reads only the rows it returns. Every write of an
//! execution goes through [`ReadyHeads::note`], which keeps a head right or declares it unknown;
//! an unknown head is looked up once a claim needs it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use everloom_core::{Execution, LaneId, RouteId};
use rusqlite::{Connection, Rows, params};

use crate::error::{Fault, Result};
use crate::rows::executions::{column, from_row};
use crate::sql::executions as sql;

/// A row's place among the ready ones: lower is claimed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    priority: Reverse<i32>,
    rank: i64,
    row: i64,
}

impl Place {
    fn of(execution: &Execution) -> Self {
        Self { priority: Reverse(execution.priority), rank: execution.rank, row: execution.row.0 }
    }
}

/// What is known of a route's first ready row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    At(Place),
    Empty,
    Unknown,
}

/// The heads of every lane in use.
#[derive(Default)]
pub(crate) struct ReadyHeads(HashMap<LaneId, LaneHeads>);

impl ReadyHeads {
    /// An execution was inserted or saved.
    pub(crate) fn note(&mut self, execution: &Execution) {
        if let Some(lane) = self.0.get_mut(&execution.lane) {
            lane.note(execution.route, Place::of(execution), execution.claimable());
        }
    }

    /// An execution was removed.
    pub(crate) fn forget(&mut self, execution: &Execution) {
        if let Some(lane) = self.0.get_mut(&execution.lane) {
            lane.note(execution.route, Place::of(execution), false);
        }
    }
}

#[derive(Default)]
struct LaneHeads {
    heads: HashMap<RouteId, Head>,
    /// The heads that are known and not empty, best first.
    order: BTreeSet<(Place, RouteId)>,
    /// The routes whose head is unknown.
    unknown: BTreeSet<RouteId>,
    /// Whether a route without an entry is empty; else it was never looked up.
    complete: bool,
}

/// Up to so many routes are looked up one by one, and not together with the rest of the lane.
const FEW_ROUTES: usize = 8;

/// The next claimable executions of a lane on any of these routes, which ascend.
pub(crate) fn claimable(
    conn: &Connection,
    ready: &mut ReadyHeads,
    lane: LaneId,
    routes: &[RouteId],
    limit: usize,
) -> Result<Vec<Execution>> {
    if routes.is_empty() || limit == 0 {
        return Ok(Vec::new());
    }
    let heads = ready.0.entry(lane).or_default();
    heads.look_up(conn, lane, routes)?;
    let mut merge = Merge { conn, lane, limit, taken: Vec::new() };
    if routes.len() <= FEW_ROUTES || routes.len() < heads.order.len() / 8 {
        let mut served = heads.of(routes);
        served.sort_unstable();
        merge.run(served.into_iter())?;
    } else {
        let is_served = |(_, route): &&(Place, RouteId)| routes.binary_search(route).is_ok();
        merge.run(heads.order.iter().filter(is_served).copied())?;
    }
    Ok(merge.taken)
}

impl LaneHeads {
    fn get(&self, route: RouteId) -> Head {
        let absent = if self.complete { Head::Empty } else { Head::Unknown };
        self.heads.get(&route).copied().unwrap_or(absent)
    }

    fn set(&mut self, route: RouteId, head: Head) {
        match self.heads.insert(route, head) {
            Some(Head::At(place)) => {
                self.order.remove(&(place, route));
            }
            Some(Head::Unknown) => {
                self.unknown.remove(&route);
            }
            Some(Head::Empty) | None => {}
        }
        match head {
            Head::At(place) => {
                self.order.insert((place, route));
            }
            Head::Unknown => {
                self.unknown.insert(route);
            }
            Head::Empty => {}
        }
    }

    fn note(&mut self, route: RouteId, place: Place, claimable: bool) {
        match self.get(route) {
            Head::Unknown => {}
            Head::Empty if claimable => self.set(route, Head::At(place)),
            Head::Empty => {}
            Head::At(head) if claimable && place <= head => self.set(route, Head::At(place)),
            // The head itself is gone, or others may now be better.
            Head::At(head) if head.row == place.row => self.set(route, Head::Unknown),
            Head::At(_) => {}
        }
    }

    /// Makes the heads of these routes known.
    fn look_up(&mut self, conn: &Connection, lane: LaneId, routes: &[RouteId]) -> Result<()> {
        if !self.complete && routes.len() > FEW_ROUTES {
            return self.load(conn, lane);
        }
        let unknown: Vec<RouteId> = match self.complete && self.unknown.len() < routes.len() {
            true => {
                let is_served = |route: &&RouteId| routes.binary_search(route).is_ok();
                self.unknown.iter().filter(is_served).copied().collect()
            }
            false => {
                let is_unknown = |route: &&RouteId| self.get(**route) == Head::Unknown;
                routes.iter().filter(is_unknown).copied().collect()
            }
        };
        for route in unknown {
            self.set(route, head(conn, lane, route)?);
        }
        Ok(())
    }

    /// Reads every head of the lane, jumping from route to route.
    fn load(&mut self, conn: &Connection, lane: LaneId) -> Result<()> {
        let mut loaded = Self { complete: true, ..Self::default() };
        let mut statement = conn.prepare_cached(sql::NEXT_HEAD)?;
        let mut last = i64::MIN;
        loop {
            let mut rows = statement.query(params![lane.0, last])?;
            let Some(row) = rows.next()? else { break };
            last = row.get(0)?;
            let place =
                Place { priority: Reverse(row.get(1)?), rank: row.get(2)?, row: row.get(3)? };
            loaded.set(RouteId(last), Head::At(place));
        }
        *self = loaded;
        Ok(())
    }

    /// The heads of these routes, in no order.
    fn of(&self, routes: &[RouteId]) -> Vec<(Place, RouteId)> {
        let at = |route: &RouteId| match self.get(*route) {
            Head::At(place) => Some((place, *route)),
            Head::Empty | Head::Unknown => None,
        };
        routes.iter().filter_map(at).collect()
    }
}

/// Reads the head of a route.
fn head(conn: &Connection, lane: LaneId, route: RouteId) -> Result<Head> {
    let mut statement = conn.prepare_cached(sql::HEAD)?;
    let mut rows = statement.query(params![lane.0, route.0])?;
    Ok(match rows.next()? {
        None => Head::Empty,
        Some(row) => {
            Head::At(Place { priority: Reverse(row.get(0)?), rank: row.get(1)?, row: row.get(2)? })
        }
    })
}

/// Takes rows from several routes in one order.
struct Merge<'a> {
    conn: &'a Connection,
    lane: LaneId,
    limit: usize,
    taken: Vec<Execution>,
}

/// How reading a route ended.
enum Stop {
    /// Before this row, because another route's is better.
    Before(Place),
    /// There are enough rows.
    Enough,
    /// The statement has no more.
    End,
}

impl Merge<'_> {
    /// Takes up to `limit` rows of the routes with these heads, best first.
    fn run(&mut self, heads: impl Iterator<Item = (Place, RouteId)>) -> Result<()> {
        let mut fresh = heads.peekable();
        let mut begun = BinaryHeap::new();
        loop {
            let is_fresh = match (fresh.peek(), begun.peek()) {
                (None, None) => return Ok(()),
                (Some(head), Some(Reverse(next))) => head < next,
                (Some(_), None) => true,
                (None, Some(_)) => false,
            };
            let next = if is_fresh { fresh.next() } else { begun.pop().map(|Reverse(next)| next) };
            let Some((place, route)) = next else {
                return Ok(());
            };
            let rival = fresh.peek().map(|(place, _)| *place);
            let rival = rival.into_iter().chain(begun.peek().map(|Reverse((place, _))| *place));
            match self.take(route, place, rival.min())? {
                Stop::Before(place) => begun.push(Reverse((place, route))),
                Stop::Enough => return Ok(()),
                Stop::End => {}
            }
        }
    }

    /// Takes rows of a route from a place on, as long as they are better than the rival.
    fn take(&mut self, route: RouteId, from: Place, rival: Option<Place>) -> Result<Stop> {
        let had = self.taken.len();
        let priority = from.priority.0;
        let mut statement = self.conn.prepare_cached(sql::READY_FROM)?;
        let params = params![self.lane.0, route.0, priority, from.rank, from.row];
        let stop = self.take_rows(statement.query(params)?, rival)?;
        if self.taken.get(had).is_none_or(|first| first.row.0 != from.row) {
            return Err(Fault::bug(format!("row {} is not as ready as remembered", from.row)));
        }
        if !matches!(stop, Stop::End) {
            return Ok(stop);
        }
        let mut statement = self.conn.prepare_cached(sql::READY_BELOW)?;
        self.take_rows(statement.query(params![self.lane.0, route.0, priority])?, rival)
    }

    fn take_rows(&mut self, mut rows: Rows<'_>, rival: Option<Place>) -> Result<Stop> {
        loop {
            if self.taken.len() == self.limit {
                return Ok(Stop::Enough);
            }
            let Some(row) = rows.next()? else {
                return Ok(Stop::End);
            };
            let place = Place {
                priority: Reverse(row.get(column::PRIORITY)?),
                rank: row.get(column::RANK)?,
                row: row.get(column::ID)?,
            };
            if rival.is_some_and(|rival| rival < place) {
                return Ok(Stop::Before(place));
            }
            self.taken.push(from_row(row)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: RouteId = RouteId(1);

    fn place(priority: i32, row: i64) -> Place {
        Place { priority: Reverse(priority), rank: row, row }
    }

    fn with_head(head: Head) -> LaneHeads {
        let mut lane = LaneHeads { complete: true, ..Default::default() };
        lane.set(ROUTE, head);
        lane
    }

    #[test]
    fn a_head_follows_the_writes_or_is_looked_up_again() {
        let head = Head::At(place(5, 2));
        for (what, known, written, claimable, then) in [
            ("better work is the new head", head, place(9, 3), true, Head::At(place(9, 3))),
            ("worse work changes nothing", head, place(1, 3), true, head),
            ("others that leave change nothing", head, place(9, 3), false, head),
            ("the head that leaves hides the next", head, place(5, 2), false, Head::Unknown),
            ("a worse head may have been passed", head, place(4, 2), true, Head::Unknown),
            ("a better head stays", head, place(6, 2), true, Head::At(place(6, 2))),
            ("work comes to an empty route", Head::Empty, place(1, 3), true, Head::At(place(1, 3))),
            ("an empty route stays empty", Head::Empty, place(1, 3), false, Head::Empty),
            ("the unknown stays unknown", Head::Unknown, place(9, 3), true, Head::Unknown),
        ] {
            let mut lane = with_head(known);
            lane.note(ROUTE, written, claimable);
            assert_eq!(lane.get(ROUTE), then, "{what}");
            let ordered: Vec<_> = lane.order.iter().map(|(place, _)| Head::At(*place)).collect();
            assert_eq!(ordered.first(), Some(&then).filter(|head| matches!(head, Head::At(_))));
            assert_eq!(lane.unknown.contains(&ROUTE), then == Head::Unknown, "{what}");
        }
    }

    #[test]
    fn a_route_never_looked_up_is_empty_only_in_a_lane_that_was_read_whole() {
        assert_eq!(LaneHeads::default().get(ROUTE), Head::Unknown);
        let whole = LaneHeads { complete: true, ..Default::default() };
        assert_eq!(whole.get(ROUTE), Head::Empty);
    }
}
