//! `everloom migrate`: brings a database to the schema this program works with.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use everloom::{Engine, examine};

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
    /// Only list what would be done
    #[arg(long)]
    dry_run: bool,
}

impl Migrate {
    pub(crate) async fn run(self) -> Result<()> {
        let found = examine(&self.store).await?;
        let (has, wants) = (found.store.schema, found.wanted_schema);
        if self.dry_run && has < wants {
            println!("The {} database has schema {has}. To be applied:", found.store.store);
            for (version, name) in (has + 1..).zip(&found.pending) {
                println!("  {version} {name}");
            }
            println!("Nothing was changed.");
            return Ok(());
        }
        // Opening checks more than that, and refuses a schema that is too new.
        let engine =
            Engine::options().ticks(false).migrate(!self.dry_run).open(&self.store).await?;
        let store = engine.about().await?.store.context("an engine has a store")?;
        let what = if has < wants { "was migrated" } else { "is up to date" };
        println!("The {} database {what}: schema {}.", store.store, store.schema);
        engine.close(Duration::from_secs(5)).await;
        Ok(())
    }
}
