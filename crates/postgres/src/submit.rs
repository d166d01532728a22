//! Submitting within a transaction of the caller's own.

use std::collections::{BTreeSet, HashMap};

use everloom_core::{
    Again, Call, Code, DEFAULT_NAME, Error, Limits, NewExecution, Result, Seed, Settings,
    Submission, Submit,
};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, SimpleQueryMessage, Statement, Transaction};

use crate::batch::{Apart, Next};
use crate::error::{self, Fault};
use crate::exchange::{Changes, Loaded, Wants};
use crate::flush::{Told, flush};
use crate::link::{Answer, Prepared, Step, in_order, params};
use crate::load::{self, Locks};
use crate::migrate::SCHEMA_VERSION;
use crate::options::TimeSource;
use crate::round::Round;
use crate::sql;
use crate::target::{self, DEFAULT_SCHEMA};

/// Submits one execution, into the default namespace of the schema `everloom`, within the caller's
/// transaction. See [`Submitter`].
pub async fn submit(tx: &mut Transaction<'_>, execution: NewExecution) -> Result<Submission> {
    Submitter::default().submit(tx, execution).await
}

/// Submits within transactions of the caller's own: together with the caller's rows an execution is
/// there at the commit, which wakes the workers of all processes, and gone at a rollback.
///
/// The ordinary rule runs, at the database's time; what it refuses leaves the transaction as it
/// was, and usable. Dropping the future takes back what it did and nothing else.
///
/// The transaction may stay open: it locks no row that exists, so that nobody's claims and nobody's
/// submissions wait for it, with three exceptions that lie in what is new. Whoever uses the same
/// new idempotency key or id waits for its end; so does whoever uses a namespace or lane that it is
/// the first to use; and while it is the first to use a kind (or a kind with these capabilities),
/// so does whoever brings another new kind into the namespace. In a lane in which keys take turns,
/// whoever submits for the same key waits, too; and a budget or quota that it names is not removed
/// meanwhile. A lane that is drained meanwhile still takes what was submitted before.
///
/// ```no_run
/// # use everloom_core::NewExecution;
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// tx.execute("INSERT INTO orders (id) VALUES ($1)", &[&17_i64]).await?;
/// let new = NewExecution::new("ship_order").key("order-17");
/// everloom_postgres::submit(&mut tx, new).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Submitter {
    schema: String,
    namespace: String,
    settings: Settings,
}

impl Default for Submitter {
    fn default() -> Self {
        Self {
            schema: DEFAULT_SCHEMA.into(),
            namespace: DEFAULT_NAME.into(),
            settings: Settings::default(),
        }
    }
}

/// How often a submission runs again because of other transactions.
const CONFLICTS: usize = 5;

/// How often rows are loaded. Each round adds some, so that few suffice.
const ROUNDS: usize = 50;

/// What the listening processes are told: there are events without a number.
const SUBMITTED: &str = "submitted";

impl Submitter {
    /// Uses the engine in this schema (`everloom`).
    pub fn schema(mut self, schema: &str) -> Self {
        schema.clone_into(&mut self.schema);
        self
    }

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
    pub async fn submit(
        &self,
        tx: &mut Transaction<'_>,
        execution: NewExecution,
    ) -> Result<Submission> {
        let submitted = self.submit_batch(tx, vec![execution]).await?;
        submitted.first().copied().ok_or_else(|| Error::bug("a submission got no answer"))
    }

    /// Submits executions, all of them or none. The answers are in the order given.
    pub async fn submit_batch(
        &self,
        tx: &mut Transaction<'_>,
        executions: Vec<NewExecution>,
    ) -> Result<Vec<Submission>> {
        target::check_schema(&self.schema).map_err(|problem| Error::invalid("schema", problem))?;
        let submit = Submit { namespace: self.namespace.clone(), executions };
        let mut call = Call::new(submit, Seed::random());
        let mut conflicts = 0;
        loop {
            let savepoint = tx.savepoint("everloom_submit").await.map_err(Fault::from)?;
            let done = self.run(&savepoint, &mut call).await;
            // Also takes back what was set for the statements in between.
            let ended = match done {
                Ok(true) => savepoint.commit().await,
                Ok(false) | Err(_) => savepoint.rollback().await,
            };
            match done {
                Err(error) if error.again() == Some(Again::Conflict) && conflicts < CONFLICTS => {
                    ended.map_err(Fault::from)?;
                    conflicts += 1;
                }
                Err(error) => return Err(error),
                Ok(_) => {
                    ended.map_err(Fault::from)?;
                    return Ok(call.into_answer()?.executions);
                }
            }
        }
    }

    /// Runs the rule and writes what it wrote, if anything.
    async fn run(&self, tx: &Transaction<'_>, call: &mut Call<Submit>) -> Result<bool> {
        let search_path = self.enter(tx).await?;
        let mut apart = Apart::default();
        let mut told = Told::default();
        for _ in 0..ROUNDS {
            match apart.run(call, &self.settings)? {
                Next::Load(wants) => {
                    let loaded = load(tx, &wants).await?;
                    told.note(&wants, &loaded);
                    apart.merge(*wants, loaded);
                }
                Next::Write(changes) => {
                    self.write(tx, &changes, &told, search_path).await?;
                    return Ok(true);
                }
                Next::Nothing => return Ok(false),
            }
        }
        Err(Error::bug("a submission asked for more and more rows"))
    }

    /// Makes sure that the schema is the current one, and lets statements find its tables. Says
    /// where the caller's find theirs.
    async fn enter(&self, tx: &Transaction<'_>) -> Result<String> {
        let schema = &self.schema;
        let script = format!(
            "SELECT current_setting('search_path');
             SELECT max(version) FROM \"{schema}\".migrations;
             SELECT set_config('search_path', '\"{schema}\"', true)"
        );
        let messages = tx.simple_query(&script).await.map_err(|error| self.refusal(&error))?;
        let mut texts = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default()),
            _ => None,
        });
        let search_path = texts.next().unwrap_or_default().to_owned();
        let version = texts.next().and_then(|text| text.parse().ok()).unwrap_or(0);
        match version {
            SCHEMA_VERSION => Ok(search_path),
            0..SCHEMA_VERSION => Err(self.outdated(version)),
            _ => Err(Error::new(
                Code::SchemaTooNew,
                format!(
                    "the schema {schema} has version {version} and this program only knows \
                     {SCHEMA_VERSION}; upgrade Everloom"
                ),
            )),
        }
    }

    fn outdated(&self, version: u32) -> Error {
        Error::new(
            Code::MigrationNeeded,
            format!(
                "the schema {} has version {version} and this program needs {SCHEMA_VERSION}; \
                 open an engine on it first",
                self.schema
            ),
        )
    }

    fn refusal(&self, error: &tokio_postgres::Error) -> Error {
        match error.code() {
            Some(&SqlState::UNDEFINED_TABLE) => self.outdated(0),
            _ => error::translate(error),
        }
    }

    async fn write(
        &self,
        tx: &Transaction<'_>,
        changes: &Changes,
        told: &Told,
        search_path: String,
    ) -> Result<()> {
        let mut flush = flush(changes, told, NO_ENGINE)?;
        let channel = target::channel(&self.schema);
        flush.steps.extend([
            Step::Prepared(sql::meta::NOTIFY, params![channel, SUBMITTED]),
            Step::Prepared(sql::meta::SET_SEARCH_PATH, params![search_path]),
        ]);
        let answers = send(tx, &flush.steps).await?;
        match flush.is_spoilt(&answers) {
            true => Err(Error::conflict("an idempotency key was changed meanwhile")),
            false => Ok(()),
        }
    }
}

/// The source of what a program writes in its own transaction: every engine hears of it.
const NO_ENGINE: i64 = 0;

/// Loads without a lock: the caller's transaction may stay open for long.
async fn load(tx: &Transaction<'_>, wants: &Wants) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    let mut round = Round::new();
    load::ask(&mut round, wants, &BTreeSet::new(), Locks::None, TimeSource::Database)?;
    let answers = send(tx, round.steps()).await?;
    round.read(&answers, &mut loaded)?;
    load::leave_each_once(&mut loaded);
    Ok(loaded)
}

/// Runs statements one after the other in two round trips: one prepares them.
async fn send(tx: &Transaction<'_>, steps: &[Step]) -> error::Result<Vec<Vec<Row>>> {
    let texts = steps.iter().filter_map(|step| match step {
        Step::Prepared(sql, _) => Some(*sql),
        Step::Plain(_) => None,
    });
    let texts: Vec<&'static str> = texts.collect();
    let prepared = texts.iter().map(|sql| -> Prepared<'_> { Box::pin(tx.prepare(sql)) });
    let prepared = in_order(prepared.collect()).await;
    let mut statements: HashMap<&'static str, Statement> = HashMap::new();
    for (sql, statement) in texts.into_iter().zip(prepared) {
        statements.insert(sql, statement?);
    }
    let answers = steps.iter().map(|step| -> Answer<'_> {
        match step {
            Step::Plain(sql) => Box::pin(async {
                tx.batch_execute(sql).await?;
                Ok(Vec::new())
            }),
            Step::Prepared(sql, params) => {
                let statement = &statements[sql];
                let params: Vec<&(dyn ToSql + Sync)> =
                    params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
                Box::pin(async move { tx.query(statement, &params).await })
            }
        }
    });
    let answers = in_order(answers.collect()).await;
    Ok(answers.into_iter().collect::<std::result::Result<Vec<_>, _>>()?)
}
