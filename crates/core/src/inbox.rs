//! The inbox: requests to submit, written into the store by whoever can write rows.
//!
//! A program in any language records what it wants in its own transaction, and the engine applies
//! the rule of [`Submit`] once that is committed. What was applied disappears; what was refused
//! stays with its error until an operator retries or deletes it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::batch::concerns_store;
use crate::command::{Command, Context, Query};
use crate::event::default_page;
use crate::model::{
    Again, Check, Code, DEFAULT_NAME, Error, ExecutionId, Limits, Payload, RequestId, Result,
    Timestamp,
};
use crate::overview::cut;
use crate::store::{Read, Tx};
use crate::submit::{NewExecution, Submit};

/// What somebody asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewRequest {
    /// Which handler does it.
    pub kind: String,
    /// What the handler gets.
    pub input: Payload,
    /// A JSON object: `namespace`, and the fields of [`NewExecution`] but `kind` and `input`. An
    /// empty text wishes for nothing.
    pub options: String,
    /// The id the execution was promised to have if it is created. Unlike an `id` among the
    /// options it is no part of what was asked for, so that the same request under the same key
    /// stays the same.
    pub execution: Option<ExecutionId>,
}

/// A request in the inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its row.
    pub id: RequestId,
    /// What is asked for.
    pub new: NewRequest,
    /// Why it was refused; absent while it waits.
    pub refusal: Option<Refusal>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// When.
    pub at: Timestamp,
    /// What kind of refusal it is.
    pub code: Code,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Applies a bounded slice of the requests that wait in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyInbox {
    /// How many requests to apply at most.
    #[serde(default = "default_slice")]
    pub slice: usize,
}

fn default_slice() -> usize {
    100
}

impl Default for ApplyInbox {
    fn default() -> Self {
        Self { slice: default_slice() }
    }
}

/// What became of a slice of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxApplied {
    /// How many were submitted, or had been under the same key or id.
    pub applied: usize,
    /// How many were refused and stay with their error.
    pub refused: usize,
    /// Whether there may be more.
    pub more: bool,
}

impl Command for ApplyInbox {
    const NAME: &'static str = "apply_inbox";
    type Output = InboxApplied;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<InboxApplied> {
        let slice = self.slice.max(1);
        let requests = tx.requests(slice)?;
        let mut done = InboxApplied { applied: 0, refused: 0, more: requests.len() >= slice };
        let mut missing = None;
        for mut request in requests {
            match submit(tx, cx, &request.new) {
                Ok(()) => {
                    tx.drop_request(request.id)?;
                    done.applied += 1;
                }
                // The others go on, so that what they miss is loaded with it.
                Err(error) if error.again() == Some(Again::Miss) => missing = Some(error),
                Err(error) if concerns_store(&error) => return Err(error),
                Err(error) => {
                    request.refusal = Some(refusal(&error, cx.now));
                    tx.save_request(&request)?;
                    done.refused += 1;
                }
            }
        }
        missing.map_or(Ok(done), Err)
    }
}

/// The ordinary rule, applied to what a request asks for.
fn submit(tx: &mut dyn Tx, cx: &Context, new: &NewRequest) -> Result<()> {
    let submit = read(new)?;
    submit.enter(tx, cx, new.execution).map(drop)
}

fn refusal(error: &Error, at: Timestamp) -> Refusal {
    // A request is one execution, so its place in a batch tells its author nothing.
    let message = error.message().replace("executions[0].", "");
    Refusal { at, code: error.code(), message }
}

/// The submission a request asks for.
fn read(new: &NewRequest) -> Result<Submit> {
    let invalid = |problem: String| Error::invalid("options", problem);
    let mut options: Map<String, Value> = match new.options.trim() {
        "" => Map::new(),
        text => serde_json::from_str(text)
            .map_err(|error| invalid(format!("must be a JSON object: {error}")))?,
    };
    for name in ["kind", "input"] {
        if options.contains_key(name) {
            return Err(invalid(format!("`{name}` has a place of its own beside the options")));
        }
    }
    let namespace = match options.remove("namespace") {
        None => DEFAULT_NAME.to_owned(),
        Some(Value::String(name)) => name,
        Some(_) => return Err(invalid("`namespace` must be a text".into())),
    };
    options.insert("kind".into(), Value::String(new.kind.clone()));
    let mut execution: NewExecution = serde_json::from_value(Value::Object(options))
        .map_err(|error| invalid(error.to_string()))?;
    execution.input = new.input.clone();
    Ok(Submit { namespace, executions: vec![execution] })
}

/// Puts a refused request back in line: what was in its way is gone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryRequest {
    /// Which request.
    pub request: RequestId,
}

impl Command for RetryRequest {
    const NAME: &'static str = "retry_request";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, _: &Context) -> Result<()> {
        let request = find(tx, self.request)?;
        tx.save_request(&Request { refusal: None, ..request })
    }
}

/// Removes a request from the inbox, whether it was refused or still waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// Which request.
    pub request: RequestId,
}

impl Command for DeleteRequest {
    const NAME: &'static str = "delete_request";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, _: &Context) -> Result<()> {
        let request = find(tx, self.request)?;
        tx.drop_request(request.id)
    }
}

fn find(tx: &mut dyn Tx, id: RequestId) -> Result<Request> {
    tx.request(id)?.ok_or_else(|| Error::not_found("request", id.0))
}

/// Lists refused requests in the order they came in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListRefusedRequests {
    /// From the first one after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<RequestId>,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl Default for ListRefusedRequests {
    fn default() -> Self {
        Self { after: None, limit: default_page() }
    }
}

/// A refused request as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusedRequest {
    /// By which it is retried or deleted.
    pub request: RequestId,
    /// Which handler was asked for.
    pub kind: String,
    /// The options as they were written.
    pub options: String,
    /// The id its execution was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// Why it was refused.
    pub refusal: Refusal,
}

/// A page of refused requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusedRequestPage {
    /// The requests.
    pub requests: Vec<RefusedRequest>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<RequestId>,
}

impl Query for ListRefusedRequests {
    const NAME: &'static str = "list_refused_requests";
    type Output = RefusedRequestPage;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<RefusedRequestPage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.finish()?;
        let rows = read.refused_requests(self.after, self.limit.min(Limits::PAGE) + 1)?;
        let (rows, next) = cut(rows, self.limit, |row| row.id);
        let view = |Request { id, new, refusal }| {
            let NewRequest { kind, options, execution, .. } = new;
            Some(RefusedRequest { request: id, kind, options, execution, refusal: refusal? })
        };
        Ok(RefusedRequestPage { requests: rows.into_iter().filter_map(view).collect(), next })
    }
}

/// Counts what is in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountRequests {}

/// How much is in the inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Requests the rule has not seen yet.
    pub waiting: u64,
    /// Requests the rule has refused.
    pub refused: u64,
}

impl Query for CountRequests {
    const NAME: &'static str = "count_requests";
    type Output = RequestCounts;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<RequestCounts> {
        read.count_requests()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Submit> {
        read(&NewRequest { kind: "mail".into(), options: text.into(), ..NewRequest::default() })
    }

    #[test]
    fn options_have_the_names_of_a_submission() {
        let new = NewExecution::new("mail").lane("bulk").priority(7).key("k").tag("a", "b");
        let mut fields = serde_json::to_value(&new).unwrap();
        fields.as_object_mut().unwrap().remove("kind");
        assert_eq!(options(&fields.to_string()).unwrap().executions, [new]);
        assert_eq!(options(r#"{"namespace":"other"}"#).unwrap().namespace, "other");
        assert_eq!(options("  ").unwrap().namespace, DEFAULT_NAME);
    }

    #[test]
    fn options_that_mean_nothing_are_refused_by_name() {
        for (text, said) in [
            ("{", "JSON object"),
            ("[]", "JSON object"),
            (r#"{"lain":"x"}"#, "lain"),
            (r#"{"priority":"high"}"#, "high"),
            (r#"{"kind":"other"}"#, "`kind`"),
            (r#"{"input":{}}"#, "`input`"),
            (r#"{"namespace":1}"#, "`namespace`"),
        ] {
            let error = options(text).unwrap_err();
            assert_eq!((error.code(), error.field()), (Code::InvalidInput, Some("options")));
            assert!(error.message().contains(said), "{text}: {error}");
        }
    }
}
