//! `everloom migrate`: brings a database to the schema this program works with.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use everloom::{Code, Engine};

/// Bring a database to the schema this version works with
///
/// Creates what is missing and changes nothing else. Programs that open an engine do this by
/// themselves unless told otherwise; run it by hand to choose the moment.
///
/// Example: everloom migrate --store app.db --dry-run
#[derive(Args)]
pub(crate) struct Migrate {
    /// The database: a path, sqlite://…, a file: URI or postgres://…
    #[arg(long)]
    store: String,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Migrate {
    pub(crate) async fn run(self) -> Result<()> {
        let options = || Engine::options().ticks(false);
        match options().migrate(false).open(&self.store).await {
            Ok(engine) => return report(&engine, "is up to date").await,
            Err(error) if error.code() != Code::MigrationNeeded => return Err(error.into()),
            Err(error) if self.dry_run => {
                println!("{}\nIt would be migrated; nothing was changed.", error.message());
                return Ok(());
            }
            Err(_) => {}
        }
        let engine = options().open(&self.store).await?;
        report(&engine, "was migrated").await
    }
}

async fn report(engine: &Engine, what: &str) -> Result<()> {
    let store = engine.about().await?.store.context("an engine has a store")?;
    println!("The {} database {what}: schema {}.", store.store, store.schema);
    engine.close(Duration::from_secs(5)).await;
    Ok(())
}
