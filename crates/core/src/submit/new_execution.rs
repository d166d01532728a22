use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::{
    Check, ExecutionId, Limits, Payload, Policy, Tags, Timestamp, option_duration_ms,
};

/// One execution to submit.
///
/// ```
/// # use everloom_core::{NewExecution, Payload};
/// # use std::time::Duration;
/// let mail = NewExecution::new("send_mail")
///     .input(Payload::bytes("hello"))
///     .lane("mail")
///     .priority(2000)
///     .key("order-17")
///     .delay(Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewExecution {
    /// Which handler does it.
    pub kind: String,
    /// What the handler gets.
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub input: Payload,
    /// Its id, unique in the namespace; minted when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ExecutionId>,
    /// Submitting again under the same key gives the first execution instead of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The queue; created by use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// 0 to 9000, higher first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// What a worker must have to get it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Not before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// Not before this long from now; instead of `start_at`.
    #[serde(rename = "delay_ms", with = "option_duration_ms")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// When it expires if it has not ended; wins over the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// Whether to keep it from workers until it is unheld.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    /// Labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// How it is treated; lane and namespace fill what is absent.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// Who submits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

impl NewExecution {
    /// An execution for the handler of that name.
    pub fn new(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }

    /// Sets what the handler gets.
    #[must_use]
    pub fn input(mut self, input: Payload) -> Self {
        self.input = input;
        self
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: ExecutionId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the idempotency key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the queue.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = Some(lane.into());
        self
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Demands something of the worker.
    #[must_use]
    pub fn capability(mut self, token: impl Into<String>) -> Self {
        self.capabilities.push(token.into());
        self
    }

    /// Starts it no earlier than that.
    #[must_use]
    pub fn start_at(mut self, at: Timestamp) -> Self {
        self.start_at = Some(at);
        self
    }

    /// Starts it no earlier than this long from now.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Expires it then.
    #[must_use]
    pub fn deadline_at(mut self, at: Timestamp) -> Self {
        self.deadline_at = Some(at);
        self
    }

    /// Keeps it from workers until it is unheld.
    #[must_use]
    pub fn hold(mut self) -> Self {
        self.hold = true;
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Sets how it is treated.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Says who submits it.
    #[must_use]
    pub fn created_by(mut self, creator: impl Into<String>) -> Self {
        self.created_by = Some(creator.into());
        self
    }

    pub(crate) fn check(&self, check: &mut Check, limits: &Limits) {
        check.name("kind", &self.kind);
        check.payload("input", &self.input, limits);
        if let Some(key) = &self.key {
            check.key("key", key);
        }
        if let Some(lane) = &self.lane {
            check.name("lane", lane);
        }
        if let Some(priority) = self.priority {
            check.priority("priority", priority);
        }
        check.capabilities("capabilities", &self.capabilities);
        check.that(self.start_at.is_none() || self.delay.is_none(), "delay_ms", || {
            "give either `start_at` or `delay_ms`, not both".into()
        });
        if let Some(delay) = self.delay {
            check.duration("delay_ms", delay, Duration::ZERO, Limits::DURATION_MAX);
        }
        check.at_most("tags", self.tags.len(), Limits::TAGS);
        for (key, value) in self.tags.iter().take(Limits::TAGS) {
            check.tag("tags", key, Some(value));
        }
        self.policy.check(check, "policy");
        if let Some(creator) = &self.created_by {
            check.name("created_by", creator);
        }
    }

    /// What was asked for, without the key it was asked under.
    pub(super) fn fingerprint(&self) -> [u8; 16] {
        let mut request = Self { key: None, input: Payload::default(), ..self.clone() };
        request.capabilities = sorted(&self.capabilities);
        let mut hash = Sha256::new();
        hash.update(serde_json::to_vec(&request).expect("plain data has a JSON form"));
        hash.update([0]);
        hash.update(self.input.content_type.as_bytes());
        hash.update([0]);
        hash.update(&self.input.bytes);
        let mut short = [0; 16];
        short.copy_from_slice(&hash.finalize()[..16]);
        short
    }
}

pub(super) fn sorted(tokens: &[String]) -> Vec<String> {
    let mut tokens = tokens.to_vec();
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_ignores_the_key_and_the_order_of_capabilities() {
        let request = NewExecution::new("k").capability("a").capability("b");
        let other = NewExecution::new("k").capability("b").capability("a").key("x");
        assert_eq!(request.fingerprint(), other.fingerprint());
        let changed = request.clone().input(Payload::bytes("x"));
        assert_ne!(request.fingerprint(), changed.fingerprint());
    }
}
