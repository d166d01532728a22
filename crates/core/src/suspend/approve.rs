//! Approving and rejecting: signals that say who, with which role, and why.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::deliver::{Delivered, Delivery, SignalTo, check_source};
use crate::command::{Command, Context};
use crate::model::{
    Approval, Check, Error, ExecutionId, Payload, Result, default_name, duration_ms,
};
use crate::store::Tx;

macro_rules! verdicts {
    ($($(#[$doc:meta])* $type:ident $name:literal $approved:literal $signal:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $type {
            /// Where the execution belongs.
            #[serde(default = "default_name")]
            pub namespace: String,
            /// Which execution.
            pub execution: ExecutionId,
            /// At which waitpoint: by its token, or with authority by its name.
            pub at: SignalTo,
            /// Who it is, as whoever calls has made sure. Left out with a token, which speaks for
            /// itself.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub by: Option<String>,
            /// The roles they have.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub roles: Vec<String>,
            /// In their words.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub comment: Option<String>,
            /// What else they give to the handler.
            #[serde(default, skip_serializing_if = "Payload::is_empty")]
            pub payload: Payload,
            /// Saying it again under the same key does nothing.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub key: Option<String>,
            /// After how long the execution goes on, if this lets it. Not with a token.
            #[serde(rename = "resume_delay_ms", with = "duration_ms")]
            #[serde(default, skip_serializing_if = "Duration::is_zero")]
            pub resume_delay: Duration,
        }

        impl $type {
            /// At a waitpoint, by whoever `by` names; nobody with a token.
            pub fn new(execution: ExecutionId, at: SignalTo, by: Option<&str>) -> Self {
                Self {
                    namespace: default_name(),
                    execution,
                    at,
                    by: by.map(str::to_owned),
                    roles: vec![],
                    comment: None,
                    payload: Payload::default(),
                    key: None,
                    resume_delay: Duration::ZERO,
                }
            }
        }

        impl Command for $type {
            const NAME: &'static str = $name;
            type Output = Delivered;

            fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Delivered> {
                let mut check = Check::default();
                check_who(&mut check, &self.at, self.by.as_deref(), &self.roles);
                if let Some(comment) = &self.comment {
                    check.text("comment", comment);
                }
                if self.at == SignalTo::Execution {
                    return Err(Error::invalid("at", "name a waitpoint"));
                }
                let delivery = Delivery {
                    namespace: &self.namespace,
                    execution: self.execution,
                    to: &self.at,
                    name: $signal,
                    source: self.by.as_deref(),
                    payload: &self.payload,
                    correlation: None,
                    key: self.key.as_deref(),
                    resume_delay: self.resume_delay,
                    approval: Some(Approval {
                        approved: $approved,
                        comment: self.comment.clone(),
                        roles: self.roles.clone(),
                    }),
                };
                delivery.apply(tx, cx, check)
            }
        }
    )*};
}

verdicts! {
    /// Approves at a waitpoint: a signal named `approved`.
    Approve "approve" true "approved";
    /// Rejects at a waitpoint: a signal named `rejected`.
    Reject "reject" false "rejected";
}

fn check_who(check: &mut Check, at: &SignalTo, by: Option<&str>, roles: &[String]) {
    match (at, by) {
        (_, Some(by)) => check_source(check, "by", by, at),
        (SignalTo::Token(_), None) => {}
        (_, None) => check.that(false, "by", || "say who it is".into()),
    }
    check.that(roles.is_empty() || by.is_some(), "roles", || {
        "leave them out with a token: it may speak for any role".into()
    });
    check.names("roles", roles);
}
