use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limit::{add_budgets, add_quotas, check_uses};
use super::{BudgetUse, Check, ConcurrencyKey, Limits, OnTimeout, QuotaUse, option_duration_ms};
use crate::retry::FailureClass;

/// How an execution is treated; frozen when it is submitted.
///
/// What is absent is filled from the lane, then from the namespace, then from the built-in
/// values, which the accessors return.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// When and how often a failed attempt is tried again.
    #[serde(skip_serializing_if = "RetryPolicy::is_empty")]
    pub retry: RetryPolicy,
    /// The longest a lease may be held before the attempt counts as timed out.
    #[serde(rename = "attempt_timeout_ms", with = "option_duration_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_timeout: Option<Duration>,
    /// How long after its submission an execution expires.
    #[serde(rename = "deadline_ms", with = "option_duration_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
    /// How often in a row the work may lose its worker before it fails (10).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_reclaims: Option<u32>,
    /// How often an ended execution may be replayed (10).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replays: Option<u32>,
    /// How long an ended execution is kept (7 days; zero keeps it for ever).
    #[serde(rename = "retention_ms", with = "option_duration_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Duration>,
    /// How long after its end an execution's idempotency key is remembered (24 hours).
    #[serde(rename = "key_window_ms", with = "option_duration_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_window: Option<Duration>,
    /// Handed to the handler by the number of retries used; the last one serves all later ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<Fallback>,
    /// What becomes of it when the execution that made it ends first (it is cancelled).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_parent_end: Option<OnParentEnd>,
    /// How long it may be suspended, and what happens then.
    #[serde(skip_serializing_if = "SuspensionPolicy::is_empty")]
    pub suspension: SuspensionPolicy,
    /// The budgets it is under, besides those of its lane, kind and namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetUse>,
    /// The quotas it is under, besides those of its lane, kind and namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaUse>,
    /// How many executions with the same key may be owned at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<ConcurrencyKey>,
    /// Whose turn it is when it is claimed, in a lane in which keys take turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness_key: Option<String>,
    /// How many durable frames of its stream are kept at least (10 000): up to a hundredth more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_retention: Option<u64>,
}

/// What becomes of an execution when the one that made it ends first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnParentEnd {
    /// It is cancelled.
    #[default]
    Cancel,
    /// It goes on.
    Abandon,
}

/// What holds for suspensions that do not say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SuspensionPolicy {
    /// After how long a suspension times out (never).
    #[serde(rename = "timeout_ms", with = "option_duration_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// What happens then (it fails).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_timeout: Option<OnTimeout>,
}

impl SuspensionPolicy {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// When and how often a failed attempt is tried again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Attempts after the first (3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// How long to wait before each (exponential from 1 s, doubled, at most 60 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Whether the wait is shortened at random, to at least its half (yes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<bool>,
    /// Which failures are retried at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<RetryOn>,
}

/// The wait before a retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Backoff {
    /// Grows by a factor with every retry.
    Exponential {
        /// The first wait, in milliseconds.
        initial_ms: u64,
        /// The factor, from 1 to 100.
        factor: f64,
        /// The longest wait, in milliseconds.
        max_ms: u64,
    },
    /// Always the same.
    Fixed {
        /// The wait, in milliseconds.
        delay_ms: u64,
    },
}

/// Which failures are retried. A permanent failure never is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryOn {
    /// Failures of these classes.
    pub classes: Vec<FailureClass>,
    /// Failures whose category is one of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
}

/// What a handler should use instead after a number of retries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fallback {
    /// For example a vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// For example a model of that vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How long the handler should wait for it.
    #[serde(rename = "timeout_ms", with = "option_duration_ms")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// What later submissions into a lane or namespace inherit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// The priority of work that names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Fills what a submission's own policy leaves open.
    #[serde(skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
}

impl Defaults {
    pub(crate) fn check(&self, check: &mut Check) {
        if let Some(priority) = self.priority {
            check.priority("defaults.priority", priority);
        }
        self.policy.check(check, "defaults.policy");
    }
}

impl RetryPolicy {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Attempts after the first.
    pub fn max_retries(&self) -> u32 {
        self.max_retries.unwrap_or(3)
    }

    /// Whether waits are shortened at random.
    pub fn jitter(&self) -> bool {
        self.jitter.unwrap_or(true)
    }

    /// The full wait before retry number `retry` (from 0), without jitter.
    pub fn wait(&self, retry: u32) -> Duration {
        const DEFAULT: Backoff =
            Backoff::Exponential { initial_ms: 1000, factor: 2.0, max_ms: 60_000 };
        match self.backoff.as_ref().unwrap_or(&DEFAULT) {
            Backoff::Fixed { delay_ms } => Duration::from_millis(*delay_ms),
            Backoff::Exponential { initial_ms, factor, max_ms } => {
                let exponent = i32::try_from(retry).unwrap_or(i32::MAX);
                let wait = *initial_ms as f64 * factor.powi(exponent);
                Duration::from_millis(wait.min(*max_ms as f64) as u64)
            }
        }
    }

    /// Whether failures of this class or category are retried at all.
    pub fn covers(&self, class: FailureClass, category: Option<&str>) -> bool {
        if class == FailureClass::Permanent {
            return false;
        }
        match &self.retry_on {
            None => true,
            Some(on) => {
                on.classes.contains(&class)
                    || category.is_some_and(|category| {
                        on.categories.iter().any(|listed| listed == category)
                    })
            }
        }
    }

    fn fill(&mut self, defaults: &Self) {
        fill(&mut self.max_retries, &defaults.max_retries);
        fill(&mut self.backoff, &defaults.backoff);
        fill(&mut self.jitter, &defaults.jitter);
        fill(&mut self.retry_on, &defaults.retry_on);
    }

    fn check(&self, check: &mut Check, prefix: &str) {
        let ms = Duration::from_millis;
        let field = |name: &str| format!("{prefix}.retry.{name}");
        if let Some(retries) = self.max_retries {
            check.that(retries <= 10_000, &field("max_retries"), || {
                format!("at most 10000, not {retries}")
            });
        }
        match &self.backoff {
            Some(Backoff::Fixed { delay_ms }) => check.duration(
                &field("backoff.delay_ms"),
                ms(*delay_ms),
                Duration::ZERO,
                Limits::DURATION_MAX,
            ),
            Some(Backoff::Exponential { initial_ms, factor, max_ms }) => {
                check.that((1.0..=100.0).contains(factor), &field("backoff.factor"), || {
                    format!("must be 1 to 100, not {factor}")
                });
                check.duration(
                    &field("backoff.max_ms"),
                    ms(*max_ms),
                    ms(*initial_ms).min(Limits::DURATION_MAX),
                    Limits::DURATION_MAX,
                );
            }
            None => {}
        }
        if let Some(on) = &self.retry_on {
            check.that(!on.classes.contains(&FailureClass::Permanent), &field("retry_on"), || {
                "a permanent failure is never retried; leave it out".into()
            });
            check.names(&field("retry_on.categories"), &on.categories);
        }
    }
}

fn fill<T: Clone>(own: &mut Option<T>, default: &Option<T>) {
    if own.is_none() {
        own.clone_from(default);
    }
}

impl Policy {
    /// Whether everything is left to the defaults.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// How often in a row the work may lose its worker.
    pub fn max_reclaims(&self) -> u32 {
        self.max_reclaims.unwrap_or(10)
    }

    /// How often an ended execution may be replayed.
    pub fn max_replays(&self) -> u32 {
        self.max_replays.unwrap_or(10)
    }

    /// How long an ended execution is kept; `None` for ever.
    pub fn retention(&self) -> Option<Duration> {
        const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
        Some(self.retention.unwrap_or(WEEK)).filter(|kept| !kept.is_zero())
    }

    /// How long after the end the idempotency key is remembered.
    pub fn key_window(&self) -> Duration {
        self.key_window.unwrap_or(Duration::from_secs(24 * 3600))
    }

    /// How many durable frames of its stream are kept.
    pub fn stream_retention(&self) -> u64 {
        self.stream_retention.unwrap_or(10_000)
    }

    /// Whether it names budgets or quotas.
    pub fn names_limits(&self) -> bool {
        !self.budgets.is_empty() || !self.quotas.is_empty()
    }

    /// What the handler should use after that many retries.
    pub fn fallback(&self, retries: u32) -> Option<&Fallback> {
        let last = self.fallbacks.len().checked_sub(1)?;
        let index = usize::try_from(retries.checked_sub(1)?).unwrap_or(last);
        self.fallbacks.get(index.min(last))
    }

    /// Takes from `defaults` what is absent here.
    pub fn fill(&mut self, defaults: &Self) {
        self.retry.fill(&defaults.retry);
        fill(&mut self.attempt_timeout, &defaults.attempt_timeout);
        fill(&mut self.deadline, &defaults.deadline);
        fill(&mut self.max_reclaims, &defaults.max_reclaims);
        fill(&mut self.max_replays, &defaults.max_replays);
        fill(&mut self.retention, &defaults.retention);
        fill(&mut self.key_window, &defaults.key_window);
        fill(&mut self.on_parent_end, &defaults.on_parent_end);
        fill(&mut self.stream_retention, &defaults.stream_retention);
        fill(&mut self.concurrency_key, &defaults.concurrency_key);
        fill(&mut self.fairness_key, &defaults.fairness_key);
        // Work in a lane that has a budget of its own is under both.
        add_budgets(&mut self.budgets, &defaults.budgets);
        add_quotas(&mut self.quotas, &defaults.quotas);
        fill(&mut self.suspension.timeout, &defaults.suspension.timeout);
        fill(&mut self.suspension.on_timeout, &defaults.suspension.on_timeout);
        if self.fallbacks.is_empty() {
            self.fallbacks.clone_from(&defaults.fallbacks);
        }
    }

    pub(crate) fn check(&self, check: &mut Check, prefix: &str) {
        let field = |name: &str| format!("{prefix}.{name}");
        self.retry.check(check, prefix);
        let second = Duration::from_secs(1);
        for (name, value, min) in [
            ("attempt_timeout_ms", self.attempt_timeout, second),
            ("deadline_ms", self.deadline, Duration::from_millis(1)),
            ("retention_ms", self.retention, Duration::ZERO),
            ("key_window_ms", self.key_window, Duration::ZERO),
            ("suspension.timeout_ms", self.suspension.timeout, Duration::from_millis(1)),
        ] {
            if let Some(value) = value {
                check.duration(&field(name), value, min, Limits::DURATION_MAX);
            }
        }
        if let Some(frames) = self.stream_retention {
            let range = 1..=Limits::STREAM_FRAMES;
            check.that(range.contains(&frames), &field("stream_retention"), || {
                format!("must be 1 to {}, not {frames}", Limits::STREAM_FRAMES)
            });
        }
        check.at_most(&field("fallbacks"), self.fallbacks.len(), Limits::FALLBACKS);
        for fallback in &self.fallbacks {
            for text in [&fallback.provider, &fallback.model].into_iter().flatten() {
                check.text(&field("fallbacks"), text);
            }
        }
        check_uses(check, &field(""), &self.budgets, &self.quotas);
        if let Some(ConcurrencyKey { key, limit }) = &self.concurrency_key {
            check.key(&field("concurrency_key.key"), key);
            check.that(*limit > 0, &field("concurrency_key.limit"), || {
                "must be at least 1; hold the work to stop it".into()
            });
        }
        if let Some(key) = &self.fairness_key {
            check.key(&field("fairness_key"), key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_without_choices_is_stored_as_nothing() {
        assert_eq!(serde_json::to_string(&Policy::default()).unwrap(), "{}");
    }

    #[test]
    fn the_default_backoff_doubles_from_a_second_to_a_minute() {
        let retry = RetryPolicy::default();
        let waits: Vec<_> = (0..8).map(|n| retry.wait(n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(retry.wait(u32::MAX).as_secs(), 60);
    }

    #[test]
    fn defaults_fill_only_what_is_absent() {
        let mut own = Policy {
            retry: RetryPolicy { max_retries: Some(1), ..Default::default() },
            ..Default::default()
        };
        own.fill(&Policy {
            retry: RetryPolicy { max_retries: Some(9), jitter: Some(false), ..Default::default() },
            max_reclaims: Some(2),
            ..Default::default()
        });
        assert_eq!((own.retry.max_retries(), own.retry.jitter()), (1, false));
        assert_eq!(own.max_reclaims(), 2);
    }

    #[test]
    fn fallbacks_are_chosen_by_the_retries_used_and_the_last_one_stays() {
        let named = |name: &str| Fallback { model: Some(name.into()), ..Default::default() };
        let policy = Policy { fallbacks: vec![named("a"), named("b")], ..Default::default() };
        let chosen = |retries| policy.fallback(retries).and_then(|one| one.model.as_deref());
        assert_eq!(
            [chosen(0), chosen(1), chosen(2), chosen(9)],
            [None, Some("a"), Some("b"), Some("b")]
        );
    }

    #[test]
    fn budgets_of_the_defaults_come_on_top_of_ones_own() {
        let budget = |name: &str, tokens| BudgetUse {
            budget: name.into(),
            estimate: [("tokens".to_owned(), tokens)].into(),
        };
        let mut own = Policy { budgets: vec![budget("job", 1)], ..Policy::default() };
        let defaults =
            Policy { budgets: vec![budget("job", 9), budget("team", 5)], ..Policy::default() };
        own.fill(&defaults);
        assert_eq!(own.budgets, [budget("job", 1), budget("team", 5)]);
    }
}
