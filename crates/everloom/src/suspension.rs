//! Suspension as programs see it.

use everloom_core::{
    Approve, CloseWaitpoint, CloseWaitpointOutcome, CreateWaitpoint, CreatedWaitpoint,
    DeliverSignal, Delivered, ExecutionId, InboxPage, KeyRevoked, ListInbox, ListSignals,
    ListSigningKeys, ListSteps, ListSuspensions, ListWaitpoints, ObserveSignals, RecordStep,
    Reject, Result, Resume, Resumed, RevokeSigningKey, RotateOutcome, RotateSigningKey,
    SeedOutcome, SeedSigningKey, SignalPage, SigningKeys, SigningSecret, StepPage, StepRecorded,
    Suspend, SuspendOutcome, SuspensionPage, WaitpointPage,
};

use crate::Engine;

/// Waiting for a signal, a callback or a person, and holding nothing meanwhile.
///
/// ```
/// use everloom::{
///     Approve, Claim, Condition, Engine, NewExecution, SignalTo, Suspend, SuspendOutcome,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> everloom::Result<()> {
/// let engine = Engine::open("memory").await?;
/// let id = engine.submit_one(NewExecution::new("refund")).await?.id();
/// let work = engine.claim(Claim::new("w")).await?.leases.remove(0);
///
/// let boss = Condition::approval("boss", 1);
/// let outcome = engine.suspend(Suspend::new(work.lease, boss)).await?;
/// let SuspendOutcome::Suspended { waitpoints, .. } = outcome else { panic!("{outcome:?}") };
/// // Mail a link with the token to the boss. Nobody works on the refund until they answer.
/// let token = waitpoints[0].token.clone();
///
/// engine.approve(Approve::new(id, SignalTo::Token(token), None)).await?;
/// let work = engine.claim(Claim::new("w")).await?.leases.remove(0);
/// let answer = &work.resumption.expect("it was suspended").signals[0];
/// assert!(answer.approval.as_ref().is_some_and(|answer| answer.approved));
/// # Ok(())
/// # }
/// ```
impl Engine {
    /// Ends a lease and waits until a condition over signals is met.
    pub async fn suspend(&self, suspend: Suspend) -> Result<SuspendOutcome> {
        self.apply(Suspend { namespace: self.here(), ..suspend }).await
    }

    /// Creates a place for signals before the execution waits for them.
    pub async fn create_waitpoint(&self, create: CreateWaitpoint) -> Result<CreatedWaitpoint> {
        self.apply(CreateWaitpoint { namespace: self.here(), ..create }).await
    }

    /// Closes a waitpoint: signals to it are refused from then on.
    pub async fn close_waitpoint(&self, close: CloseWaitpoint) -> Result<CloseWaitpointOutcome> {
        self.apply(CloseWaitpoint { namespace: self.here(), ..close }).await
    }

    /// Delivers a signal to an execution, or to one of its waitpoints.
    pub async fn deliver_signal(&self, signal: DeliverSignal) -> Result<Delivered> {
        self.apply(DeliverSignal { namespace: self.here(), ..signal }).await
    }

    /// Approves at a waitpoint.
    pub async fn approve(&self, approve: Approve) -> Result<Delivered> {
        self.apply(Approve { namespace: self.here(), ..approve }).await
    }

    /// Rejects at a waitpoint.
    pub async fn reject(&self, reject: Reject) -> Result<Delivered> {
        self.apply(Reject { namespace: self.here(), ..reject }).await
    }

    /// Lets a suspended execution go on, whatever it waits for.
    pub async fn resume(&self, execution: ExecutionId) -> Result<Resumed> {
        self.resume_with(Resume::new(execution)).await
    }

    /// Lets a suspended execution go on: by whom, why, and when.
    pub async fn resume_with(&self, resume: Resume) -> Result<Resumed> {
        self.apply(Resume { namespace: self.here(), ..resume }).await
    }

    /// The signals a suspension has taken; its last one's unless one is named.
    pub async fn observe_signals(&self, observe: ObserveSignals) -> Result<SignalPage> {
        self.ask(ObserveSignals { namespace: self.here(), ..observe }).await
    }

    /// Everything that was ever delivered to an execution.
    pub async fn list_signals(&self, list: ListSignals) -> Result<SignalPage> {
        self.ask(ListSignals { namespace: self.here(), ..list }).await
    }

    /// An execution's suspensions.
    pub async fn list_suspensions(&self, list: ListSuspensions) -> Result<SuspensionPage> {
        self.ask(ListSuspensions { namespace: self.here(), ..list }).await
    }

    /// An execution's waitpoints.
    pub async fn list_waitpoints(&self, list: ListWaitpoints) -> Result<WaitpointPage> {
        self.ask(ListWaitpoints { namespace: self.here(), ..list }).await
    }

    /// What people and systems outside are asked for, over all executions.
    pub async fn inbox(&self, list: ListInbox) -> Result<InboxPage> {
        self.ask(ListInbox { namespace: self.here(), ..list }).await
    }

    /// Brings a signing secret of one's own before the first token is signed.
    pub async fn seed_signing_key(&self, kid: &str, secret: SigningSecret) -> Result<SeedOutcome> {
        let (namespace, kid) = (self.here(), kid.to_owned());
        self.apply(SeedSigningKey { namespace, kid, secret }).await
    }

    /// Lets a new key sign tokens.
    pub async fn rotate_signing_key(&self, rotate: RotateSigningKey) -> Result<RotateOutcome> {
        self.apply(RotateSigningKey { namespace: self.here(), ..rotate }).await
    }

    /// Ends a signing key at once, with all tokens it has signed.
    pub async fn revoke_signing_key(&self, kid: &str) -> Result<KeyRevoked> {
        self.apply(RevokeSigningKey { namespace: self.here(), kid: kid.to_owned() }).await
    }

    /// The signing keys; their secrets never leave.
    pub async fn signing_keys(&self) -> Result<SigningKeys> {
        self.ask(ListSigningKeys { namespace: self.here() }).await
    }

    /// Records the result of a step, for whoever holds the execution's lease later.
    pub async fn record_step(&self, record: RecordStep) -> Result<StepRecorded> {
        self.apply(RecordStep { namespace: self.here(), ..record }).await
    }

    /// The steps an execution has recorded.
    pub async fn list_steps(&self, list: ListSteps) -> Result<StepPage> {
        self.ask(ListSteps { namespace: self.here(), ..list }).await
    }
}
