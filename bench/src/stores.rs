//! The databases that are measured: SQLite files in a folder, or schemas in a private PostgreSQL
//! server.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use everloom::{Durability, Engine};
use tokio_postgres::NoTls;

use crate::cpu;
use crate::floor;

/// Which store is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Files.
    Sqlite,
    /// A PostgreSQL server of its own, in its default configuration.
    Postgres,
}

/// Where databases are made. Everything goes away with it.
pub(crate) enum Stores {
    Sqlite(tempfile::TempDir),
    Postgres { server: String, data: PathBuf },
}

/// Set for the program that runs beside the server.
const BESIDE_SERVER: &str = "EVERLOOM_BENCH_BESIDE_SERVER";

/// Starts the server, runs a command, and cleans up, however the command ends.
const WITH_POSTGRES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/with-postgres");

impl Stores {
    /// A new place for databases, in a folder that is meant for temporary ones if none is given.
    /// For PostgreSQL the program is started again, by what starts the server.
    pub(crate) fn open(kind: Kind, folder: Option<&Path>) -> Result<Self> {
        if kind == Kind::Sqlite {
            let mut builder = tempfile::Builder::new();
            builder.prefix("everloom-bench-");
            return Ok(Self::Sqlite(match folder {
                Some(folder) => builder.tempdir_in(folder)?,
                None => builder.tempdir()?,
            }));
        }
        if std::env::var_os(BESIDE_SERVER).is_none() {
            bail!(start_again(folder)?);
        }
        let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is unset"));
        Ok(Self::Postgres {
            server: variable("EVERLOOM_TEST_POSTGRES")?,
            data: variable("EVERLOOM_TEST_POSTGRES_DATA")?.into(),
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres { .. } => "postgres",
        }
    }

    /// Where the databases lie.
    pub(crate) fn folder(&self) -> &Path {
        match self {
            Self::Sqlite(folder) => folder.path(),
            Self::Postgres { data, .. } => data,
        }
    }

    /// Opens the engine on a database.
    pub(crate) async fn engine(&self, name: &str, durability: Durability) -> Result<Engine> {
        let mut url = self.url(name)?;
        if let (Self::Postgres { .. }, Durability::Normal) = (self, durability) {
            url.push_str("&options=-c%20synchronous_commit%3Doff");
        }
        Ok(Engine::options().durability(durability).open(&url).await?)
    }

    /// Lifecycles per second that the floor reaches.
    pub(crate) async fn floor(&self, name: &str) -> Result<f64> {
        match self {
            Self::Sqlite(folder) => floor::sqlite::lifecycles(&folder.path().join(name)),
            Self::Postgres { server, .. } => {
                floor::postgres::lifecycles(server, &self.url(name)?, name).await
            }
        }
    }

    /// Frames per second that the floor reaches on a database with streams.
    pub(crate) async fn stream_floor(&self, name: &str, load: floor::streams::Load) -> Result<f64> {
        match self {
            Self::Sqlite(folder) => floor::streams::sqlite(&folder.path().join(name), load),
            Self::Postgres { server, .. } => floor::streams::postgres(server, name, load).await,
        }
    }

    fn url(&self, name: &str) -> Result<String> {
        Ok(match self {
            Self::Sqlite(folder) => {
                folder.path().join(name).to_str().context("not UTF-8")?.to_owned()
            }
            Self::Postgres { server, .. } => format!("{server}?schema={name}"),
        })
    }

    /// How large a database is.
    pub(crate) async fn mib(&self, name: &str) -> Result<u64> {
        Ok(match self {
            Self::Sqlite(folder) => std::fs::metadata(folder.path().join(name))?.len() >> 20,
            Self::Postgres { server, .. } => {
                let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
                tokio::spawn(connection);
                let row = client.query_one(SCHEMA_MIB, &[&name]).await?;
                u64::try_from(row.get::<_, i64>(0))?
            }
        })
    }

    /// Removes a database, so that it does not burden what is measured next.
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        if let Self::Postgres { server, .. } = self {
            let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
            tokio::spawn(connection);
            client.batch_execute(&format!("DROP SCHEMA \"{name}\" CASCADE; CHECKPOINT")).await?;
        }
        Ok(())
    }

    /// The processor time of this program and of the server so far, in microseconds.
    pub(crate) fn cpu_us(&self) -> cpu::Spent {
        let own = cpu::of_this_process();
        match self {
            Self::Sqlite(_) => cpu::Spent { own, server: 0 },
            Self::Postgres { data, .. } => cpu::Spent { own, server: cpu::of_server(data) },
        }
    }
}

const SCHEMA_MIB: &str = "
    SELECT (coalesce(sum(pg_total_relation_size(pg_class.oid)), 0) / 1048576)::bigint
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = $1 AND relkind = 'r'";

/// Becomes the program that starts the server; returns only what went wrong.
fn start_again(folder: Option<&Path>) -> Result<anyhow::Error> {
    let mut command = Command::new(WITH_POSTGRES);
    command.arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    command.env(BESIDE_SERVER, "1").env("EVERLOOM_TEST_FSYNC", "on");
    if let Some(folder) = folder {
        command.env("TMPDIR", folder);
    }
    let error = command.exec();
    Ok(anyhow::Error::new(error).context(format!("can not run {WITH_POSTGRES}")))
}
