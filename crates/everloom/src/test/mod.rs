//! For tests of handlers: an engine in memory whose clock is moved by hand, and crashes wherever
//! they may happen.
//!
//! ```
//! use everloom::handler::Error;
//! use everloom::test::TestKit;
//! use everloom::{Ctx, Status};
//! use std::time::Duration;
//!
//! async fn remind(ctx: Ctx, name: String) -> Result<String, Error> {
//!     ctx.sleep(Duration::from_secs(365 * 86_400)).await?;
//!     Ok(format!("Happy birthday, {name}!"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> everloom::Result<()> {
//! let kit = TestKit::new(|worker| worker.handle("remind", remind)).await?;
//! let id = kit.engine().submit("remind", &"Ada").await?.id();
//! kit.run().await?;
//! assert_eq!(kit.engine().get(id).await?.status, Status::Delayed);
//! kit.advance(Duration::from_secs(365 * 86_400)).await?;
//! let greeting: String = kit.result(id).await?;
//! assert_eq!(greeting, "Happy birthday, Ada!");
//! # Ok(())
//! # }
//! ```

mod crash;

pub use crash::{CrashTest, Crashed, crash_at_every_step};

use std::sync::Arc;
use std::time::Duration;

use everloom_core::{Clock, ExecutionId, Result, Tick, Timestamp};
use serde::de::DeserializeOwned;

use crate::backend::Backend;
use crate::call::read_result;
use crate::worker::pump::Shared;
use crate::{Engine, ManualClock, Worker};

/// An engine in memory with a worker. Nothing happens unless it is told to: time stands still, and
/// handlers run when [`TestKit::run`] or [`TestKit::advance`] says so.
pub struct TestKit {
    engine: Engine,
    clock: ManualClock,
    worker: Arc<Shared>,
}

const AGES: Duration = Duration::from_secs(100 * 365 * 86_400);

/// When it all begins: a Monday.
const START: Timestamp = Timestamp::from_millis(1_767_571_200_000);

impl TestKit {
    /// A kit whose worker has what `equip` gives it.
    pub async fn new(equip: impl FnOnce(Worker) -> Worker) -> Result<Self> {
        Self::with(equip, |engine| engine).await
    }

    /// A kit whose worker goes through something else to its engine.
    async fn with<B: Backend>(
        equip: impl FnOnce(Worker) -> Worker,
        wrap: impl FnOnce(Engine) -> B,
    ) -> Result<Self> {
        let clock = ManualClock::new(START);
        // Nothing is removed, so that time may be moved by years without a stop every minute.
        let options = Engine::options().clock(clock.clone()).ticks(false).sweep_every(AGES);
        let engine = options.open("memory").await?;
        let worker = equip(Worker::new(wrap(engine.clone())).instance("test"));
        let kit = Self { engine, clock, worker: Shared::of(worker) };
        kit.worker.register_once().await?;
        Ok(kit)
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Runs everything that can run now, until all of it is over or waits.
    pub async fn run(&self) -> Result<()> {
        loop {
            self.tick().await?;
            if !self.worker.work_off().await? {
                return Ok(());
            }
        }
    }

    /// Moves time on, running everything that becomes due, in its order and at its time.
    pub async fn advance(&self, by: Duration) -> Result<()> {
        let until = self.now() + by;
        self.run().await?;
        while let Some(due) = self.tick().await?.filter(|due| *due <= until) {
            self.clock.set(due);
            self.run().await?;
        }
        self.clock.set(until);
        self.run().await
    }

    /// The result of an execution that is over.
    pub async fn result<T: DeserializeOwned>(&self, execution: ExecutionId) -> Result<T> {
        read_result(execution, self.engine.result(execution).await?)
    }

    /// Does what is due; says when something is due next.
    async fn tick(&self) -> Result<Option<Timestamp>> {
        loop {
            let ticked = self.engine.apply(Tick::default()).await?;
            if !ticked.more {
                return Ok(ticked.next_due);
            }
        }
    }
}
