use serde::{Deserialize, Serialize};

use super::{RowId, Timestamp};

/// A recorded step of an execution; its result lies beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The execution.
    pub execution: RowId,
    /// 1, 2, 3 … in the order they were recorded.
    pub seq: u32,
    /// Its name, which a handler chooses.
    pub name: String,
    /// Which of those with that name, from 0.
    pub occurrence: u32,
    /// What is known of it; fixed from then on.
    pub facts: StepFacts,
}

/// What is known of a step, except for its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFacts {
    /// What sort of step it is: a later run of the handler must find the same.
    pub kind: String,
    /// When it was recorded.
    pub at: Timestamp,
    /// The attempt that recorded it.
    pub attempt: u32,
    /// The run that recorded it.
    pub run: u32,
    /// Bytes of its result.
    pub size: u64,
}
