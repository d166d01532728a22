//! The `everloom` program: data on stdout, everything else on stderr.

mod commands;

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A durable execution engine on one SQLite file.
#[derive(Parser)]
#[command(name = "everloom", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    /// Run a few hundred executions on a fresh file, losing a worker on the way
    Demo(commands::demo::Demo),
}

#[tokio::main]
async fn main() -> ExitCode {
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_ansi(colours)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    let done = match Cli::parse().command {
        Commands::Demo(demo) => demo.run().await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
