//! Streams as programs see them.

use everloom_core::{
    Append, Appended, CloseStream, ExecutionId, LeaseToken, NewFrame, ReadStream, ReadSummary,
    Result, StreamClosed, StreamPage, SummaryView,
};

use crate::{Engine, Tail, TailStream};

/// What a running execution puts out, for those who watch and those who come later.
impl Engine {
    /// Appends frames to the stream of an execution: 1 to 1000, all or none, numbered on from the
    /// last one.
    ///
    /// ```
    /// use everloom::{Claim, Engine, NewExecution, NewFrame, Payload};
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> everloom::Result<()> {
    /// let engine = Engine::open("memory").await?;
    /// let id = engine.submit(NewExecution::new("write")).await?.id();
    /// let work = engine.claim(Claim::new("w")).await?.leases.remove(0);
    ///
    /// let appended = engine
    ///     .append(&work.lease, vec![
    ///         NewFrame::new(Payload::bytes("Once upon a time")).named("text"),
    ///         // A patch of what the stream comes to.
    ///         NewFrame::patch(&json!({ "words": 4, "model": "bard" })),
    ///         // Only for those who watch: kept for about as long as they need to catch up.
    ///         NewFrame::live(Payload::bytes("thinking")),
    ///     ])
    ///     .await?;
    /// assert_eq!((appended.first, appended.last, appended.kept), (1, 3, 2));
    ///
    /// engine.append(&work.lease, vec![NewFrame::patch(&json!({ "words": 9 }))]).await?;
    /// let summary = engine.read_summary(id).await?.expect("there were patches");
    /// assert_eq!(summary.document, json!({ "words": 9, "model": "bard" }));
    /// assert_eq!(summary.version, 2);
    /// # Ok(())
    /// # }
    /// ```
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

    /// The frames of an execution's stream: what is there, then what comes, across attempts,
    /// until it closes.
    ///
    /// ```
    /// use everloom::{Claim, Engine, NewExecution, NewFrame, Payload, StreamEnd, TailStream};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> everloom::Result<()> {
    /// let engine = Engine::open("memory").await?;
    /// let id = engine.submit(NewExecution::new("write")).await?.id();
    /// let mut tail = engine.tail_stream(TailStream::new(id)).await?;
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
    /// assert_eq!(tail.closed().map(|closed| closed.why), Some(StreamEnd::Completed));
    /// assert_eq!(tail.cursor(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn tail_stream(&self, tail: TailStream) -> Result<Tail> {
        Tail::begin(self.driver().clone(), self.here(), tail).await
    }

    /// What an execution's stream comes to, if anything was put into its summary.
    pub async fn read_summary(&self, execution: ExecutionId) -> Result<Option<SummaryView>> {
        self.ask(ReadSummary { namespace: self.here(), execution }).await
    }
}
