//! Reading a stream: a range of it, from a place on, or what it comes to.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::command::{Context, Query};
use crate::event::default_page;
use crate::lease::load;
use crate::model::{
    Check, Chunk, Code, Error, Execution, ExecutionId, FrameKind, Payload, Result, State,
    StreamClosed, StreamState, Timestamp, default_name,
};
use crate::store::Read;

/// Reads a page of an execution's stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadStream {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
    /// From where.
    #[serde(default)]
    pub from: StreamFrom,
    /// Up to this frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Only frames of this attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Leave out live frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub durable_only: bool,
    /// The newest first, from the end or from `to` on; `from` says where to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backward: bool,
    /// How many frames at most.
    #[serde(default = "default_page")]
    pub limit: usize,
}

impl ReadStream {
    /// The first page.
    pub fn new(execution: ExecutionId) -> Self {
        Self {
            namespace: default_name(),
            execution,
            from: StreamFrom::default(),
            to: None,
            attempt: None,
            durable_only: false,
            backward: false,
            limit: default_page(),
        }
    }
}

/// From where a stream is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamFrom {
    /// From the oldest durable frame still kept.
    #[default]
    Oldest,
    /// From the next frame on.
    Now,
    /// From the frame after this one.
    After(u64),
}

/// A frame as a reader sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrameView {
    /// 1, 2, 3 … in the stream.
    pub seq: u64,
    /// When it was appended.
    pub at: Timestamp,
    /// The attempt it belongs to.
    pub attempt: u32,
    /// What it is.
    pub kind: FrameKind,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What connects it with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// Whether it is only for those who watch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// The version of the summary after it, if it changed that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_version: Option<u64>,
    /// Its bytes.
    pub payload: Payload,
}

/// A page of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamPage {
    /// The frames.
    pub frames: Vec<FrameView>,
    /// Read on after this frame, or backward up to it. Everything before that has been seen, also
    /// what did not match.
    pub next: u64,
    /// The number of the stream's last frame.
    pub last: u64,
    /// Whether there is no more for now.
    pub at_end: bool,
    /// Since when, and why, the stream takes no more frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<StreamClosed>,
}

impl Query for ReadStream {
    const NAME: &'static str = "read_stream";
    type Output = StreamPage;

    fn run(&self, read: &mut dyn Read, cx: &Context) -> Result<StreamPage> {
        let mut check = Check::default();
        check.page("limit", self.limit);
        check.finish()?;
        let execution = load(read, &self.namespace, self.execution)?;
        let state = state(read, &execution)?;
        let closed = state.closed.or_else(|| ended(&execution));
        let after = self.after(&state)?;
        let to = self.to.unwrap_or(u64::MAX).min(state.last);
        let mut page =
            StreamPage { frames: vec![], next: after, last: state.last, at_end: true, closed };
        if after < to {
            let room = cx.limits().batch_bytes;
            match self.backward {
                false => self.forward(read, &execution, (after, to), room, &mut page)?,
                true => self.backward(read, &execution, (after, to), room, &mut page)?,
            }
        } else if self.backward {
            page.next = to;
        }
        Ok(page)
    }
}

impl ReadStream {
    fn after(&self, state: &StreamState) -> Result<u64> {
        let after = match self.from {
            // Live frames before that have survived by chance, and no cursor may point there.
            StreamFrom::Oldest => return Ok(state.durable.gone),
            StreamFrom::Now => return Ok(state.last),
            StreamFrom::After(after) => after,
        };
        if after > state.last {
            return Err(Error::invalid(
                "from",
                format!("the stream has {} frames; there is none after {after}", state.last),
            ));
        }
        if after < state.durable.gone {
            return Err(Error::new(
                Code::CursorExpired,
                format!(
                    "frames up to {} have been removed; begin again at `oldest`",
                    state.durable.gone
                ),
            ));
        }
        Ok(after)
    }

    fn forward(
        &self,
        read: &mut dyn Read,
        execution: &Execution,
        (after, to): (u64, u64),
        room: usize,
        page: &mut StreamPage,
    ) -> Result<()> {
        let live = !self.durable_only;
        let chunks = read.chunks(execution.row, after, to, live, self.limit, room)?;
        // What is not among these was left out on purpose, or comes after them.
        let whole = chunks.iter().map(|chunk| chunk.facts.frames.len()).sum::<usize>() < self.limit
            && chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>() < room;
        page.next = to;
        page.at_end = true;
        'chunks: for chunk in chunks {
            for frame in frames(chunk) {
                if frame.seq > after && frame.seq <= to {
                    if page.frames.len() == self.limit {
                        page.next = frame.seq - 1;
                        page.at_end = false;
                        break 'chunks;
                    }
                    page.next = frame.seq;
                    page.frames.extend(Some(frame).filter(|frame| self.wants(frame)));
                }
            }
        }
        if whole && page.at_end {
            page.next = to;
        }
        page.at_end = page.next >= to;
        Ok(())
    }

    fn backward(
        &self,
        read: &mut dyn Read,
        execution: &Execution,
        (after, to): (u64, u64),
        room: usize,
        page: &mut StreamPage,
    ) -> Result<()> {
        let live = !self.durable_only;
        let chunks = read.last_chunks(execution.row, after, to, live, self.limit, room)?;
        let whole = chunks.iter().map(|chunk| chunk.facts.frames.len()).sum::<usize>() < self.limit
            && chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>() < room;
        let mut seen = to + 1;
        'chunks: for chunk in chunks {
            let mut newest_first: Vec<_> = frames(chunk).collect();
            newest_first.reverse();
            for frame in newest_first {
                if frame.seq > after && frame.seq <= to {
                    if page.frames.len() == self.limit {
                        break 'chunks;
                    }
                    seen = frame.seq;
                    page.frames.extend(Some(frame).filter(|frame| self.wants(frame)));
                }
            }
        }
        page.at_end = (whole && page.frames.len() < self.limit) || seen <= after + 1;
        page.next = if page.at_end { after } else { seen - 1 };
        Ok(())
    }

    fn wants(&self, frame: &FrameView) -> bool {
        self.attempt.is_none_or(|attempt| attempt == frame.attempt)
    }
}

fn state(read: &mut dyn Read, execution: &Execution) -> Result<StreamState> {
    let stream = match execution.beside.stream {
        true => read.stream(execution.row)?,
        false => None,
    };
    Ok(stream.map(|stream| stream.state).unwrap_or_default())
}

/// An execution that has ended without a stream has none that could go on.
fn ended(execution: &Execution) -> Option<StreamClosed> {
    match &execution.state {
        State::Ended(end) => {
            Some(StreamClosed { at: execution.since, why: end.outcome.into(), attempt: None })
        }
        _ => None,
    }
}

/// The frames of a chunk.
fn frames(chunk: Chunk) -> impl Iterator<Item = FrameView> {
    let Chunk { first, live, facts, bytes, .. } = chunk;
    let (at, attempt) = (facts.at, facts.attempt);
    let mut from = 0;
    facts.frames.into_iter().zip(first..).map(move |(facts, seq)| {
        let to = (from + facts.size as usize).min(bytes.len());
        let payload = Payload {
            content_type: facts.content_type.map_or(Payload::JSON.into(), Into::into),
            bytes: bytes[from.min(to)..to].to_vec(),
        };
        from = to;
        FrameView {
            seq,
            at,
            attempt,
            kind: facts.kind,
            name: facts.name,
            correlation: facts.correlation,
            live,
            summary_version: facts.summary,
            payload,
        }
    })
}

/// Reads what an execution's stream comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadSummary {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Which execution.
    pub execution: ExecutionId,
}

/// What a stream comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryView {
    /// How often it was changed.
    pub version: u64,
    /// When it was begun.
    pub first_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The document.
    pub document: Value,
}

impl Query for ReadSummary {
    const NAME: &'static str = "read_summary";
    type Output = Option<SummaryView>;

    fn run(&self, read: &mut dyn Read, _: &Context) -> Result<Option<SummaryView>> {
        let execution = load(read, &self.namespace, self.execution)?;
        let version = state(read, &execution)?.summary;
        let Some(summary) =
            (version > 0).then(|| read.summary(execution.row)).transpose()?.flatten()
        else {
            return Ok(None);
        };
        let document = serde_json::from_slice(&summary.document)
            .map_err(|error| Error::bug(format!("a stored summary is not JSON: {error}")))?;
        let (first_at, updated_at) = (summary.first_at, summary.updated_at);
        Ok(Some(SummaryView { version, first_at, updated_at, document }))
    }
}
