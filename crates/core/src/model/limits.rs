use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Error, Result, duration_ms};

/// Every bound on what a command may ask for.
///
/// The constants are fixed; the fields may be set when an engine is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of an input, a result or a failure's detail (1 MiB; at most [`Limits::PAYLOAD_MAX`]).
    pub payload_bytes: usize,
    /// Bytes of all payloads of one batch, given or returned (16 MiB).
    pub batch_bytes: usize,
}

impl Limits {
    /// The largest [`Limits::payload_bytes`] that may be configured.
    pub const PAYLOAD_MAX: usize = 64 << 20;
    /// Characters of a name.
    pub const NAME: usize = 128;
    /// Bytes of an idempotency key.
    pub const KEY: usize = 256;
    /// Bytes of a content type.
    pub const CONTENT_TYPE: usize = 128;
    /// Bytes of a reason or message.
    pub const TEXT: usize = 1024;
    /// Tags of one execution.
    pub const TAGS: usize = 64;
    /// Bytes of a tag's value.
    pub const TAG_VALUE: usize = 1024;
    /// Capability tokens of one requirement or worker.
    pub const CAPABILITIES: usize = 256;
    /// Bytes of all capability tokens together.
    pub const CAPABILITY_BYTES: usize = 4096;
    /// Distinct (kind, capabilities) pairs of one namespace.
    pub const ROUTES: usize = 4096;
    /// The highest priority.
    pub const PRIORITY: i32 = 9000;
    /// The priority of work that names none.
    pub const DEFAULT_PRIORITY: i32 = 1000;
    /// Items of one batch.
    pub const BATCH: usize = 1000;
    /// Items of one page.
    pub const PAGE: usize = 1000;
    /// Items of a page whose size is not given.
    pub const DEFAULT_PAGE: usize = 100;
    /// Lanes or kinds one claim or worker may name.
    pub const NAMES: usize = 256;
    /// Fallbacks of one policy.
    pub const FALLBACKS: usize = 16;
    /// Nodes one call may add to a flow.
    pub const FLOW_NODES: usize = 10_000;
    /// Edges one call may add to a flow.
    pub const FLOW_EDGES: usize = 50_000;
    /// Nodes of a flow in all.
    pub const FLOW_SIZE: usize = 100_000;
    /// Sources one node may wait for.
    pub const FAN_IN: usize = 1000;
    /// Edges between the same two nodes.
    pub const PARALLEL_EDGES: usize = 16;
    /// Signals of one execution, over all its runs.
    pub const SIGNALS: usize = 10_000;
    /// Signals that whoever bears the token of one waitpoint may send there.
    pub const TOKEN_SIGNALS: u32 = 1000;
    /// Recorded steps of one execution.
    pub const STEPS: usize = 10_000;
    /// Waitpoints of one execution that are open at once.
    pub const OPEN_WAITPOINTS: usize = 200;
    /// Waitpoints of one execution, over all its runs.
    pub const WAITPOINTS: usize = 10_000;
    /// Suspensions of one execution, over all its runs.
    pub const SUSPENSIONS: usize = 100_000;
    /// How deep the parts of a condition may be nested.
    pub const CONDITION_DEPTH: usize = 4;
    /// Parts of one condition.
    pub const CONDITION_PARTS: usize = 200;
    /// How many different people or senders one part of a condition may wait for.
    pub const CONDITION_COUNT: usize = 1000;
    /// Bytes of a frame.
    pub const FRAME_BYTES: usize = 256 << 10;
    /// Bytes of a stream's summary.
    pub const SUMMARY_BYTES: usize = 1 << 20;
    /// How deep a patch of a summary may be nested.
    pub const SUMMARY_DEPTH: usize = 32;
    /// The most live frames that may be kept.
    pub const LIVE_FRAMES: usize = 1 << 20;
    /// The longest that live frames may be kept for.
    pub const LIVE_TTL_MAX: Duration = Duration::from_secs(3600);
    /// The most durable frames of one stream that may be kept.
    pub const STREAM_FRAMES: u64 = 10_000_000;
    /// Characters of the name of a signing key.
    pub const KID: usize = 32;
    /// Signing keys of one namespace.
    pub const SIGNING_KEYS: usize = 1000;
    /// Dimensions of one budget.
    pub const DIMENSIONS: usize = 64;
    /// The largest amount: what every JSON reader still tells apart.
    pub const AMOUNT: u64 = (1 << 53) - 1;
    /// Budgets, and quotas, that one policy, lane, kind or namespace may name.
    pub const USES: usize = 16;
    /// The most executions a quota may let pass in a window.
    pub const RATE: u64 = 1_000_000;
    /// The longest window of a quota.
    pub const WINDOW_MAX: Duration = Duration::from_secs(31 * 24 * 3600);
    /// Places one budget or quota may be attached to, apart from flows and executions.
    pub const PLACES: usize = 1000;
    /// Keys of one lane that have a weight.
    pub const WEIGHTS: usize = 10_000;
    /// The highest weight.
    pub const WEIGHT: u32 = 1000;
    /// The shortest lease.
    pub const LEASE_MIN: Duration = Duration::from_secs(1);
    /// The longest lease.
    pub const LEASE_MAX: Duration = Duration::from_secs(3600);
    /// The longest a grant may stay unredeemed.
    pub const GRANT_MAX: Duration = Duration::from_secs(60);
    /// The longest a claim may wait for work.
    pub const WAIT_MAX: Duration = Duration::from_secs(60);
    /// The longest any other duration may be: ten years.
    pub const DURATION_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

    /// Refuses settings that contradict themselves.
    pub fn validate(&self) -> Result<()> {
        if !(1..=Self::PAYLOAD_MAX).contains(&self.payload_bytes) {
            return Err(Error::invalid(
                "limits.payload_bytes",
                format!("must be from 1 to {}, not {}", Self::PAYLOAD_MAX, self.payload_bytes),
            ));
        }
        if self.batch_bytes < self.payload_bytes {
            return Err(Error::invalid(
                "limits.batch_bytes",
                format!("must hold one payload of {} bytes", self.payload_bytes),
            ));
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload_bytes: 1 << 20, batch_bytes: 16 << 20 }
    }
}

/// How an engine behaves, as far as the rules are concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Bounds on what a command may ask for.
    pub limits: Limits,
    /// How long events are kept (7 days; zero keeps them for ever).
    #[serde(rename = "event_retention_ms", with = "duration_ms")]
    pub event_retention: Duration,
    /// How often retention looks for what to remove (1 minute).
    #[serde(rename = "sweep_every_ms", with = "duration_ms")]
    pub sweep_every: Duration,
    /// Whether each renewal of a lease is an event (no).
    pub log_renewals: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            event_retention: Duration::from_secs(7 * 24 * 3600),
            sweep_every: Duration::from_secs(60),
            log_renewals: false,
        }
    }
}
