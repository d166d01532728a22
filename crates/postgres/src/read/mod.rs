//! Questions, asked one by one.

mod limits;
mod mail;
mod streams;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use everloom_core::{
    Chore, ChoreKind, Clock, Count, Cursor, Edge, EdgeId, Epoch, Error, EventScan, EventSlice,
    EventSpan, Execution, ExecutionId, Flow, FlowId, FlowRow, FlowScan, FlowSlice, Join, Key, Lane,
    LaneId, ListScan, ListSlice, MemberCount, Namespace, NamespaceId, PastLease, Payload, Read,
    Request, RequestCounts, RequestId, Result, Route, RouteId, RouteTable, RowId, Timestamp,
    WorkerRow,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error;
use crate::link::{Link, Param, Step, params};
use crate::load;
use crate::options::TimeSource;
use crate::rows::{
    all, chores, edges, events, executions, flows, inbox, integer, joins, json, keys, lanes, limit,
    list, members, namespaces, only, past_leases, payloads, routes, workers,
};
use crate::sql;
use crate::text;

/// A consistent view of the rows through one connection, which it has for itself until it ends.
pub(crate) struct View<'a> {
    link: &'a mut Link,
    stage: Stage,
    seen: Seen,
}

/// What a view has told already. Whoever lists executions asks for these again with each of them.
#[derive(Default)]
struct Seen {
    namespaces: HashMap<NamespaceId, Arc<Namespace>>,
    lanes: HashMap<LaneId, Arc<Lane>>,
    routes: HashMap<NamespaceId, Arc<RouteTable>>,
    /// What members that were listed wait for, and the sources of these edges.
    joins: HashMap<RowId, Option<Join>>,
    edges_into: HashMap<RowId, Vec<Edge>>,
    executions: HashMap<RowId, Execution>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Part of a transaction that someone else ends.
    Within,
    /// A snapshot that nothing was asked of yet.
    Fresh,
    /// A snapshot that is open.
    Open,
}

impl<'a> View<'a> {
    /// What the connection's transaction sees.
    pub(crate) fn within(link: &'a mut Link) -> Self {
        Self { link, stage: Stage::Within, seen: Seen::default() }
    }

    /// What is committed when the first question is asked.
    pub(crate) fn snapshot(link: &'a mut Link) -> Result<Self> {
        link.revive()?;
        Ok(Self { link, stage: Stage::Fresh, seen: Seen::default() })
    }

    fn query(&mut self, sql: &'static str, params: Vec<Param>) -> error::Result<Vec<Row>> {
        let question = Step::Prepared(sql, params);
        if self.stage != Stage::Fresh {
            return Ok(self.link.run(&[question])?.pop().unwrap_or_default());
        }
        let steps = [Step::Plain(sql::BEGIN_READ), question];
        let answers = match self.link.run(&steps) {
            // An idle connection may have been lost unnoticed: nothing was seen through it yet.
            Err(fault) if fault.is_lost() => {
                self.link.drop_connection();
                self.link.revive()?;
                self.link.run(&steps)
            }
            answers => answers,
        };
        self.stage = Stage::Open;
        Ok(answers?.pop().unwrap_or_default())
    }

    fn link(&mut self) -> error::Result<&mut Link> {
        if self.stage == Stage::Fresh {
            self.query(sql::meta::READ, params![])?;
        }
        Ok(self.link)
    }

    fn first<T>(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
        read: impl FnOnce(&Row) -> error::Result<T>,
    ) -> Result<Option<T>> {
        let rows = self.query(sql, params)?;
        Ok(rows.first().map(read).transpose()?)
    }

    fn all<T>(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
        read: impl FnMut(&Row) -> error::Result<T>,
    ) -> Result<Vec<T>> {
        Ok(all(&self.query(sql, params)?, read)?)
    }

    /// Looks at what members wait for all at once: whoever lists them may ask for each. Only what a
    /// snapshot tells stays true.
    fn look_at_ties(&mut self, members: &[Execution]) -> Result<()> {
        if self.stage != Stage::Open || members.is_empty() {
            return Ok(());
        }
        let rows: Vec<i64> = members.iter().map(|member| member.row.0).collect();
        let all_edges = vec![false; rows.len()];
        let joins = self.all(sql::joins::OF, params![rows.clone()], joins::from_row)?;
        let edges = self.all(sql::edges::INTO, params![rows, all_edges], edges::from_row)?;
        let sources: BTreeSet<i64> = edges.iter().map(|edge| edge.source.0).collect();
        let sources: Vec<i64> = sources.into_iter().collect();
        let sources = self.all(sql::members::BY_ROW, params![sources], executions::from_row)?;
        let seen = &mut self.seen;
        for member in members {
            seen.joins.entry(member.row).or_default();
            seen.edges_into.insert(member.row, vec![]);
        }
        seen.joins.extend(joins.into_iter().map(|join| (join.target, Some(join))));
        for edge in edges {
            seen.edges_into.entry(edge.target).or_default().push(edge);
        }
        seen.executions.extend(sources.into_iter().map(|source| (source.row, source)));
        Ok(())
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        if self.stage == Stage::Open && self.link.run(&[Step::Plain(sql::COMMIT)]).is_err() {
            self.link.drop_connection();
        }
    }
}

fn missing(noun: &str, id: i64) -> Error {
    Error::bug(format!("there is no {noun} in row {id}"))
}

impl Read for View<'_> {
    fn last_now(&mut self) -> Result<Timestamp> {
        let rows = self.query(sql::meta::READ, params![])?;
        let row = rows.first().ok_or_else(|| missing("meta", 1))?;
        Ok(Timestamp::from_millis(row.try_get(0).map_err(error::Fault::from)?))
    }

    fn now(&mut self, clock: &dyn Clock) -> Result<Timestamp> {
        if self.link.target().options.clock == TimeSource::Given {
            return Ok(clock.now().max(self.last_now()?));
        }
        let now = self.first(sql::meta::NOW, params![], |row| {
            Ok(i64::max(row.try_get(0)?, row.try_get(1)?))
        })?;
        now.map(Timestamp::from_millis).ok_or_else(|| missing("meta", 1))
    }

    fn namespace(&mut self, name: &str) -> Result<Option<Arc<Namespace>>> {
        if !text::can_be(name) {
            return Ok(None);
        }
        let names = vec![name.to_owned()];
        self.first(sql::namespaces::BY_NAME, params![names], namespaces::from_row)
    }

    fn namespace_by_id(&mut self, id: NamespaceId) -> Result<Arc<Namespace>> {
        if let Some(seen) = self.seen.namespaces.get(&id) {
            return Ok(Arc::clone(seen));
        }
        let found =
            self.first(sql::namespaces::BY_ID, params![vec![id.0]], namespaces::from_row)?;
        let found = found.ok_or_else(|| missing("namespace", id.0))?;
        self.seen.namespaces.insert(id, Arc::clone(&found));
        Ok(found)
    }

    fn namespaces(&mut self, after: Option<&str>, most: usize) -> Result<Vec<Arc<Namespace>>> {
        let params = params![text::bound(after), limit(most)];
        self.all(sql::namespaces::AFTER, params, namespaces::from_row)
    }

    fn lane(&mut self, namespace: NamespaceId, name: &str) -> Result<Option<Arc<Lane>>> {
        if !text::can_be(name) {
            return Ok(None);
        }
        let params = params![vec![namespace.0], vec![name.to_owned()]];
        self.first(sql::lanes::BY_NAME, params, lanes::from_row)
    }

    fn lane_by_id(&mut self, id: LaneId) -> Result<Arc<Lane>> {
        if let Some(seen) = self.seen.lanes.get(&id) {
            return Ok(Arc::clone(seen));
        }
        let found = self.first(sql::lanes::BY_ID, params![vec![id.0]], lanes::from_row)?;
        let found = found.ok_or_else(|| missing("lane", id.0))?;
        self.seen.lanes.insert(id, Arc::clone(&found));
        Ok(found)
    }

    fn lanes(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Arc<Lane>>> {
        let params = params![namespace.0, text::bound(after), limit(most)];
        self.all(sql::lanes::AFTER, params, lanes::from_row)
    }

    fn routes(&mut self, namespace: NamespaceId) -> Result<Arc<RouteTable>> {
        if let Some(seen) = self.seen.routes.get(&namespace) {
            return Ok(Arc::clone(seen));
        }
        let params = params![vec![namespace.0], vec![0_i64]];
        let read = |row: &Row| -> error::Result<Arc<Route>> { Ok(routes::from_row(row)?.1) };
        let table = Arc::new(RouteTable::new(self.all(sql::routes::AFTER, params, read)?));
        self.seen.routes.insert(namespace, Arc::clone(&table));
        Ok(table)
    }

    fn find(
        &mut self,
        namespace: NamespaceId,
        ids: &[ExecutionId],
    ) -> Result<Vec<Option<Execution>>> {
        let namespaces = vec![namespace.0; ids.len()];
        let uuids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        let params = params![namespaces, uuids];
        let found = self.all(sql::executions::FIND, params, executions::from_row)?;
        let of = |id: &ExecutionId| found.iter().find(|execution| execution.id == *id).cloned();
        Ok(ids.iter().map(of).collect())
    }

    fn claimable(
        &mut self,
        lane: LaneId,
        routes: &[RouteId],
        most: usize,
    ) -> Result<Vec<Execution>> {
        let routes: Vec<i64> = routes.iter().map(|id| id.0).collect();
        let params = params![lane.0, routes, limit(most)];
        self.all(sql::executions::CLAIMABLE, params, executions::from_row)
    }

    fn due(&mut self, by: Timestamp, most: usize) -> Result<Vec<Execution>> {
        let params = params![by.as_millis(), limit(most)];
        self.all(sql::executions::DUE, params, executions::from_row)
    }

    fn retired(&mut self, by: Timestamp, most: usize) -> Result<Vec<Execution>> {
        let params = params![by.as_millis(), limit(most)];
        self.all(sql::executions::RETIRED, params, executions::from_row)
    }

    fn next_due(&mut self) -> Result<Option<Timestamp>> {
        let due: Option<i64> = only(&self.query(sql::meta::NEXT_DUE, params![])?)?;
        Ok(due.map(Timestamp::from_millis))
    }

    fn owned_by(
        &mut self,
        namespace: NamespaceId,
        worker: &str,
        by: Timestamp,
        most: usize,
    ) -> Result<Vec<Execution>> {
        let params = params![worker.to_owned(), namespace.0, by.as_millis(), limit(most)];
        self.all(sql::executions::OWNED_BY, params, executions::from_row)
    }

    fn count_owned(&mut self, lane: LaneId) -> Result<u32> {
        let rows = self.query(sql::executions::COUNT_OWNED, params![vec![lane.0]])?;
        Ok(load::counts(&rows)?.get(&lane).copied().unwrap_or(0))
    }

    fn keys(&mut self, namespace: NamespaceId, wanted: &[&str]) -> Result<Vec<Option<Key>>> {
        let names = wanted.iter().filter(|name| text::can_be(name));
        let names: Vec<String> = names.map(ToString::to_string).collect();
        let params = params![vec![namespace.0; names.len()], names];
        let found = self.all(sql::keys::FIND, params, keys::from_row)?;
        let of = |name: &&str| found.iter().find(|key| key.key == **name).cloned();
        Ok(wanted.iter().map(of).collect())
    }

    fn inputs(&mut self, rows: &[RowId]) -> Result<Vec<Payload>> {
        let ids: Vec<i64> = rows.iter().map(|row| row.0).collect();
        let found = self.all(sql::payloads::INPUT, params![ids], payloads::input_from_row)?;
        let of = |row: &RowId| found.iter().find(|(id, _)| id == row).map(|(_, input)| &input.0);
        // An empty input has no row.
        Ok(rows.iter().map(|row| of(row).cloned().unwrap_or_default()).collect())
    }

    fn fingerprint(&mut self, row: RowId) -> Result<Option<[u8; 16]>> {
        let params = params![vec![row.0]];
        let found = self.first(sql::payloads::INPUT, params, payloads::input_from_row)?;
        Ok(found.and_then(|(_, (_, fingerprint))| fingerprint))
    }

    fn result(&mut self, row: RowId) -> Result<Option<Payload>> {
        let params = params![vec![row.0]];
        let found = self.first(sql::payloads::RESULT, params, payloads::result_from_row)?;
        Ok(found.map(|(_, result)| result))
    }

    fn past_lease(&mut self, row: RowId, epoch: Epoch) -> Result<Option<PastLease>> {
        let params = params![vec![row.0], vec![integer(epoch.0)]];
        self.first(sql::past_leases::FIND, params, past_leases::from_row)
    }

    fn past_leases(&mut self, row: RowId, after: Epoch, most: usize) -> Result<Vec<PastLease>> {
        let params = params![row.0, integer(after.0), limit(most)];
        self.all(sql::past_leases::AFTER, params, past_leases::from_row)
    }

    fn worker(&mut self, namespace: NamespaceId, instance: &str) -> Result<Option<WorkerRow>> {
        if !text::can_be(instance) {
            return Ok(None);
        }
        let params = params![vec![namespace.0], vec![instance.to_owned()]];
        self.first(sql::workers::FIND, params, workers::from_row)
    }

    fn workers(
        &mut self,
        namespace: NamespaceId,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<WorkerRow>> {
        let params = params![namespace.0, text::bound(after), limit(most)];
        self.all(sql::workers::AFTER, params, workers::from_row)
    }

    fn lapsed_workers(&mut self, by: Timestamp, most: usize) -> Result<Vec<WorkerRow>> {
        let params = params![by.as_millis(), limit(most)];
        self.all(sql::workers::LAPSED, params, workers::from_row)
    }

    fn chores(&mut self, by: Timestamp, most: usize) -> Result<Vec<Chore>> {
        let params = params![by.as_millis(), limit(most)];
        self.all(sql::chores::DUE, params, chores::from_row)
    }

    fn find_chore(&mut self, kind: &ChoreKind) -> Result<Option<Chore>> {
        let kind = json(kind)?;
        self.first(sql::chores::FIND, params![kind], chores::from_row)
    }

    fn requests(&mut self, most: usize) -> Result<Vec<Request>> {
        self.all(sql::inbox::WAITING, params![limit(most)], inbox::from_row)
    }

    fn request(&mut self, id: RequestId) -> Result<Option<Request>> {
        self.first(sql::inbox::FIND, params![vec![id.0]], inbox::from_row)
    }

    fn refused_requests(&mut self, after: Option<RequestId>, most: usize) -> Result<Vec<Request>> {
        let after = after.map_or(i64::MIN, |id| id.0);
        self.all(sql::inbox::REFUSED, params![after, limit(most)], inbox::from_row)
    }

    fn count_requests(&mut self) -> Result<RequestCounts> {
        let counts = self.first(sql::inbox::COUNT, params![], inbox::counts_from_row)?;
        Ok(counts.unwrap_or_default())
    }

    fn events(
        &mut self,
        after: Cursor,
        filter: &EventScan,
        most: usize,
        scan: usize,
    ) -> Result<EventSlice> {
        Ok(events::read(self.link()?, after, filter, most, scan)?)
    }

    fn event_span(&mut self) -> Result<EventSpan> {
        Ok(events::span(self.link()?)?)
    }

    fn list(
        &mut self,
        filter: &ListScan,
        below: Option<RowId>,
        most: usize,
        scan: usize,
    ) -> Result<ListSlice> {
        Ok(list::list(self.link()?, filter, below, most, scan)?)
    }

    fn counts(&mut self, namespace: NamespaceId, lane: Option<LaneId>) -> Result<Vec<Count>> {
        let params = params![namespace.0, lane.map(|lane| lane.0)];
        self.all(sql::executions::COUNTS, params, executions::count_from_row)
    }

    fn execution(&mut self, row: RowId) -> Result<Option<Execution>> {
        if let Some(seen) = self.seen.executions.get(&row) {
            return Ok(Some(seen.clone()));
        }
        self.first(sql::members::BY_ROW, params![vec![row.0]], executions::from_row)
    }

    fn flow(&mut self, namespace: NamespaceId, id: FlowId) -> Result<Option<Flow>> {
        self.first(sql::flows::BY_UUID, params![id.0, namespace.0], flows::from_row)
    }

    fn flow_by_row(&mut self, row: FlowRow) -> Result<Flow> {
        let found = self.first(sql::flows::BY_ROW, params![row.0], flows::from_row)?;
        found.ok_or_else(|| missing("flow", row.0))
    }

    fn is_gated(&mut self, flow: FlowRow) -> Result<bool> {
        self.flow_by_row(flow).map(|flow| flow.is_gated())
    }

    fn member(&mut self, flow: FlowRow, node: &str) -> Result<Option<Execution>> {
        if !text::can_be(node) {
            return Ok(None);
        }
        let params = params![flow.0, node.to_owned()];
        self.first(sql::members::MEMBER, params, executions::from_row)
    }

    fn members(
        &mut self,
        flow: FlowRow,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Execution>> {
        let params = params![flow.0, text::bound(after), limit(most)];
        let members = self.all(sql::members::MEMBERS, params, executions::from_row)?;
        self.look_at_ties(&members)?;
        Ok(members)
    }

    fn count_members(&mut self, flow: FlowRow) -> Result<Vec<MemberCount>> {
        let counts =
            self.all(sql::members::COUNT, params![vec![flow.0]], members::count_from_row)?;
        Ok(counts.into_iter().map(|(_, count)| count).collect())
    }

    fn children(
        &mut self,
        parent: RowId,
        after: Option<RowId>,
        most: usize,
    ) -> Result<Vec<Execution>> {
        let after = after.map_or(i64::MIN, |row| row.0);
        let params = params![parent.0, after, limit(most)];
        self.all(sql::members::CHILDREN, params, executions::from_row)
    }

    fn join(&mut self, target: RowId) -> Result<Option<Join>> {
        if let Some(seen) = self.seen.joins.get(&target) {
            return Ok(seen.clone());
        }
        self.first(sql::joins::OF, params![vec![target.0]], joins::from_row)
    }

    fn edges_from(
        &mut self,
        source: RowId,
        after: Option<RowId>,
        most: usize,
    ) -> Result<Vec<Edge>> {
        let after = after.map_or(i64::MIN, |row| row.0);
        self.all(sql::edges::AFTER, params![source.0, after, limit(most)], edges::from_row)
    }

    fn edges_into(&mut self, target: RowId, bound: bool) -> Result<Vec<Edge>> {
        if let Some(seen) = self.seen.edges_into.get(&target) {
            let wanted = seen.iter().filter(|edge| !bound || edge.bind.is_some());
            return Ok(wanted.cloned().collect());
        }
        self.all(sql::edges::INTO, params![vec![target.0], vec![bound]], edges::from_row)
    }

    fn edge(&mut self, flow: FlowRow, id: EdgeId) -> Result<Option<Edge>> {
        self.first(sql::edges::BY_UUID, params![vec![flow.0], vec![id.0]], edges::from_row)
    }

    fn reach(&mut self, from: &[RowId]) -> Result<Vec<(RowId, RowId)>> {
        let from: Vec<i64> = from.iter().map(|row| row.0).collect();
        let places = self.all(sql::edges::REACH, params![from], edges::place_from_row)?;
        let mut pairs: Vec<_> = places.into_iter().map(|place| (place.0, place.1)).collect();
        pairs.dedup();
        Ok(pairs)
    }

    fn list_flows(
        &mut self,
        filter: &FlowScan,
        below: Option<FlowRow>,
        most: usize,
        scan: usize,
    ) -> Result<FlowSlice> {
        Ok(flows::list(self.link()?, filter, below, most, scan)?)
    }

    fn oldest_ready(&mut self, lane: LaneId) -> Result<Option<Timestamp>> {
        let since: Option<i64> =
            only(&self.query(sql::executions::OLDEST_READY, params![lane.0])?)?;
        Ok(since.map(Timestamp::from_millis))
    }

    fn expired_leases(
        &mut self,
        namespace: NamespaceId,
        as_of: Timestamp,
        after: Option<(Timestamp, ExecutionId)>,
        most: usize,
    ) -> Result<Vec<Execution>> {
        let (until, id) = after.map(|(until, id)| (until.as_millis(), id.0)).unzip();
        let params = params![namespace.0, as_of.as_millis(), until, id, limit(most)];
        self.all(sql::executions::EXPIRED_LEASES, params, executions::from_row)
    }
}
