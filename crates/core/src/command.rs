//! What a caller can ask for: commands change things, queries read them.

use std::cell::RefCell;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::model::{
    ExecutionId, FlowId, Limits, Result, Secret, Settings, SignalId, SigningSecret, Timestamp,
    WaitpointId,
};
use crate::store::{Read, Tx};

/// A change, as plain data. Its rule is its [`apply`](Command::apply).
pub trait Command: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its name in every layer.
    const NAME: &'static str;
    /// The answer.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Reads and checks, then writes.
    ///
    /// May run again after a conflict, so it has no effect but on `tx`. Passes every error of
    /// `tx` on. A refusal comes before the first write.
    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Self::Output>;
}

/// A question, as plain data.
pub trait Query: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its name in every layer.
    const NAME: &'static str;
    /// The answer.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Answers from one consistent view.
    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<Self::Output>;
}

/// Where a command's randomness begins. The same on every re-run of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// From the operating system's randomness.
    pub fn random() -> Self {
        Self(rand::rng().random())
    }

    /// A chosen one, for tests and simulation.
    pub fn from_number(number: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Self(bytes)
    }
}

/// Everything a rule would otherwise take from the world.
#[derive(Debug)]
pub struct Context<'a> {
    /// The transaction's time.
    pub now: Timestamp,
    /// How the engine behaves.
    pub settings: &'a Settings,
    seed: Seed,
    random: RefCell<Option<ChaCha8Rng>>,
}

impl<'a> Context<'a> {
    /// The context of one command.
    pub fn new(now: Timestamp, settings: &'a Settings, seed: Seed) -> Self {
        Self { now, settings, seed, random: RefCell::new(None) }
    }

    /// The bounds in force.
    pub fn limits(&self) -> &'a Limits {
        &self.settings.limits
    }

    // Seeded on first use: most commands need no randomness.
    fn with_random<T>(&self, use_it: impl FnOnce(&mut ChaCha8Rng) -> T) -> T {
        let mut random = self.random.borrow_mut();
        use_it(random.get_or_insert_with(|| ChaCha8Rng::from_seed(self.seed.0)))
    }

    /// A new time-ordered id.
    pub fn execution_id(&self) -> ExecutionId {
        let tail = self.with_random(Rng::random);
        let millis = u64::try_from(self.now.as_millis()).unwrap_or(0);
        ExecutionId(uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid())
    }

    /// A new time-ordered id of a flow.
    pub fn flow_id(&self) -> FlowId {
        FlowId(self.execution_id().0)
    }

    /// A new time-ordered id of a waitpoint.
    pub fn waitpoint_id(&self) -> WaitpointId {
        WaitpointId(self.execution_id().0)
    }

    /// A new time-ordered id of a signal.
    pub fn signal_id(&self) -> SignalId {
        SignalId(self.execution_id().0)
    }

    /// A new signing secret.
    pub fn signing_secret(&self) -> SigningSecret {
        SigningSecret::new(self.with_random(Rng::random))
    }

    /// A new lease secret.
    pub fn secret(&self) -> Secret {
        Secret::new(self.with_random(Rng::random))
    }

    /// `wait` shortened at random, to at least its half.
    pub fn shorten(&self, wait: Duration) -> Duration {
        wait.mul_f64(self.with_random(|random| random.random_range(0.5..=1.0)))
    }

    /// A random id by which a bug can be found in the log.
    pub(crate) fn incident() -> Uuid {
        Uuid::now_v7()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_ids_and_secrets() {
        let settings = Settings::default();
        let draw = |seed| {
            let cx = Context::new(Timestamp::from_millis(7), &settings, Seed::from_number(seed));
            (cx.execution_id(), *cx.secret().as_bytes())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_shortened_wait_keeps_at_least_its_half() {
        let settings = Settings::default();
        for seed in 0..200 {
            let cx = Context::new(Timestamp::default(), &settings, Seed::from_number(seed));
            let wait = cx.shorten(Duration::from_secs(10));
            assert!((5..=10).contains(&wait.as_secs()), "{wait:?}");
        }
    }
}
