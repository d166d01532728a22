//! Submitting within a transaction of the caller's own, on the same file.

use std::time::{SystemTime, UNIX_EPOCH};

use everloom_core::{
    Call, Clock, DEFAULT_NAME, Error, Limits, NewExecution, Read, Result, Seed, Settings,
    Submission, Submit, Submitted, Timestamp, run_within,
};
use rusqlite::{Connection, Transaction};

use crate::caches::Caches;
use crate::error::Fault;
use crate::migrate;
use crate::sql;
use crate::view::View;

/// Submits one execution, into the default namespace, within the caller's transaction. See
/// [`Submitter`].
pub fn submit(tx: &Transaction<'_>, execution: NewExecution) -> Result<Submission> {
    Submitter::default().submit(tx, execution)
}

/// Submits within transactions of the caller's own: together with the caller's rows an execution is
/// there at the commit, which wakes the workers of all processes, and gone at a rollback.
///
/// The connection must be one to the file an engine keeps its rows in. The ordinary rule runs; what
/// it refuses leaves the transaction as it was, and usable. Begin with
/// [`rusqlite::TransactionBehavior::Immediate`]: a transaction that has read before it writes can
/// be refused as `unavailable` when another one has written meanwhile.
///
/// ```
/// # use everloom_core::NewExecution;
/// # use everloom_sqlite::{Location, Options, SqliteStore};
/// # use rusqlite::{Connection, TransactionBehavior};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("app.db");
/// # SqliteStore::open(&Location::parse(file.to_str().unwrap())?, &Options::default())?;
/// let mut conn = Connection::open(&file)?;
/// # conn.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")?;
/// let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
/// tx.execute("INSERT INTO orders (id) VALUES (?1)", [17])?;
/// everloom_sqlite::submit(&tx, NewExecution::new("ship_order").key("order-17"))?;
/// tx.commit()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Submitter {
    namespace: String,
    settings: Settings,
}

impl Default for Submitter {
    fn default() -> Self {
        Self { namespace: DEFAULT_NAME.into(), settings: Settings::default() }
    }
}

impl Submitter {
    /// Submits into this namespace (`default`).
    pub fn namespace(mut self, name: &str) -> Self {
        name.clone_into(&mut self.namespace);
        self
    }

    /// The bounds on what may be asked for; those the engine was opened with.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Submits one execution.
    pub fn submit(&self, tx: &Transaction<'_>, execution: NewExecution) -> Result<Submission> {
        let submitted = self.submit_batch(tx, vec![execution])?;
        submitted.first().copied().ok_or_else(|| Error::bug("a submission got no answer"))
    }

    /// Submits executions, all of them or none. The answers are in the order given.
    pub fn submit_batch(
        &self,
        tx: &Transaction<'_>,
        executions: Vec<NewExecution>,
    ) -> Result<Vec<Submission>> {
        migrate::check_current(tx)?;
        let submit = Submit { namespace: self.namespace.clone(), executions };
        let run =
            |sql: &str| tx.execute_batch(sql).map_err(|error| Error::from(Fault::from(error)));
        run(sql::SAVEPOINT)?;
        let result = self.run(tx, submit);
        // After some errors SQLite has ended the whole transaction by itself.
        if !tx.is_autocommit() {
            run(if result.is_ok() { sql::RELEASE } else { sql::ROLLBACK_TO_SAVEPOINT })?;
        }
        Ok(result?.executions)
    }

    fn run(&self, conn: &Connection, submit: Submit) -> Result<Submitted> {
        // Nothing is remembered: what the caller's transaction has made may be rolled back.
        let mut caches = Caches::default();
        let mut view = View::within(conn, &mut caches);
        let now = view.now(&System)?;
        let mut call = Call::new(submit, Seed::random());
        if run_within(&mut view, &mut call, &self.settings, now)? {
            view.stamp(now)?;
        }
        call.into_answer()
    }
}

struct System;

impl Clock for System {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(0) + since
    }
}
