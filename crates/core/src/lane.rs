//! Configuring, pausing and draining a lane. Nothing that stands in it is rewritten.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::command::{Command, Context};
use crate::event::{EventKind, NewEvent};
use crate::limit::{after_all, check_named};
use crate::model::{
    Check, Defaults, Error, FairTerms, Lane, LaneMode, NamespaceId, Result, Timestamp, default_name,
};
use crate::namespace;
use crate::store::Tx;

/// The lane of that name, made by its use.
pub(crate) fn used(tx: &mut dyn Tx, namespace: NamespaceId, name: &str) -> Result<Arc<Lane>> {
    match tx.lane(namespace, name)? {
        Some(lane) => Ok(lane),
        None => tx.add_lane(namespace, name),
    }
}

fn lane_event(kind: EventKind, at: Timestamp, lane: &Lane) -> NewEvent {
    NewEvent { lane: Some(lane.id), ..NewEvent::new(kind, at, lane.namespace) }
}

/// Sets a lane's defaults and maximum; creates it if need be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutLane {
    /// Where the lane belongs; created by use.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which lane.
    #[serde(default = "default_name")]
    pub lane: String,
    /// What submissions inherit; replaces what was set before.
    #[serde(default)]
    pub defaults: Defaults,
    /// How many of its executions may be owned at once; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active: Option<u32>,
    /// How work of different keys takes turns; when absent, what was submitted first goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<FairTerms>,
}

impl PutLane {
    /// A lane of the default namespace without defaults, maximum and turns.
    pub fn new(lane: impl Into<String>) -> Self {
        Self {
            namespace: default_name(),
            lane: lane.into(),
            defaults: Defaults::default(),
            max_active: None,
            fairness: None,
        }
    }
}

impl Command for PutLane {
    const NAME: &'static str = "put_lane";
    type Output = ();

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        let mut check = Check::default();
        check.name("namespace", &self.namespace);
        check.name("lane", &self.lane);
        check.that(self.max_active != Some(0), "max_active", || {
            "must be at least 1; pause the lane to stop it".into()
        });
        self.defaults.check(&mut check);
        if let Some(fairness) = &self.fairness {
            fairness.check(&mut check);
        }
        check.finish()?;
        let known = tx.namespace(&self.namespace)?;
        check_named(tx, known.as_deref(), &self.defaults.policy, "defaults.policy.")?;
        let namespace = namespace::used(tx, &self.namespace)?;
        let mut lane = (*used(tx, namespace.id, &self.lane)?).clone();
        lane.active = match (lane.max_active, self.max_active) {
            (Some(_), Some(_)) => lane.active,
            (None, Some(_)) => tx.count_owned(lane.id)?,
            (_, None) => 0,
        };
        lane.max_active = self.max_active;
        lane.defaults = self.defaults.clone();
        if self.fairness.is_some() && lane.fairness.is_none() {
            // What stands in the lane goes before what comes by turns.
            lane.course = Some(after_all(tx.new_row()?));
        }
        lane.fairness = self.fairness.clone();
        tx.save_lane(&lane)?;
        let data = Some(json!({ "max_active": lane.max_active }));
        tx.add_event(&NewEvent { data, ..lane_event(EventKind::LanePut, cx.now, &lane) })
    }
}

macro_rules! lane_mode_commands {
    ($($(#[$doc:meta])* $name:ident $text:literal $mode:ident $event:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Where the lane belongs.
            #[serde(default = "default_name")]
            pub namespace: String,
            /// Which lane.
            #[serde(default = "default_name")]
            pub lane: String,
        }

        impl Command for $name {
            const NAME: &'static str = $text;
            type Output = LaneChanged;

            fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<LaneChanged> {
                set_mode(tx, cx, &self.namespace, &self.lane, LaneMode::$mode, EventKind::$event)
            }
        }
    )*};
}

lane_mode_commands! {
    /// Hands out no more work from a lane; new work is still taken in.
    PauseLane "pause_lane" Paused LanePaused;
    /// Opens a lane that was paused or draining.
    ResumeLane "resume_lane" Open LaneResumed;
    /// Takes no new work into a lane; what is there is still handed out.
    DrainLane "drain_lane" Draining LaneDraining;
}

/// A lane is as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneChanged {
    /// What it was.
    pub before: LaneMode,
}

fn set_mode(
    tx: &mut dyn Tx,
    cx: &Context,
    namespace: &str,
    name: &str,
    mode: LaneMode,
    event: EventKind,
) -> Result<LaneChanged> {
    let found = match tx.namespace(namespace)? {
        Some(namespace) => tx.lane(namespace.id, name)?,
        None => None,
    };
    let Some(lane) = found else {
        return Err(Error::not_found("lane", format!("`{name}` in namespace `{namespace}`")));
    };
    let before = lane.mode;
    if before != mode {
        tx.save_lane(&Lane { mode, ..(*lane).clone() })?;
        tx.add_event(&lane_event(event, cx.now, &lane))?;
    }
    Ok(LaneChanged { before })
}
