//! What lies beside executions that wait.

use std::collections::{BTreeMap, BTreeSet};

use everloom_core::{
    Limits, NamespaceId, Payload, RowId, Signal, SigningKey, Step, Suspension, Waitpoint,
    WaitpointId,
};

/// An execution, and a number within it.
pub(crate) type Place = (RowId, u32);

/// A signal by its key: the execution and the key.
pub(crate) type SignalName = (RowId, String);

/// A suspension by its key: the execution, the run and the key.
pub(crate) type SuspensionName = (RowId, u32, String);

/// A step by its name: the execution, the name and the occurrence.
pub(crate) type StepName = (RowId, String, u32);

/// A name within a namespace.
pub(crate) type Named = (NamespaceId, String);

/// How many signals and steps a claim asks for at first.
pub(crate) const HANDED_OVER: usize = Limits::PAGE + 1;

/// What is wanted. None of it is locked but the signing keys: the execution is, always before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MailWants {
    /// Whether executions that are wanted by id bring their mailboxes along, those who have one.
    pub(crate) along: bool,
    /// Mailboxes: the last numbers, the last suspension, the open waitpoints, and the signals that
    /// are kept in the execution's run.
    pub(crate) boxes: BTreeSet<RowId>,
    pub(crate) suspensions: BTreeSet<Place>,
    pub(crate) suspension_names: BTreeSet<SuspensionName>,
    pub(crate) waitpoints: BTreeSet<(RowId, WaitpointId)>,
    pub(crate) signal_names: BTreeSet<SignalName>,
    /// Signals that are kept in some run.
    pub(crate) kept_signals: BTreeSet<(RowId, u32)>,
    pub(crate) signal_payloads: BTreeSet<Place>,
    pub(crate) step_names: BTreeSet<StepName>,
    pub(crate) last_steps: BTreeSet<RowId>,
    pub(crate) step_results: BTreeSet<Place>,
    /// Pages: those after a number, and how many.
    pub(crate) suspension_pages: BTreeMap<Place, usize>,
    pub(crate) waitpoint_pages: BTreeMap<Place, usize>,
    pub(crate) signal_pages: BTreeMap<Place, usize>,
    pub(crate) step_pages: BTreeMap<Place, usize>,
    /// What a suspension has taken, after a number, and how many.
    pub(crate) taken_pages: BTreeMap<(Place, u32), usize>,
    /// The same of the last suspension of executions whose mailboxes are wanted, from the first on.
    pub(crate) resumptions: BTreeSet<RowId>,
    /// All keys of these namespaces, which nobody changes meanwhile.
    pub(crate) signing_keys: BTreeSet<NamespaceId>,
    /// The same, and nobody else reads them meanwhile.
    pub(crate) own_signing_keys: BTreeSet<NamespaceId>,
    /// How many open waitpoints are signed by a key.
    pub(crate) signed: BTreeSet<Named>,
}

/// The last numbers of an execution's mail; 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lasts {
    pub(crate) suspension: u32,
    pub(crate) waitpoint: u32,
    pub(crate) signal: u32,
}

/// The answers to [`MailWants`]: rows of each sort from every question.
#[derive(Debug, Default)]
pub(crate) struct LoadedMail {
    pub(crate) boxes: BTreeMap<RowId, Lasts>,
    pub(crate) suspensions: Vec<Suspension>,
    pub(crate) waitpoints: Vec<Waitpoint>,
    pub(crate) signals: Vec<Signal>,
    pub(crate) signal_payloads: BTreeMap<Place, Payload>,
    pub(crate) steps: Vec<Step>,
    pub(crate) last_steps: BTreeMap<RowId, u32>,
    pub(crate) step_results: BTreeMap<Place, Payload>,
    pub(crate) signing_keys: Vec<SigningKey>,
    pub(crate) signed: BTreeMap<Named, u64>,
}

/// What a batch wrote.
#[derive(Debug, Default)]
pub(crate) struct MailChanges {
    pub(crate) new_suspensions: Vec<Suspension>,
    pub(crate) suspensions: Vec<Suspension>,
    pub(crate) new_waitpoints: Vec<Waitpoint>,
    pub(crate) waitpoints: Vec<Waitpoint>,
    pub(crate) new_signals: Vec<(Signal, Payload)>,
    pub(crate) signals: Vec<Signal>,
    /// From these numbers on.
    pub(crate) dropped_steps: Vec<Place>,
    pub(crate) new_steps: Vec<(Step, Payload)>,
    pub(crate) signing_keys: Vec<SigningKey>,
}

impl MailWants {
    /// Wants also what `others` wants to lock in order, and what comes along with it.
    pub(super) fn add_locked(&mut self, others: &Self) {
        self.along |= others.along;
        self.signing_keys.extend(&others.signing_keys);
        self.own_signing_keys.extend(&others.own_signing_keys);
    }
}
