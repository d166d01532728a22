use std::fmt;
use std::time::Duration;

use everloom_core::{Failure, FailureClass};
use serde_json::Value;

/// Why a handler did not succeed, and whether to try again.
///
/// Anything that is an error becomes one that may pass by itself, so that `?` works everywhere:
///
/// ```
/// use everloom::handler::Error;
/// use std::time::Duration;
///
/// fn charge(answer: u16, body: &str) -> Result<u64, Error> {
///     match answer {
///         402 => Err(Error::permanent("the card was declined").category("declined")),
///         429 => Err(Error::retry_after(Duration::from_secs(30), "asked to slow down")),
///         _ => Ok(body.parse()?),
///     }
/// }
/// # assert!(charge(200, "x").is_err());
/// ```
pub struct Error {
    failure: Failure,
    retry_after: Option<Duration>,
}

impl Error {
    /// One that may pass by itself: tried again as the policy says.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self { failure: Failure::transient(message), retry_after: None }
    }

    /// One that may pass by itself, but not before that time.
    pub fn retry_after(after: Duration, message: impl fmt::Display) -> Self {
        Self { retry_after: Some(after), ..Self::retry(message) }
    }

    /// One that will not pass: never tried again.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self { failure: Failure::permanent(message), retry_after: None }
    }

    /// With the program's own name for it, which a policy may list as retryable.
    #[must_use]
    pub fn category(mut self, category: impl Into<String>) -> Self {
        self.failure.category = Some(category.into());
        self
    }

    /// With what a program may want to know.
    #[must_use]
    pub fn detail(mut self, detail: Value) -> Self {
        self.failure.detail = Some(detail);
        self
    }

    /// Of that class.
    #[must_use]
    pub fn class(mut self, class: FailureClass) -> Self {
        self.failure.class = class;
        self
    }

    pub(crate) fn from_failure(failure: Failure) -> Self {
        Self { failure, retry_after: None }
    }

    /// Whether it is never tried again.
    pub fn is_permanent(&self) -> bool {
        self.failure.class == FailureClass::Permanent
    }

    /// What is recorded of it, and how long to wait at least.
    pub fn into_parts(self) -> (Failure, Option<Duration>) {
        (self.failure, self.retry_after)
    }
}

/// Its message with those of its causes, once each.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        // A refusal of the engine says itself whether it may pass.
        let refusal = (&error as &dyn std::any::Any).downcast_ref::<everloom_core::Error>();
        if let Some(refusal) = refusal.filter(|refusal| !refusal.is_retryable()) {
            return Self::permanent(refusal).category(refusal.code().as_str());
        }
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let told = next.to_string();
            if !message.contains(&told) {
                message = format!("{message}: {told}");
            }
            cause = next.source();
        }
        Self::retry(message)
    }
}

// Not `std::error::Error`, or it could not be made from all of them.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.failure.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("failure", &self.failure)
            .field("retry_after", &self.retry_after)
            .finish()
    }
}
