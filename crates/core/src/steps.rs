//! Recorded steps: what a handler has done, so that it is not done again.

use serde::{Deserialize, Serialize};

use crate::command::{Command, Context, Query};
use crate::event::default_page;
use crate::lease::{fence, load};
use crate::model::{
    Check, Code, Error, Execution, ExecutionId, LeaseToken, Limits, Payload, Result, Step,
    StepFacts, Timestamp, default_name,
};
use crate::page::{check_page, cut, fitting};
use crate::store::{Read, Tx};

/// Records the result of a step. Whoever holds the execution's lease later finds it and need not
/// take the step again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordStep {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// The step's name, which the handler chooses.
    pub name: String,
    /// Which of those with that name, from 0.
    #[serde(default)]
    pub occurrence: u32,
    /// What sort of step it is.
    #[serde(default = "plain")]
    pub kind: String,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub result: Payload,
}

impl RecordStep {
    /// The first step of that name.
    pub fn new(lease: LeaseToken, name: impl Into<String>, result: Payload) -> Self {
        Self {
            namespace: default_name(),
            lease,
            name: name.into(),
            occurrence: 0,
            kind: plain(),
            result,
        }
    }
}

fn plain() -> String {
    "step".to_owned()
}

/// The step is on record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecorded {
    /// 1, 2, 3 … among the execution's.
    pub seq: u32,
    /// What was recorded before under the same name; then that counts, and not what was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Payload>,
}

impl Command for RecordStep {
    const NAME: &'static str = "record_step";
    type Output = StepRecorded;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<StepRecorded> {
        let mut check = Check::default();
        check.key("name", &self.name);
        check.name("kind", &self.kind);
        check.payload("result", &self.result, cx.limits());
        check.finish()?;
        let mut execution = fence(tx, cx, &self.namespace, &self.lease)?.live(&self.lease)?;
        if let Some(earlier) = self.earlier(tx, &execution)? {
            return Ok(earlier);
        }
        let last = match execution.beside.steps {
            true => tx.last_step(execution.row)?,
            false => 0,
        };
        if last as usize >= Limits::STEPS {
            return Err(Error::new(
                Code::TooLarge,
                format!("execution {} has recorded {last} steps, as many as it may", execution.id),
            ));
        }
        let step = Step {
            execution: execution.row,
            seq: last + 1,
            name: self.name.clone(),
            occurrence: self.occurrence,
            facts: StepFacts {
                kind: self.kind.clone(),
                at: cx.now,
                attempt: execution.attempt,
                run: execution.run,
                size: self.result.bytes.len() as u64,
            },
        };
        tx.add_step(&step, &self.result)?;
        if !execution.beside.steps {
            execution.beside.steps = true;
            tx.save(&execution)?;
        }
        Ok(StepRecorded { seq: step.seq, earlier: None })
    }
}

impl RecordStep {
    fn earlier(&self, tx: &mut dyn Tx, execution: &Execution) -> Result<Option<StepRecorded>> {
        if !execution.beside.steps {
            return Ok(None);
        }
        let Some(step) = tx.step(execution.row, &self.name, self.occurrence)? else {
            return Ok(None);
        };
        if step.facts.kind != self.kind {
            return Err(Error::steps_diverged(
                &step.name,
                step.occurrence,
                &step.facts.kind,
                &self.kind,
            ));
        }
        let earlier = tx.step_results(execution.row, &[step.seq])?.pop();
        Ok(Some(StepRecorded { seq: step.seq, earlier }))
    }
}

/// A recorded step as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    /// 1, 2, 3 … in the order they were recorded.
    pub seq: u32,
    /// Its name.
    pub name: String,
    /// Which of those with that name, from 0.
    pub occurrence: u32,
    /// What sort of step it is.
    pub kind: String,
    /// When it was recorded.
    pub at: Timestamp,
    /// The attempt that recorded it.
    pub attempt: u32,
    /// The run that recorded it.
    pub run: u32,
    /// Bytes of its result.
    pub size: u64,
    /// What came of it; absent when the answer would have become too large, then a page that
    /// begins with it has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
}

/// Lists an execution's recorded steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListSteps {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// Read on after this one.
    #[serde(default)]
    pub after: u32,
    /// How many at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl ListSteps {
    /// The first page.
    pub fn new(execution: ExecutionId) -> Self {
        Self { namespace: default_name(), execution, after: 0, limit: default_page() }
    }
}

/// A page of recorded steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepPage {
    /// The steps, the first one first.
    pub steps: Vec<StepView>,
    /// Read on after this one; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

impl Query for ListSteps {
    const NAME: &'static str = "list_steps";
    type Output = StepPage;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<StepPage> {
        check_page(self.limit)?;
        let execution = load(read, &self.namespace, self.execution)?;
        let mut room = cx.limits().batch_bytes;
        page(read, &execution, self.after, self.limit, &mut room)
    }
}

/// What an execution that is being claimed has recorded, as far as the answer has room.
pub(crate) fn recorded(
    read: &mut dyn Read,
    execution: &Execution,
    room: &mut usize,
) -> Result<StepPage> {
    match execution.beside.steps {
        true => page(read, execution, 0, Limits::PAGE, room),
        false => Ok(StepPage::default()),
    }
}

fn page(
    read: &mut dyn Read,
    execution: &Execution,
    after: u32,
    limit: usize,
    room: &mut usize,
) -> Result<StepPage> {
    let mut found = read.steps(execution.row, after, limit + 1)?;
    let next = cut(&mut found, limit, |last| last.seq);
    let fit = fitting(found.iter().map(|step| step.facts.size), room);
    let seqs: Vec<u32> = found[..fit].iter().map(|step| step.seq).collect();
    let mut results = match fit {
        0 => vec![],
        _ => read.step_results(execution.row, &seqs)?,
    }
    .into_iter();
    let view = |Step { seq, name, occurrence, facts, .. }| StepView {
        seq,
        name,
        occurrence,
        kind: facts.kind,
        at: facts.at,
        attempt: facts.attempt,
        run: facts.run,
        size: facts.size,
        result: results.next(),
    };
    Ok(StepPage { steps: found.into_iter().map(view).collect(), next })
}

/// Which recorded steps a replayed execution keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepSteps {
    /// All of them: it goes on where it failed.
    #[default]
    All,
    /// None: it does everything again.
    None,
    /// Those recorded before this one.
    Before {
        /// The step's name.
        name: String,
        /// Which of those with that name, from 0.
        #[serde(default)]
        occurrence: u32,
    },
}

impl KeepSteps {
    /// The first step that goes, if any does.
    pub(crate) fn first_dropped(
        &self,
        read: &mut dyn Read,
        execution: &Execution,
    ) -> Result<Option<u32>> {
        match self {
            Self::All => Ok(None),
            Self::None => Ok(execution.beside.steps.then_some(1)),
            Self::Before { name, occurrence } => {
                let step = match execution.beside.steps {
                    true => read.step(execution.row, name, *occurrence)?,
                    false => None,
                };
                let step = step.ok_or_else(|| {
                    let place = format!("`{name}` number {occurrence} of {}", execution.id);
                    Error::not_found("recorded step", place).with_field("steps")
                })?;
                Ok(Some(step.seq))
            }
        }
    }
}
