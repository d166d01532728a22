//! The database as a transaction needs it: loads, writes, commits, and finds out about commits
//! whose answer was lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everloom_core::{
    Error, LaneId, ListScan, ListSlice, NamespaceId, Read, Result, RowId, Timestamp,
};
use uuid::Uuid;

use crate::batch::Rows;
use crate::error::{self, Fault};
use crate::exchange::{Changes, Loaded, Wants};
use crate::flush::{Told, flush};
use crate::link::{self, Link, Step, params};
use crate::load::{self, Locks};
use crate::numbering;
use crate::options::TimeSource;
use crate::read::View;
use crate::round::Round;
use crate::rows::{Columns, only};
use crate::sql;
use crate::watch::Watch;

/// A connection that commits.
pub(crate) struct Database {
    pub(crate) link: Link,
    /// Names this connection among those that commit.
    committer: Uuid,
    commits: i64,
    open: Open,
    /// What the last transaction needed when it gave up on a lock: locked first in the next one.
    carried: Wants,
    /// Lanes with a maximum, as last seen: their rows are locked before they are read.
    capped: BTreeMap<(NamespaceId, String), LaneId>,
    watch: Arc<Watch>,
    /// When someone was last found to hold a lock without letting go.
    hindered: Option<Instant>,
}

/// The transaction that is open.
#[derive(Default)]
struct Open {
    begun: bool,
    xid: Option<String>,
    /// What it asked to lock.
    asked: Wants,
    /// Lanes it has for itself.
    exclusive: BTreeSet<LaneId>,
    told: Told,
}

/// How long commands that share a transaction wait for a lock. Those of our own kind are let go of
/// long before that.
const PATIENCE: Duration = Duration::from_millis(500);

/// The same shortly after that was too long: whoever holds the lock still does, and all there is
/// to find out is who needs it.
const SHORT_PATIENCE: Duration = Duration::from_millis(20);
const HINDERED_FOR: Duration = Duration::from_secs(2);

/// How long to go on asking what became of a commit: longer than the server keeps a transaction
/// that nobody goes on with.
const RESOLVE_WITHIN: Duration = link::IDLE_TIMEOUT.saturating_mul(2);

impl Database {
    pub(crate) fn new(link: Link, watch: Arc<Watch>) -> Self {
        Self {
            link,
            committer: Uuid::now_v7(),
            commits: 0,
            open: Open::default(),
            carried: Wants::default(),
            capped: BTreeMap::new(),
            watch,
            hindered: None,
        }
    }

    /// Makes ready for a transaction.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        self.link.revive()?;
        let hindered = self.hindered.is_some_and(|since| since.elapsed() < HINDERED_FOR);
        let patience = if hindered { SHORT_PATIENCE } else { PATIENCE };
        self.link.be_patient(patience.min(self.link.target().options.busy_timeout))
    }

    /// The error to answer with.
    fn explain(&mut self, fault: Fault) -> Error {
        if fault.is_locked() {
            self.hindered = Some(Instant::now());
        }
        fault.into()
    }

    fn clock(&self) -> TimeSource {
        self.link.target().options.clock
    }

    /// Lanes whose rows must be locked before they are read: those with a maximum, whose counter
    /// changes with every claim, and those whose owned executions are about to be counted, which
    /// no claim may change meanwhile.
    fn lanes_to_lock(&self, wants: &Wants) -> BTreeSet<LaneId> {
        let mut lanes = wants.owned_counts.clone();
        lanes.extend(wants.lanes.iter().filter_map(|name| self.capped.get(name)));
        lanes.extend(self.capped.values().filter(|id| wants.lane_ids.contains(id)));
        lanes.retain(|lane| !self.open.exclusive.contains(lane));
        lanes
    }

    fn try_load(&mut self, wants: &Wants) -> error::Result<Loaded> {
        let locks = if self.open.begun { Locks::Try } else { Locks::Wait };
        let exclusive = self.lanes_to_lock(wants);
        let clock = self.clock();
        let mut loaded = Loaded::default();
        let mut xid = None;
        let mut round = Round::new();
        if !self.open.begun {
            round.tell(Step::Plain(sql::BEGIN_WRITE));
            round.ask(sql::meta::XID, params![], |rows, _| {
                xid = Some(only::<String>(rows)?);
                Ok(())
            });
        }
        load::ask(&mut round, wants, &exclusive, locks, clock)?;
        self.open.begun = true;
        round.run(&mut self.link, &mut loaded)?;
        load::leave_each_once(&mut loaded);
        self.open.xid = self.open.xid.take().or(xid);
        self.open.exclusive.extend(exclusive);
        self.note_locked_work(wants, &loaded)?;
        Ok(loaded)
    }

    /// What others have locked may be free again without a commit that would tell of it: whoever
    /// was looking for work looks again soon.
    fn note_locked_work(&mut self, wants: &Wants, loaded: &Loaded) -> error::Result<()> {
        let mut round = Round::new();
        load::ask_for_locked(&mut round, &wants.claims, loaded);
        if round.steps().is_empty() {
            return Ok(());
        }
        let mut locked = false;
        round.run(&mut self.link, &mut locked)?;
        if locked {
            self.watch.look_again_soon();
        }
        Ok(())
    }

    /// Remembers which lanes have a maximum; refuses to go on with one that was not locked.
    fn check_lanes(&mut self, loaded: &Loaded) -> error::Result<()> {
        let mut unlocked = false;
        for lane in &loaded.lanes {
            let name = (lane.namespace, lane.name.clone());
            if lane.max_active.is_none() {
                self.capped.remove(&name);
            } else {
                self.capped.insert(name, lane.id);
                unlocked |= !self.open.exclusive.contains(&lane.id);
            }
        }
        match unlocked {
            true => Err(Error::conflict("a lane's counter was read before it was locked").into()),
            false => Ok(()),
        }
    }

    fn try_commit(&mut self, changes: &Changes, now: Timestamp) -> error::Result<()> {
        let mut flush = flush(changes, &self.open.told, self.watch.source())?;
        let number = self.commits + 1;
        let noted = params![self.committer, number, now.as_millis()];
        flush.steps.push(Step::Prepared(sql::meta::NOTE_COMMIT, noted));
        if self.clock() == TimeSource::Given {
            flush.steps.push(Step::Prepared(sql::meta::ADVANCE, params![now.as_millis()]));
        }
        // What is guarded must be looked at before the commit; else it travels along.
        let at_once = flush.guards.is_empty();
        if at_once {
            flush.steps.push(Step::Plain(sql::COMMIT));
        }
        let answers = self.link.run(&flush.steps);
        // After an error a commit has rolled back.
        self.open.begun = !at_once;
        let answers = answers?;
        if flush.is_spoilt(&answers) {
            return Err(Error::conflict("an idempotency key was changed meanwhile").into());
        }
        if !at_once {
            self.open.begun = false;
            self.link.run(&[Step::Plain(sql::COMMIT)])?;
        }
        Ok(())
    }

    /// Finds out whether a commit has happened whose answer was lost.
    fn resolve(&mut self, fault: Fault) -> Result<()> {
        let reason = Error::from(fault);
        let Some(xid) = self.open.xid.take() else { return Err(reason) };
        let deadline = Instant::now() + RESOLVE_WITHIN;
        loop {
            match self.has_happened(&xid) {
                Ok(Some(true)) => {
                    tracing::warn!(xid, "the answer to a commit was lost; it has happened");
                    return Ok(());
                }
                Ok(Some(false)) => return Err(reason),
                Err(error) if !error.is_retryable() => return Err(error),
                Ok(None) | Err(_) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(None) | Err(_) => {
                    return Err(Error::bug(format!(
                        "it can not be told whether transaction {xid} was committed: the database \
                         stayed away"
                    )));
                }
            }
        }
    }

    /// Nothing while the transaction is still under way.
    fn has_happened(&mut self, xid: &str) -> Result<Option<bool>> {
        self.link.drop_connection();
        self.link.revive()?;
        match self.link.query(sql::meta::XACT_STATUS, params![xid.to_owned()]) {
            Ok(rows) if only::<Option<&str>>(&rows)? == Some("in progress") => return Ok(None),
            // A server that has crashed may not know the id, or may have given it to another.
            Ok(_) | Err(Fault::Postgres(_)) => {}
            Err(fault) => return Err(fault.into()),
        }
        let rows = self.link.query(sql::meta::COMMITS, params![self.committer])?;
        let last = rows.first().map(|row| Columns::of(row).take::<i64>()).transpose()?;
        Ok(Some(last == Some(self.commits + 1)))
    }

    /// Lets events be read: at once if that is asked for, else soon.
    fn number_events(&mut self) {
        if !self.link.target().options.number_at_commit {
            return self.watch.wake();
        }
        if let Err(fault) = numbering::number(&mut self.link) {
            // The watching thread does it as soon as it can.
            let error = Error::from(fault);
            tracing::warn!(%error, "events could not be numbered at once");
            self.watch.wake();
        }
    }

    /// Removes the schema with everything in it.
    pub(crate) fn drop_schema(&mut self) -> Result<()> {
        self.watch.end();
        self.link.revive()?;
        self.link.script(&format!("DROP SCHEMA \"{}\" CASCADE", self.link.target().schema))?;
        self.commits = 0;
        Ok(())
    }

    fn end(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.begun && self.link.run(&[Step::Plain(sql::ROLLBACK)]).is_err() {
            // Without the connection there is no transaction either.
            self.link.drop_connection();
        }
    }
}

impl Rows for &mut Database {
    fn load(&mut self, wants: &Wants) -> Result<Loaded> {
        let first = !self.open.begun;
        let mut wants = wants.clone();
        if first {
            let carried = std::mem::take(&mut self.carried);
            wants.add_locked(&carried);
        }
        self.open.asked.add_locked(&wants);
        let loaded = self.try_load(&wants).and_then(|loaded| {
            self.check_lanes(&loaded)?;
            Ok(loaded)
        });
        match loaded {
            Ok(loaded) => {
                self.open.told.note(&wants, &loaded);
                Ok(loaded)
            }
            Err(fault) => {
                let out_of_order = fault.is_locked() && !first;
                let asked = std::mem::take(&mut self.open.asked);
                // What was waited for in vain is not asked for again on behalf of others.
                if !(fault.is_locked() && first) {
                    self.carried = asked;
                }
                Err(match out_of_order {
                    true => Error::conflict("rows stayed locked by others; try again"),
                    false => self.explain(fault),
                })
            }
        }
    }

    fn commit(&mut self, changes: &Changes, now: Timestamp) -> Result<()> {
        if !self.open.begun {
            self.load(&Wants::default())?;
        }
        match self.try_commit(changes, now) {
            Ok(()) => {}
            Err(fault) if fault.is_lost() => self.resolve(fault)?,
            Err(fault) => return Err(self.explain(fault)),
        }
        self.commits += 1;
        self.open = Open::default();
        if !changes.events.is_empty() {
            self.number_events();
        }
        if !changes.streams.of.is_empty() {
            self.watch.tell_of_streams(&changes.streams.of);
        }
        Ok(())
    }

    fn rollback(&mut self) {
        Database::end(self);
    }

    fn list(
        &mut self,
        filter: &ListScan,
        below: Option<RowId>,
        limit: usize,
        scan: usize,
    ) -> Result<ListSlice> {
        self.direct().list(filter, below, limit, scan)
    }

    fn direct(&mut self) -> Box<dyn Read + '_> {
        Box::new(View::within(&mut self.link))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.end();
        if self.commits > 0 {
            let forget = params![self.committer];
            let _ = self.link.run(&[Step::Prepared(sql::meta::FORGET_COMMITTER, forget)]);
        }
    }
}
