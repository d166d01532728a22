//! What lies beside an execution that waits: suspensions, waitpoints, signals, recorded steps, and
//! the keys that sign tokens.

use crate::model::{
    NamespaceId, Payload, Result, RowId, Signal, SigningKey, Step, Suspension, Waitpoint,
    WaitpointId,
};

/// Questions about what lies beside an execution.
pub trait ReadMail {
    /// An execution's suspension of that number; its last one when none is given.
    fn suspension(&mut self, execution: RowId, number: Option<u32>) -> Result<Option<Suspension>>;

    /// The suspension of a run with that key.
    fn suspension_by_key(
        &mut self,
        execution: RowId,
        run: u32,
        key: &str,
    ) -> Result<Option<Suspension>>;

    /// An execution's suspensions, from the first one after a number.
    fn suspensions(
        &mut self,
        execution: RowId,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Suspension>>;

    /// An execution's waitpoint of that id, open or closed.
    fn waitpoint(&mut self, execution: RowId, id: WaitpointId) -> Result<Option<Waitpoint>>;

    /// All open waitpoints of an execution, by number: there are never more than
    /// [`crate::Limits::OPEN_WAITPOINTS`].
    fn open_waitpoints(&mut self, execution: RowId) -> Result<Vec<Waitpoint>>;

    /// The number of an execution's last waitpoint; 0 when it has none.
    fn last_waitpoint(&mut self, execution: RowId) -> Result<u32>;

    /// An execution's waitpoints, open and closed, from the first one after a number.
    fn waitpoints(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Waitpoint>>;

    /// Open waitpoints of a namespace, by id, from the first one after `after`; only those of
    /// that key, if one is given. May look at all open ones of the namespace for a key.
    fn inbox(
        &mut self,
        namespace: NamespaceId,
        key: Option<&str>,
        after: Option<WaitpointId>,
        limit: usize,
    ) -> Result<Vec<Waitpoint>>;

    /// How many open waitpoints of a namespace have a token signed by that key. Scans the open
    /// ones of the namespace.
    fn count_signed(&mut self, namespace: NamespaceId, kid: &str) -> Result<u64>;

    /// The number of an execution's last signal; 0 when it has none.
    fn last_signal(&mut self, execution: RowId) -> Result<u32>;

    /// An execution's signal with that key.
    fn signal_by_key(&mut self, execution: RowId, key: &str) -> Result<Option<Signal>>;

    /// The signals of a run that no suspension has taken, the oldest first.
    fn kept_signals(&mut self, execution: RowId, run: u32) -> Result<Vec<Signal>>;

    /// The signals a suspension has taken, in the order they came, from the first one after a
    /// number.
    fn taken_signals(
        &mut self,
        execution: RowId,
        suspension: u32,
        after: u32,
        limit: usize,
    ) -> Result<Vec<Signal>>;

    /// An execution's signals, in the order they came, from the first one after a number.
    fn signals(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Signal>>;

    /// The payloads of an execution's signals of those numbers, which exist.
    fn signal_payloads(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>>;

    /// The recorded step of that name and occurrence.
    fn step(&mut self, execution: RowId, name: &str, occurrence: u32) -> Result<Option<Step>>;

    /// The number of an execution's last recorded step; 0 when it has none.
    fn last_step(&mut self, execution: RowId) -> Result<u32>;

    /// Recorded steps in their order, from the first one after a number.
    fn steps(&mut self, execution: RowId, after: u32, limit: usize) -> Result<Vec<Step>>;

    /// The results of an execution's steps of those numbers, which exist.
    fn step_results(&mut self, execution: RowId, seqs: &[u32]) -> Result<Vec<Payload>>;

    /// All signing keys of a namespace, by name.
    fn signing_keys(&mut self, namespace: NamespaceId) -> Result<Vec<SigningKey>>;
}

/// Writes of what lies beside an execution.
pub trait WriteMail {
    /// Inserts a suspension.
    fn add_suspension(&mut self, suspension: &Suspension) -> Result<()>;

    /// Saves how a suspension went; the rest of it never changes.
    fn save_suspension(&mut self, suspension: &Suspension) -> Result<()>;

    /// Inserts a waitpoint.
    fn add_waitpoint(&mut self, waitpoint: &Waitpoint) -> Result<()>;

    /// Saves what may change of a waitpoint: its course, its signing key and its fingerprint.
    fn save_waitpoint(&mut self, waitpoint: &Waitpoint) -> Result<()>;

    /// Inserts a signal with its payload.
    fn add_signal(&mut self, signal: &Signal, payload: &Payload) -> Result<()>;

    /// Saves which suspension took a signal; the rest of it never changes.
    fn save_signal(&mut self, signal: &Signal) -> Result<()>;

    /// Inserts a recorded step with its result.
    fn add_step(&mut self, step: &Step, result: &Payload) -> Result<()>;

    /// Removes an execution's recorded steps from a number on.
    fn drop_steps(&mut self, execution: RowId, from: u32) -> Result<()>;

    /// Creates or replaces a signing key.
    fn put_signing_key(&mut self, key: &SigningKey) -> Result<()>;
}
