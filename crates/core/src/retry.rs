//! Whether a failed attempt is tried again, and when: one pure decision.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{Check, EndReason, Limits, Policy, Timestamp};

/// What sort of failure an attempt met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// May pass by itself.
    #[default]
    Transient,
    /// Will not pass: never retried.
    Permanent,
    /// Took too long.
    Timeout,
    /// The machine or network failed, not the work.
    Infrastructure,
}

/// What went wrong in an attempt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What sort of failure it is.
    #[serde(default)]
    pub class: FailureClass,
    /// The program's own name for it; a policy may list it as retryable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// What happened, for people.
    pub message: String,
    /// What a program may want to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Value>,
}

impl Failure {
    /// A failure that may pass by itself. The message may be any text: what a message must not
    /// have is replaced or cut off.
    pub fn transient(message: impl fmt::Display) -> Self {
        Self { message: fitting(&message.to_string()), ..Self::default() }
    }

    /// A failure that will not pass. The message may be any text, as for [`Failure::transient`].
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self { class: FailureClass::Permanent, ..Self::transient(message) }
    }

    pub(crate) fn check(&self, check: &mut Check, limits: &Limits) {
        check.text("failure.message", &self.message);
        if let Some(category) = &self.category {
            check.name("failure.category", category);
        }
        if let Some(detail) = &self.detail {
            check.bytes("failure.detail", detail.to_string().len(), limits.payload_bytes);
        }
    }
}

/// The text without line breaks and other control characters, as far as a message may be long.
fn fitting(text: &str) -> String {
    let mut message: String =
        text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    message.truncate(message.floor_char_boundary(Limits::TEXT));
    message
}

/// What becomes of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Retry { at: Timestamp },
    Fail { reason: EndReason },
}

/// Judges a failure after `retries` retries. `shorten` applies the jitter.
pub(crate) fn judge(
    policy: &Policy,
    retries: u32,
    failure: &Failure,
    retry_after: Option<Duration>,
    now: Timestamp,
    shorten: impl FnOnce(Duration) -> Duration,
) -> Verdict {
    let retry = &policy.retry;
    if failure.class == FailureClass::Permanent {
        return Verdict::Fail { reason: EndReason::Permanent };
    }
    if !retry.covers(failure.class, failure.category.as_deref()) {
        return Verdict::Fail { reason: EndReason::NotRetryable };
    }
    if retries >= retry.max_retries() {
        return Verdict::Fail { reason: EndReason::RetriesExhausted };
    }
    let wait = match retry_after {
        Some(wait) => wait,
        None if retry.jitter() => shorten(retry.wait(retries)),
        None => retry.wait(retries),
    };
    Verdict::Retry { at: now + wait }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RetryOn, RetryPolicy};

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn verdict(retry: RetryPolicy, retries: u32, failure: &Failure) -> Verdict {
        let policy = Policy { retry, ..Policy::default() };
        judge(&policy, retries, failure, None, NOW, |wait| wait / 2)
    }

    #[test]
    fn a_permanent_failure_is_never_retried() {
        let listed = RetryPolicy {
            retry_on: Some(RetryOn { classes: vec![], categories: vec!["bad".into()] }),
            ..Default::default()
        };
        let failure = Failure { category: Some("bad".into()), ..Failure::permanent("no") };
        let expected = Verdict::Fail { reason: EndReason::Permanent };
        assert_eq!(verdict(listed, 0, &failure), expected);
    }

    #[test]
    fn a_listed_category_is_retried_although_its_class_is_not() {
        let retry = RetryPolicy {
            retry_on: Some(RetryOn {
                classes: vec![FailureClass::Infrastructure],
                categories: vec!["busy".into()],
            }),
            ..Default::default()
        };
        let plain = Failure::transient("x");
        let busy = Failure { category: Some("busy".into()), ..plain.clone() };
        assert_eq!(
            verdict(retry.clone(), 0, &plain),
            Verdict::Fail { reason: EndReason::NotRetryable }
        );
        assert!(matches!(verdict(retry, 0, &busy), Verdict::Retry { .. }));
    }

    #[test]
    fn any_text_makes_a_message() {
        let failure = Failure::permanent(format!("first\nsecond {}", "ü".repeat(1000)));
        assert!(failure.message.starts_with("first second ü"));
        let mut check = Check::default();
        failure.check(&mut check, &Limits::default());
        check.finish().unwrap();
    }

    #[test]
    fn retries_end_when_they_are_used_up() {
        let failure = Failure::transient("x");
        assert!(matches!(verdict(RetryPolicy::default(), 2, &failure), Verdict::Retry { .. }));
        assert_eq!(
            verdict(RetryPolicy::default(), 3, &failure),
            Verdict::Fail { reason: EndReason::RetriesExhausted }
        );
    }

    #[test]
    fn retry_after_wins_over_backoff_and_jitter() {
        let after = Some(Duration::from_secs(90));
        let verdict = judge(&Policy::default(), 0, &Failure::transient("x"), after, NOW, |_| {
            panic!("no jitter on an explicit wait")
        });
        assert_eq!(verdict, Verdict::Retry { at: NOW + Duration::from_secs(90) });
    }

    #[test]
    fn jitter_can_be_switched_off() {
        let plain = RetryPolicy { jitter: Some(false), ..Default::default() };
        let failure = Failure::transient("x");
        assert_eq!(
            verdict(plain, 1, &failure),
            Verdict::Retry { at: NOW + Duration::from_secs(2) }
        );
        assert_eq!(
            verdict(RetryPolicy::default(), 1, &failure),
            Verdict::Retry { at: NOW + Duration::from_secs(1) }
        );
    }
}
