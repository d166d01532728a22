//! One connection, and how statements travel over it.
//!
//! A link has a runtime of its own and blocks the calling thread, so it is never used on a thread
//! of another runtime: the engine gives every store a thread. Statements that are handed over
//! together are sent together, and cost one round trip.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use everloom_core::{Code, Error};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{self, Fault, Result};
use crate::target::Target;
use crate::tls;

/// A value to bind.
pub(crate) type Param = Box<dyn ToSql + Sync + Send>;

/// Boxes values to bind.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::link::Param),*]
    };
}
pub(crate) use params;

/// A statement on its way.
pub(crate) enum Step {
    /// Prepared once per connection.
    Prepared(&'static str, Vec<Param>),
    /// As it is: for what begins and ends transactions.
    Plain(&'static str),
}

/// The oldest server this crate works with.
const OLDEST_SERVER: i32 = 13;

/// How long a transaction of ours may stand still before the server ends it: locks of a process
/// that was stopped must not outlive it.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection that is made again when it was lost.
pub(crate) struct Link {
    target: Arc<Target>,
    runtime: Runtime,
    client: Option<Client>,
    statements: HashMap<&'static str, Statement>,
    server_version: String,
    counters: Counters,
    /// How long statements wait for locks, if not for the busy timeout.
    patience: Option<Duration>,
}

/// What a connection was used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Statements that were run.
    pub statements: u64,
    /// How often the server was waited for.
    pub round_trips: u64,
}

impl Link {
    pub(crate) fn open(target: &Arc<Target>) -> everloom_core::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::new(Code::Unavailable, format!("no runtime: {error}")))?;
        let mut link = Self {
            target: Arc::clone(target),
            runtime,
            client: None,
            statements: HashMap::new(),
            server_version: String::new(),
            counters: Counters::default(),
            patience: None,
        };
        link.connect()?;
        Ok(link)
    }

    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    pub(crate) fn server_version(&self) -> &str {
        &self.server_version
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Forgets the connection; the next use makes another.
    pub(crate) fn drop_connection(&mut self) {
        self.client = None;
        self.statements.clear();
    }

    /// Makes the connection again if it was lost, for as long as a server takes to restart.
    pub(crate) fn revive(&mut self) -> everloom_core::Result<()> {
        if self.client.as_ref().is_some_and(|client| !client.is_closed()) {
            return Ok(());
        }
        let deadline = Instant::now() + self.target.options.connect_timeout;
        loop {
            match self.connect() {
                Err(error) if error.code() == Code::Unavailable && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                result => return result,
            }
        }
    }

    fn connect(&mut self) -> everloom_core::Result<()> {
        self.drop_connection();
        let target = Arc::clone(&self.target);
        let (client, version) = self.runtime.block_on(connect(&target))?;
        self.client = Some(client);
        self.server_version = version;
        self.apply_patience()
    }

    /// From now on statements wait so long for locks.
    pub(crate) fn be_patient(&mut self, patience: Duration) -> everloom_core::Result<()> {
        if self.patience == Some(patience) {
            return Ok(());
        }
        self.patience = Some(patience);
        self.apply_patience()
    }

    fn apply_patience(&mut self) -> everloom_core::Result<()> {
        let Some(patience) = self.patience else { return Ok(()) };
        self.script(&format!("SET lock_timeout TO {}", patience.as_millis()))?;
        Ok(())
    }

    /// Runs statements one after the other in one round trip. The first error counts: those that
    /// follow it only say that the transaction has failed.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<Vec<Vec<Row>>> {
        self.prepare(steps)?;
        let client = self.client.as_ref().ok_or_else(closed)?;
        self.counters.statements += steps.len() as u64;
        self.counters.round_trips += 1;
        let statements = &self.statements;
        let answers = steps.iter().map(|step| -> Answer<'_> {
            match step {
                Step::Plain(sql) => Box::pin(async {
                    client.batch_execute(sql).await?;
                    Ok(Vec::new())
                }),
                Step::Prepared(sql, params) => {
                    let statement = &statements[sql];
                    let params: Vec<&(dyn ToSql + Sync)> =
                        params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
                    Box::pin(async move { client.query(statement, &params).await })
                }
            }
        });
        let answers = self.runtime.block_on(in_order(answers.collect()));
        Ok(answers.into_iter().collect::<std::result::Result<Vec<_>, _>>()?)
    }

    /// Runs one statement.
    pub(crate) fn query(&mut self, sql: &'static str, params: Vec<Param>) -> Result<Vec<Row>> {
        let answers = self.run(&[Step::Prepared(sql, params)])?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    /// Runs statements as they are, without values, and returns the first text of the last row.
    pub(crate) fn script(&mut self, sql: &str) -> Result<Option<String>> {
        let client = self.client.as_ref().ok_or_else(closed)?;
        Ok(last_text(self.runtime.block_on(client.simple_query(sql))?))
    }

    fn prepare(&mut self, steps: &[Step]) -> Result<()> {
        let client = self.client.as_ref().ok_or_else(closed)?;
        let mut unknown: Vec<&'static str> = Vec::new();
        for step in steps {
            if let Step::Prepared(sql, _) = step
                && !self.statements.contains_key(sql)
                && !unknown.contains(sql)
            {
                unknown.push(sql);
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let prepared = unknown.iter().map(|sql| -> Prepared<'_> { Box::pin(client.prepare(sql)) });
        let prepared = self.runtime.block_on(in_order(prepared.collect()));
        for (sql, statement) in unknown.into_iter().zip(prepared) {
            self.statements.insert(sql, statement?);
        }
        Ok(())
    }
}

type Later<'a, T> =
    Pin<Box<dyn Future<Output = std::result::Result<T, tokio_postgres::Error>> + Send + 'a>>;
pub(crate) type Answer<'a> = Later<'a, Vec<Row>>;
pub(crate) type Prepared<'a> = Later<'a, Statement>;

/// Waits for all. Each is polled first in the order given, which is when it is sent.
pub(crate) async fn in_order<T>(
    mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>,
) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut waiting = false;
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *done = Some(value),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// The first text of the last row.
pub(crate) fn last_text(messages: Vec<SimpleQueryMessage>) -> Option<String> {
    let row = messages.into_iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })?;
    row.get(0).map(str::to_owned)
}

fn closed() -> Fault {
    Fault::Core(Error::conflict("the connection to the database was lost; try again"))
}

async fn connect(target: &Target) -> everloom_core::Result<(Client, String)> {
    let (client, connection) = dial(target).await?;
    let version = connection.parameter("server_version").unwrap_or_default().to_owned();
    tokio::spawn(connection);
    set_up(&client, target, &version).await?;
    Ok((client, version))
}

/// A connection whose messages are handed on.
pub(crate) async fn connect_listening(
    target: &Target,
) -> everloom_core::Result<(Client, mpsc::UnboundedReceiver<AsyncMessage>)> {
    let (client, mut connection) = dial(target).await?;
    let version = connection.parameter("server_version").unwrap_or_default().to_owned();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    set_up(&client, target, &version).await?;
    Ok((client, receiver))
}

type Connection = tokio_postgres::Connection<
    tokio_postgres::Socket,
    <MakeRustlsConnect as MakeTlsConnect<tokio_postgres::Socket>>::Stream,
>;

async fn dial(target: &Target) -> everloom_core::Result<(Client, Connection)> {
    let tls = tls::connector(target.verify, &target.roots)?;
    let connecting = target.config.connect(tls);
    tokio::time::timeout(target.options.connect_timeout, connecting)
        .await
        .map_err(|_| {
            Error::new(Code::Unavailable, format!("{} does not answer in time", target.place))
        })?
        .map_err(|error| error::refusal(&error, &target.place))
}

async fn set_up(client: &Client, target: &Target, version: &str) -> everloom_core::Result<()> {
    check_version(version)?;
    client
        .batch_execute(&session_settings(target))
        .await
        .map_err(|error| error::refusal(&error, &target.place))
}

fn check_version(version: &str) -> everloom_core::Result<()> {
    let digits = version.split(|c: char| !c.is_ascii_digit()).next();
    let major: Option<i32> = digits.and_then(|digits| digits.parse().ok());
    match major {
        Some(major) if major < OLDEST_SERVER => Err(Error::new(
            Code::Unsupported,
            format!("PostgreSQL {version} is too old; use {OLDEST_SERVER} or newer"),
        )),
        _ => Ok(()),
    }
}

/// Plans are made once per connection, perhaps while the tables are still empty, and must stay
/// right when they are not. Every statement of ours is meant to go through an index with the few
/// rows it was given, so the planner gets no other choice.
fn session_settings(target: &Target) -> String {
    format!(
        "SET search_path TO \"{}\";
         SET plan_cache_mode TO force_generic_plan;
         SET enable_seqscan TO off;
         SET enable_hashjoin TO off;
         SET enable_mergejoin TO off;
         SET enable_bitmapscan TO off;
         SET jit TO off;
         SET standard_conforming_strings TO on;
         SET default_transaction_isolation TO 'read committed';
         SET default_transaction_read_only TO off;
         SET client_min_messages TO warning;
         SET lock_timeout TO {};
         SET statement_timeout TO {};
         SET idle_in_transaction_session_timeout TO {};",
        target.schema,
        target.options.busy_timeout.as_millis(),
        target.options.statement_timeout.as_millis(),
        IDLE_TIMEOUT.as_millis(),
    )
}
