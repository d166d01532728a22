use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ExecutionId, Violation};

/// The result of everything that may be refused.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How a caller should treat an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The same call may succeed later.
    Retryable,
    /// The state of things does not allow the call.
    Conflict,
    /// The call can never succeed as it is.
    Invalid,
    /// What was asked for is not there, or no more.
    Gone,
    /// The engine is at fault; the log has the details.
    Bug,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal $class:ident $status:literal;)*) => {
        /// What kind of refusal an [`Error`] is. The text is the same in Rust, HTTP and CLI.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {$(
            $(#[$doc])*
            $name,
        )*}

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The stable text of the code.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The code of that text.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }

            /// How to treat it.
            pub const fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }

            /// The status of an HTTP answer that carries it.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }
        }
    };
}

codes! {
    /// A field is missing, malformed or out of range.
    InvalidInput "invalid_input" Invalid 400;
    /// The option belongs to a capability this version does not have.
    Unsupported "unsupported" Invalid 400;
    /// The token does not authorise this; nothing else is said about it.
    InvalidToken "invalid_token" Invalid 401;
    /// Whoever calls may not do this.
    Forbidden "forbidden" Invalid 403;
    /// Nothing has that name or id.
    NotFound "not_found" Gone 404;
    /// The worker no longer holds the lease; the details say why.
    LeaseLost "lease_lost" Conflict 409;
    /// The execution has ended.
    AlreadyTerminal "already_terminal" Conflict 409;
    /// The call does not fit the state the thing is in.
    WrongState "wrong_state" Conflict 409;
    /// The key or id was used for another request.
    IdempotencyConflict "idempotency_conflict" Conflict 409;
    /// The flow's graph has changed since that revision.
    StaleRevision "stale_revision" Conflict 409;
    /// A node can not wait for itself.
    SelfEdge "self_edge" Invalid 400;
    /// Nodes would wait for each other in a circle; the details name it.
    Cycle "cycle" Invalid 400;
    /// The execution is not in that flow.
    NotAMember "not_a_member" Conflict 409;
    /// The execution is in another flow.
    MemberOfOtherFlow "member_of_other_flow" Conflict 409;
    /// The flow has an edge of that name.
    EdgeExists "edge_exists" Conflict 409;
    /// Something else needs or owns it.
    InUse "in_use" Conflict 409;
    /// The name of the signing key stands for another secret, or for a key that is no longer used.
    RotationConflict "rotation_conflict" Conflict 409;
    /// The handler has changed: another kind of step was recorded under that name.
    StepsDiverged "steps_diverged" Conflict 409;
    /// The stream takes no more frames; the details say why.
    StreamClosed "stream_closed" Conflict 409;
    /// The waitpoint takes no more signals; the details say why.
    Closed "closed" Conflict 409;
    /// Events after that cursor have been removed.
    CursorExpired "cursor_expired" Gone 410;
    /// A payload or batch is larger than its limit.
    TooLarge "too_large" Invalid 413;
    /// The store did not answer in time; nothing was written.
    Unavailable "unavailable" Retryable 503;
    /// The disk is full; nothing was written.
    StorageFull "storage_full" Retryable 503;
    /// The store can not be written to.
    ReadOnly "read_only" Conflict 503;
    /// The store was written by a newer version.
    SchemaTooNew "schema_too_new" Invalid 503;
    /// The file is something else.
    NotADatabase "not_a_database" Invalid 503;
    /// The schema is older and migrating is off.
    MigrationNeeded "migration_needed" Invalid 503;
    /// A bug; its id is in the log.
    Internal "internal" Bug 500;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("unknown error code `{text}`")))
    }
}

/// Why a lease is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseLost {
    /// It was not renewed in time, or the attempt or the execution ran out of time.
    Expired,
    /// An operator took it away.
    Revoked,
    /// The execution was cancelled.
    Cancelled,
    /// The execution went to another owner, or the lease never existed.
    Superseded,
    /// The holder itself ended it.
    Finished,
}

impl fmt::Display for LeaseLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Cancelled => "cancelled",
            Self::Superseded => "superseded",
            Self::Finished => "finished",
        })
    }
}

/// A refused call: nothing was written.
///
/// Serialises as `{ code, message, retryable, field?, details? }`.
#[derive(Clone, PartialEq)]
pub struct Error(Box<Body>);

#[derive(Clone, PartialEq)]
struct Body {
    code: Code,
    message: String,
    field: Option<String>,
    details: Option<Value>,
    again: Option<Again>,
}

/// Why a batch of commands has to run again; never seen by a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// A question could not be answered yet: its rows are loaded together with those of others.
    Miss,
    /// Another transaction got in the way; nothing was written.
    Conflict,
    /// Someone holds a lock and does not let go; nothing was written. Those who do not need the
    /// lock should not have to wait with those who do.
    Locked,
}

impl Error {
    /// An error of this code that says what to do.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Body {
            code,
            message: message.into(),
            field: None,
            details: None,
            again: None,
        }))
    }

    /// A field that is missing, malformed or out of range.
    pub fn invalid(field: impl Into<String>, message: impl fmt::Display) -> Self {
        let field = field.into();
        Self::new(Code::InvalidInput, format!("{field}: {message}")).with_field(field)
    }

    /// Nothing of that noun has that name.
    pub fn not_found(noun: &str, name: impl fmt::Display) -> Self {
        Self::new(Code::NotFound, format!("there is no {noun} {name}"))
    }

    /// The lease is not held any more.
    pub fn lease_lost(execution: ExecutionId, why: LeaseLost) -> Self {
        let message = match why {
            LeaseLost::Expired => {
                "expired before this call; stop, another worker may have the work"
            }
            LeaseLost::Revoked => "was revoked by an operator; stop working on it",
            LeaseLost::Cancelled => "ended because the execution was cancelled; stop working on it",
            LeaseLost::Superseded => "is not the current one; stop, the work has another owner",
            LeaseLost::Finished => "was already ended by another call of its holder",
        };
        Self::new(Code::LeaseLost, format!("the lease on {execution} {message}"))
            .with_details(serde_json::json!({ "why": why }))
    }

    /// Another kind of step was recorded under that name than the handler takes now.
    pub fn steps_diverged(name: &str, occurrence: u32, recorded: &str, kind: &str) -> Self {
        let message = format!(
            "step `{name}` number {occurrence} was recorded as `{recorded}` and is `{kind}` now: the \
             handler has changed; give the changed step a new name, or replay the execution from \
             this step"
        );
        Self::new(Code::StepsDiverged, message).with_details(serde_json::json!({
            "name": name,
            "occurrence": occurrence,
            "recorded": recorded,
        }))
    }

    /// A bug: what should be impossible has happened.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// For stores: the rows are not loaded yet. See [`crate::Transaction::load_missing`].
    pub fn miss() -> Self {
        let mut error = Self::bug("a store left a question unanswered");
        error.0.again = Some(Again::Miss);
        error
    }

    /// For stores: another transaction got in the way, and the commands should run again.
    pub fn conflict(message: impl Into<String>) -> Self {
        let mut error = Self::new(Code::Unavailable, message);
        error.0.again = Some(Again::Conflict);
        error
    }

    /// For stores: someone else holds a lock and has not let go of it for a while.
    pub fn locked(message: impl Into<String>) -> Self {
        let mut error = Self::new(Code::Unavailable, message);
        error.0.again = Some(Again::Locked);
        error
    }

    /// For the executor: why the commands have to run again.
    pub fn again(&self) -> Option<Again> {
        self.0.again
    }

    pub(crate) fn from_violations(violations: Vec<Violation>) -> Self {
        match <[Violation; 1]>::try_from(violations) {
            Ok([violation]) => {
                Self::new(violation.code, violation.to_string()).with_field(violation.field)
            }
            Err(violations) => {
                let code = match violations.iter().all(|one| one.code == violations[0].code) {
                    true => violations[0].code,
                    false => Code::InvalidInput,
                };
                let shown: Vec<_> = violations.iter().take(5).map(ToString::to_string).collect();
                let more = violations.len().saturating_sub(shown.len());
                let tail = if more > 0 { format!("; and {more} more") } else { String::new() };
                Self::new(
                    code,
                    format!("{} violations: {}{tail}", violations.len(), shown.join("; ")),
                )
                .with_details(serde_json::json!({ "violations": violations }))
            }
        }
    }

    /// Names the field at fault.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Adds what a program may want to know.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.0.details = Some(details);
        self
    }

    /// What kind of refusal this is.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What happened and what to do, for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The field at fault.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// What a program may want to know.
    pub fn details(&self) -> Option<&Value> {
        self.0.details.as_ref()
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.code().class() == Class::Retryable
    }

    /// Why the lease is lost, if that is what this error says.
    pub fn why_lease_lost(&self) -> Option<LeaseLost> {
        match self.code() {
            Code::LeaseLost => {
                self.details()?.get("why").and_then(|why| LeaseLost::deserialize(why).ok())
            }
            _ => None,
        }
    }

    /// All that is wrong with an invalid call, field by field.
    pub fn violations(&self) -> Vec<Violation> {
        self.details()
            .and_then(|details| details.get("violations"))
            .and_then(|list| Vec::deserialize(list).ok())
            .unwrap_or_default()
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("field", &self.0.field)
            .field("details", &self.0.details)
            .finish()
    }
}

#[derive(Serialize, Deserialize)]
struct Wire {
    code: Code,
    message: String,
    retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
}

impl Serialize for Error {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Wire {
            code: self.0.code,
            message: self.0.message.clone(),
            retryable: self.is_retryable(),
            field: self.0.field.clone(),
            details: self.0.details.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Error {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { code, message, field, details, .. } = Wire::deserialize(deserializer)?;
        Ok(Self(Box::new(Body { code, message, field, details, again: None })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_text_of_its_own() {
        let mut texts: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Code::ALL.len());
    }

    #[test]
    fn an_error_survives_a_round_trip_through_json() {
        let error = Error::invalid("lease_ttl_ms", "must be at least 1000, not 0");
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(json["code"], "invalid_input");
        assert_eq!(json["retryable"], false);
        assert_eq!(serde_json::from_value::<Error>(json).unwrap(), error);
    }
}
