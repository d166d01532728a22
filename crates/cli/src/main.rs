//! The `everloom` program: data on stdout, everything else on stderr.

mod commands;

use std::io::stderr;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A durable execution engine on one SQLite file, or on PostgreSQL.
#[derive(Parser)]
#[command(name = "everloom", version)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    /// Run a few hundred executions on a fresh file, losing a worker on the way
    Demo(commands::demo::Demo),
    /// Bring a database to the schema this version works with
    Migrate(commands::migrate::Migrate),
    /// Look at a database and say what to fix
    Doctor(commands::doctor::Doctor),
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    let done = match Cli::parse().command {
        Commands::Demo(demo) => demo.run().await.map(|()| ExitCode::SUCCESS),
        Commands::Migrate(migrate) => migrate.run().await.map(|()| ExitCode::SUCCESS),
        Commands::Doctor(doctor) => doctor.run().await,
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
