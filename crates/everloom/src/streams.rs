//! Streams as programs see them.

use everloom_core::{
    Append, Appended, CloseStream, ExecutionId, LeaseToken, NewFrame, ReadStream, ReadSummary,
    Result, StreamClosed, StreamPage, SummaryView,
};

use crate::{Engine, Tail};

/// What a running execution puts out, for those who watch and those who come later.
///
/// ```
/// use everloom::{Claim, Engine, NewExecution, NewFrame, Payload, ReadStream};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> everloom::Result<()> {
/// let engine = Engine::open("memory").await?;
/// let id = engine.submit(NewExecution::new("write")).await?.id();
/// let mut tail = engine.tail_stream(ReadStream::new(id)).await?;
///
/// let work = engine.claim(Claim::new("w")).await?.leases.remove(0);
/// let words = ["Once", "upon", "a", "time"].map(|word| NewFrame::new(Payload::bytes(word)));
/// engine.append(&work.lease, words.to_vec()).await?;
/// engine.complete(&work.lease, Payload::default()).await?;
///
/// let mut told = Vec::new();
/// while let Some(frame) = tail.next().await {
///     told.push(String::from_utf8_lossy(&frame?.payload.bytes).into_owned());
/// }
/// assert_eq!(told.join(" "), "Once upon a time");
/// # Ok(())
/// # }
/// ```
impl Engine {
    /// Appends frames to the stream of an execution.
    pub async fn append(&self, lease: &LeaseToken, frames: Vec<NewFrame>) -> Result<Appended> {
        self.apply(Append { namespace: self.here(), ..Append::new(lease.clone(), frames) }).await
    }

    /// Says that there will be no more frames.
    pub async fn close_stream(&self, lease: &LeaseToken) -> Result<StreamClosed> {
        self.apply(CloseStream { namespace: self.here(), lease: lease.clone() }).await
    }

    /// A page of an execution's stream.
    pub async fn read_stream(&self, read: ReadStream) -> Result<StreamPage> {
        self.ask(ReadStream { namespace: self.here(), ..read }).await
    }

    /// The frames of an execution's stream: what is there, then what comes, until it closes.
    pub async fn tail_stream(&self, read: ReadStream) -> Result<Tail> {
        let read = ReadStream { namespace: self.here(), ..read };
        Tail::begin(self.driver().clone(), read).await
    }

    /// What an execution's stream comes to, if anything was put into its summary.
    pub async fn read_summary(&self, execution: ExecutionId) -> Result<Option<SummaryView>> {
        self.ask(ReadSummary { namespace: self.here(), execution }).await
    }
}
