//! Why an execution is where it is, in words.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::claim::free_slots;
use crate::command::{Context, Query};
use crate::flow::what_for;
use crate::lease::load;
use crate::model::{
    DelayCause, Execution, ExecutionId, Lane, LaneMode, Limits, Ready, Result, State, Status,
    Timestamp, default_name,
};
use crate::store::Read;
use crate::{limit, suspend};

/// Asks what an execution waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explain {
    /// Where it belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which one.
    pub execution: ExecutionId,
}

/// What an execution waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// What it is doing.
    pub status: Status,
    /// In one sentence.
    pub summary: String,
    /// Everything that keeps it from going on, each in a sentence; nothing if it goes on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<String>,
    /// When time alone changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
}

impl Query for Explain {
    const NAME: &'static str = "explain";
    type Output = Explanation;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<Explanation> {
        let execution = load(read, &self.namespace, self.execution)?;
        explain(read, cx, &execution)
    }
}

/// What an execution waits for.
pub(crate) fn explain(
    read: &mut dyn Read,
    cx: &Context,
    execution: &Execution,
) -> Result<Explanation> {
    let lane = read.lane_by_id(execution.lane)?;
    let blocked_by = match &execution.state {
        State::Waiting | State::Resumable => obstacles(read, cx, execution, &lane)?,
        State::WaitingChildren(_) => what_for(read, execution)?,
        State::Suspended(suspended) => suspend::what_for(read, execution, suspended)?,
        State::Limited(limited) => limit::what_for(read, cx, limited)?,
        State::Delayed(_) if execution.is_held() => held(execution),
        State::Delayed(_) | State::Granted(_) | State::Active(_) | State::Ended(_) => vec![],
    };
    Ok(Explanation {
        status: execution.status(),
        summary: summary(cx, execution, &lane),
        blocked_by,
        due_at: execution.due_at(),
    })
}

/// By whom it is held, if it is.
fn held(execution: &Execution) -> Vec<String> {
    let own = execution.held.then(|| "It is held; unhold it to let it go.".to_owned());
    let flow = execution.member.as_ref().filter(|_| execution.gated);
    let flow = flow.map(|member| format!("Its flow {} is held; unhold that.", member.flow_id));
    own.into_iter().chain(flow).collect()
}

fn summary(cx: &Context, execution: &Execution, lane: &Lane) -> String {
    let for_long = words(cx.now.since(execution.since));
    match &execution.state {
        State::Waiting => format!(
            "Waiting in lane `{}` for {for_long}, with priority {}, for attempt {}.",
            lane.name,
            execution.priority,
            execution.attempt + 1
        ),
        State::Resumable => format!(
            "Ready in lane `{}` for {for_long} to go on with attempt {}.",
            lane.name, execution.attempt
        ),
        State::Delayed(delay) => {
            let why = match delay.cause {
                DelayCause::Start => "It was submitted to start".to_owned(),
                DelayCause::Sleep => "Its worker asked to go on".to_owned(),
                DelayCause::Resume => "It was resumed to go on".to_owned(),
                DelayCause::Backoff if execution.reclaims > 0 => {
                    format!(
                        "It lost its worker {} times in a row and is tried again",
                        execution.reclaims
                    )
                }
                DelayCause::Backoff => format!(
                    "Attempt {} failed; retry {} of {} begins",
                    execution.attempt,
                    execution.retries,
                    execution.policy.retry.max_retries()
                ),
            };
            format!("{why} at {}, in {}.", delay.until, words(delay.until.since(cx.now)))
        }
        State::WaitingChildren(blocked) => match blocked.then {
            Ready::Waiting => format!("Has waited for {for_long} for what comes before it."),
            Ready::Resumable => format!("Has waited for {for_long} for what it has made."),
        },
        State::Suspended(suspended) => {
            let until = match suspended.until {
                Some(until) => {
                    format!(", until {} at the latest, in {}", until, words(until.since(cx.now)))
                }
                None => String::new(),
            };
            format!("Suspended for {for_long} ({}){until}.", suspended.reason)
        }
        State::Limited(limited) => {
            format!("Has waited for {for_long} because the {} does not let it pass.", limited.by)
        }
        State::Granted(grant) => {
            format!("Reserved for worker `{}` until {}.", grant.worker, grant.until)
        }
        State::Active(lease) => {
            let stop = match (&lease.cancel, &lease.pause) {
                (Some(cancel), _) => format!(
                    " `{}` asked it to stop; it is cancelled at {} at the latest.",
                    cancel.by, cancel.force_at
                ),
                (None, Some(pause)) => format!(
                    " Budget `{}` is used up; it is put aside at {} at the latest.",
                    pause.budget, pause.force_at
                ),
                (None, None) => String::new(),
            };
            format!(
                "Attempt {} has run for {for_long} on worker `{}`, whose lease ends at {} unless renewed.{stop}",
                execution.attempt, lease.worker, lease.until
            )
        }
        State::Ended(end) => {
            let by = end.by.as_ref().map(|by| format!(" by `{by}`")).unwrap_or_default();
            let message = end.message.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            format!(
                "Ended {} at {}{by}, reason {}{message}.",
                execution.status(),
                execution.since,
                end.reason.as_str()
            )
        }
    }
}

/// What keeps a ready execution from being claimed.
fn obstacles(
    read: &mut dyn Read,
    cx: &Context,
    execution: &Execution,
    lane: &Lane,
) -> Result<Vec<String>> {
    let mut found = held(execution);
    if lane.mode == LaneMode::Paused {
        found.push(format!("Lane `{}` is paused; resume it.", lane.name));
    }
    if free_slots(lane) == 0 {
        found.push(format!(
            "Lane `{}` has {} executions under way, as many as it may.",
            lane.name, lane.active
        ));
    }
    let routes = read.routes(execution.namespace)?;
    if let Some(route) = routes.get(execution.route) {
        let workers = read.workers(execution.namespace, None, Limits::PAGE)?;
        let alive: Vec<_> = workers.iter().filter(|worker| cx.now < worker.due_at()).collect();
        let serves = alive.iter().any(|worker| {
            worker.lanes.contains(&lane.name)
                && route.served_by(&worker.kinds, &worker.capabilities)
        });
        if !alive.is_empty() && !serves {
            let needs = match route.capabilities.is_empty() {
                true => String::new(),
                false => format!(" with the capabilities {}", route.capabilities.join(", ")),
            };
            found.push(format!(
                "None of the {} registered workers serves kind `{}`{needs} on lane `{}`.",
                alive.len(),
                route.kind,
                lane.name
            ));
        }
    }
    Ok(found)
}

/// A duration as a person would say it.
fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
