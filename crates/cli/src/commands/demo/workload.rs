//! What the demo submits, and what should become of it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use everloom::{Backoff, Engine, ExecutionId, NewExecution, Payload, Policy, RetryPolicy, Status};
use serde::{Deserialize, Serialize};

/// What a handler is told to do.
#[derive(Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) number: u32,
    pub(super) work_ms: u64,
    /// How many attempts fail before one succeeds.
    pub(super) failures: u32,
}

/// How many executions should end how.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) expected: BTreeMap<Status, u64>,
}

struct Kind {
    name: &'static str,
    lane: &'static str,
    priority: i32,
    work_ms: u64,
}

const KINDS: [Kind; 4] = [
    Kind { name: "charge_card", lane: "billing", priority: 3000, work_ms: 3 },
    Kind { name: "resize_image", lane: "media", priority: 1000, work_ms: 8 },
    Kind { name: "send_mail", lane: "mail", priority: 1000, work_ms: 2 },
    Kind { name: "build_report", lane: "media", priority: 500, work_ms: 15 },
];

const MAX_RETRIES: u32 = 2;

pub(super) async fn submit(engine: &Engine, executions: u32) -> Result<Plan> {
    let mut plan = Plan::default();
    let mut batch = Vec::new();
    let mut to_cancel = Vec::new();
    for number in 0..executions {
        let kind = &KINDS[number as usize % KINDS.len()];
        let failures = match (kind.name, number % 40) {
            ("charge_card", 0) => MAX_RETRIES + 1,
            ("charge_card", 8 | 16) => 1,
            _ => 0,
        };
        let task = Task { number, work_ms: kind.work_ms, failures };
        let policy = Policy {
            retry: RetryPolicy {
                max_retries: Some(MAX_RETRIES),
                backoff: Some(Backoff::Exponential { initial_ms: 100, factor: 2.0, max_ms: 1000 }),
                ..RetryPolicy::default()
            },
            ..Policy::default()
        };
        let mut execution = NewExecution::new(kind.name)
            .lane(kind.lane)
            .priority(kind.priority)
            .input(Payload::json(&task)?)
            .key(format!("demo-{number}"))
            .tag("customer", format!("customer-{}", number % 7))
            .policy(policy);
        let ends = match number % 50 {
            // Never let go: its deadline ends it.
            21 => {
                execution = execution.hold();
                execution.policy.deadline = Some(Duration::from_millis(500));
                Status::Expired
            }
            // Held until someone cancels it.
            42 => {
                execution = execution.hold();
                to_cancel.push(number);
                Status::Cancelled
            }
            _ if failures > MAX_RETRIES => Status::Failed,
            // Sleeps before it starts.
            7 => {
                execution = execution.delay(Duration::from_millis(300));
                Status::Completed
            }
            _ => Status::Completed,
        };
        *plan.expected.entry(ends).or_default() += 1;
        batch.push(execution);
    }
    let ids = submit_all(engine, batch).await?;
    for number in to_cancel {
        engine.cancel(ids[number as usize]).await?;
    }
    Ok(plan)
}

async fn submit_all(engine: &Engine, executions: Vec<NewExecution>) -> Result<Vec<ExecutionId>> {
    let mut ids = Vec::with_capacity(executions.len());
    for batch in executions.chunks(500) {
        let submitted = engine.submit_batch(batch.to_vec()).await?;
        ids.extend(submitted.iter().map(everloom::Submission::id));
    }
    Ok(ids)
}
