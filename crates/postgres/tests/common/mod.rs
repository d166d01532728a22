//! A schema for a test, and a way to look at it from outside.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::sync::atomic::{AtomicU32, Ordering};

use everloom_core::*;
use everloom_postgres::{Options, PgStore};

/// The database to test in.
pub(crate) fn server() -> String {
    std::env::var("EVERLOOM_TEST_POSTGRES").expect(
        "EVERLOOM_TEST_POSTGRES names a PostgreSQL database to test in; ./scripts/test sets it",
    )
}

/// A schema of its own, which goes away with it. Its name is also that of its connections.
pub(crate) struct Schema {
    pub(crate) name: String,
    pub(crate) url: String,
}

impl Schema {
    pub(crate) fn new(test: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("t_{test}_{}_{number}", std::process::id());
        let url = format!("{}?schema={name}&application_name={name}", server());
        Self { name, url }
    }

    pub(crate) fn open(&self) -> PgStore {
        PgStore::open(&self.url, &Options::default()).expect("a new schema opens")
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        Admin::new().run(&format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.name));
    }
}

/// A connection that is not the store's.
pub(crate) struct Admin {
    runtime: tokio::runtime::Runtime,
    client: tokio_postgres::Client,
}

impl Admin {
    pub(crate) fn new() -> Self {
        Self::at(&server())
    }

    /// In a database of another server.
    pub(crate) fn at(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (client, connection) = runtime
            .block_on(tokio_postgres::connect(url, tokio_postgres::NoTls))
            .expect("the server lets us in");
        runtime.spawn(connection);
        Self { runtime, client }
    }

    pub(crate) fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).expect("a statement runs");
    }

    /// The only number a statement returns.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(sql, &[])).expect("a row").get(0)
    }

    /// The only text a statement about a name returns.
    pub(crate) fn text(&self, sql: &str, name: &str) -> String {
        self.runtime.block_on(self.client.query_one(sql, &[&name])).expect("a row").get(0)
    }

    /// Writes a file of the server, as the server's user and for nobody else to read.
    pub(crate) fn write_file(&self, name: &str, text: &str) {
        self.run(&format!(
            "DO $do$ BEGIN
                 EXECUTE format(
                     'COPY (SELECT unnest(string_to_array(%L, chr(10)))) TO PROGRAM %L',
                     $text${text}$text$,
                     'umask 077 && cat >' || current_setting('data_directory') || '/{name}');
             END $do$"
        ));
    }

    /// Ends the connections of a schema's stores; says how many there were.
    pub(crate) fn terminate(&self, schema: &Schema) -> i64 {
        self.number(&format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
             WHERE application_name = '{}'",
            schema.name
        ))
    }
}

struct System;

impl Clock for System {
    fn now(&self) -> Timestamp {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap())
    }
}

/// Runs commands of one kind in one transaction.
pub(crate) fn run_all<C: Command>(
    store: &mut dyn Store,
    commands: impl IntoIterator<Item = C>,
) -> Vec<Result<C::Output>> {
    let mut calls: Vec<_> = commands
        .into_iter()
        .map(|command| Call::new(command, Seed::from_number(rand_seed())))
        .collect();
    let mut jobs: Vec<&mut dyn Job> = calls.iter_mut().map(|call| call as &mut dyn Job).collect();
    run_batch(store, &mut jobs, &Settings::default(), &System);
    // As the engine does it, which does not leave a caller alone with a slow neighbour.
    while calls.iter().any(is_locked_out) {
        let locked_out = calls.iter_mut().filter(|call| is_locked_out(call));
        let mut jobs: Vec<&mut dyn Job> = locked_out.map(|call| call as &mut dyn Job).collect();
        run_batch(store, &mut jobs, &Settings::default(), &System);
    }
    calls.into_iter().map(Call::into_answer).collect()
}

fn is_locked_out<C: Command>(call: &Call<C>) -> bool {
    call.refusal().is_some_and(|error| error.again() == Some(Again::Locked))
}

/// Runs one command.
pub(crate) fn run<C: Command>(store: &mut dyn Store, command: C) -> Result<C::Output> {
    run_all(store, [command]).remove(0)
}

fn rand_seed() -> u64 {
    uuid::Uuid::now_v7().as_u64_pair().1
}

/// Asks a question.
pub(crate) fn ask<Q: Query>(source: &mut dyn Source, query: &Q) -> Result<Q::Output> {
    let mut read = source.read()?;
    let now = read.now(&System)?;
    let settings = Settings::default();
    query.run(&mut *read, &Context::new(now, &settings, Seed::from_number(0)))
}

/// Submits so many executions.
pub(crate) fn submit(count: usize) -> Submit {
    let executions = (0..count).map(|_| NewExecution::new("work")).collect();
    Submit { namespace: DEFAULT_NAME.into(), executions }
}

/// Claims up to so many.
pub(crate) fn up_to(max: usize) -> Claim {
    Claim { max, ..Claim::new("w") }
}

/// Completes what was leased.
pub(crate) fn complete(leased: &Leased) -> Complete {
    Complete {
        namespace: leased.namespace.clone(),
        lease: leased.lease.clone(),
        result: Payload::default(),
    }
}
