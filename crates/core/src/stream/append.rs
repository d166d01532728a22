//! Appending frames.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::merge::{depth, merge, set_null};
use crate::command::{Command, Context};
use crate::event::{EventKind, log};
use crate::lease::fence;
use crate::model::{
    Check, Chunk, ChunkFacts, Code, Error, Execution, FrameFacts, FrameKind, FrameMode, KeptFrames,
    LeaseToken, Limits, Liveness, Payload, Rate, Result, RowId, Stream, StreamClosed, StreamEnd,
    StreamState, Summary, default_name,
};
use crate::store::Tx;

/// Appends frames to the stream of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
    /// The frames, 1 to 1000.
    pub frames: Vec<NewFrame>,
}

impl Append {
    /// Some frames.
    pub fn new(lease: LeaseToken, frames: Vec<NewFrame>) -> Self {
        Self { namespace: default_name(), lease, frames }
    }
}

/// A frame to append.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewFrame {
    /// What it is.
    #[serde(default)]
    pub kind: FrameKind,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its bytes.
    #[serde(default)]
    pub payload: Payload,
    /// What connects it with others, for its readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// How it is kept.
    #[serde(default)]
    pub keep: FrameMode,
    /// For one that changes the summary: JSON pointers to members that are set to null after its
    /// patch was merged, which a patch can not do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nulls: Vec<String>,
}

impl NewFrame {
    /// A durable frame.
    pub fn new(payload: Payload) -> Self {
        Self { payload, ..Self::default() }
    }

    /// A frame that changes the summary: a JSON Merge Patch, whose root is an object.
    pub fn patch(patch: &Value) -> Self {
        let bytes = patch.to_string().into_bytes();
        let payload = Payload { content_type: Payload::JSON.into(), bytes };
        Self { payload, keep: FrameMode::Summary, ..Self::default() }
    }

    /// A frame only for those who watch.
    pub fn live(payload: Payload) -> Self {
        Self { payload, keep: FrameMode::Live(Liveness::default()), ..Self::default() }
    }

    /// With a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    fn check(&self, check: &mut Check) {
        check.bytes("payload", self.payload.bytes.len(), Limits::FRAME_BYTES);
        check.sized_text("payload", &self.payload.content_type, Limits::CONTENT_TYPE);
        if let Some(name) = &self.name {
            check.name("name", name);
        }
        if let Some(correlation) = &self.correlation {
            check.key("correlation", correlation);
        }
        if let FrameMode::Live(live) = &self.keep {
            let most = Limits::LIVE_TTL_MAX;
            check.duration("keep.ttl_ms", live.ttl, std::time::Duration::from_millis(1), most);
            check.that(1 <= live.floor && live.floor <= live.ceiling, "keep.floor", || {
                "must be at least 1 and not above the ceiling".into()
            });
            check.at_most("keep.ceiling", live.ceiling as usize, Limits::LIVE_FRAMES);
        }
        check.that(self.nulls.is_empty() || self.keep == FrameMode::Summary, "nulls", || {
            "only a frame that changes the summary has them".into()
        });
        check.at_most("nulls", self.nulls.len(), Limits::NAMES);
        for pointer in self.nulls.iter().take(Limits::NAMES) {
            check.bytes("nulls", pointer.len(), Limits::TEXT);
        }
    }
}

/// The frames are in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appended {
    /// The number of the first one.
    pub first: u64,
    /// The number of the last one: how many the stream ever had.
    pub last: u64,
    /// How many durable ones are kept.
    pub kept: u64,
    /// How often the summary was changed.
    pub summary_version: u64,
}

impl Command for Append {
    const NAME: &'static str = "append";
    type Output = Appended;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<Appended> {
        self.check(cx)?;
        let mut execution = fence(tx, cx, &self.namespace, &self.lease)?.live(&self.lease)?;
        let mut stream = open_stream(tx, &execution)?;
        if let Some(closed) = stream.state.closed.take()
            && closed.binds(execution.attempt)
        {
            return Err(closed_error(&execution, closed));
        }
        let first = stream.state.last + 1;
        let versions = self.patch(tx, cx, &mut stream)?;
        let mut versions = versions.into_iter();
        for (live, frames) in runs(&self.frames) {
            let chunk = chunk(cx, &execution, &stream.state, live, frames, &mut versions);
            let count = frames.len() as u64;
            stream.state.last += count;
            match live {
                true => stream.state.live.frames += count,
                false => stream.state.durable.frames += count,
            }
            tx.add_chunk(&chunk)?;
        }
        self.trim(tx, cx, &execution, &mut stream)?;
        tx.put_stream(&execution, &stream)?;
        if !execution.beside.stream {
            execution.beside.stream = true;
            tx.save(&execution)?;
        }
        Ok(Appended {
            first,
            last: stream.state.last,
            kept: stream.state.durable.frames,
            summary_version: stream.state.summary,
        })
    }
}

impl Append {
    fn check(&self, cx: &Context) -> Result<()> {
        let mut check = Check::default();
        check.batch("frames", self.frames.len());
        let bytes = self.frames.iter().map(|frame| frame.payload.bytes.len()).sum();
        check.bytes("frames", bytes, cx.limits().batch_bytes);
        for (index, frame) in self.frames.iter().enumerate().take(Limits::BATCH) {
            check.item("frames", index);
            frame.check(&mut check);
        }
        check.finish()
    }

    /// Changes the summary by each frame that does; answers with the versions.
    fn patch(&self, tx: &mut dyn Tx, cx: &Context, stream: &mut Stream) -> Result<Vec<u64>> {
        let patches: Vec<_> = self
            .frames
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.keep == FrameMode::Summary)
            .collect();
        if patches.is_empty() {
            return Ok(vec![]);
        }
        let before = match stream.state.summary {
            0 => None,
            _ => tx.summary(stream.execution)?,
        };
        let mut document = match &before {
            Some(before) => serde_json::from_slice(&before.document)
                .map_err(|error| Error::bug(format!("a stored summary is not JSON: {error}")))?,
            None => Value::Object(serde_json::Map::new()),
        };
        let mut versions = Vec::with_capacity(patches.len());
        for (index, frame) in patches {
            apply_patch(&mut document, frame, index)?;
            stream.state.summary += 1;
            versions.push(stream.state.summary);
        }
        let document = document.to_string().into_bytes();
        if document.len() > Limits::SUMMARY_BYTES {
            return Err(Error::new(
                Code::TooLarge,
                format!(
                    "the summary would have {} bytes, the limit is {}",
                    document.len(),
                    Limits::SUMMARY_BYTES
                ),
            )
            .with_field("frames"));
        }
        let first_at = before.map_or(cx.now, |before| before.first_at);
        let execution = stream.execution;
        tx.put_summary(&Summary { execution, first_at, updated_at: cx.now, document })?;
        Ok(versions)
    }

    /// Removes the oldest frames of each sort that are beyond what is kept.
    fn trim(
        &self,
        tx: &mut dyn Tx,
        cx: &Context,
        execution: &Execution,
        stream: &mut Stream,
    ) -> Result<()> {
        let retention = execution.policy.stream_retention();
        // Many at a time cost less than one by one.
        if stream.state.durable.frames > retention + retention / SPARE {
            drop_oldest(tx, stream.execution, false, &mut stream.state.durable, retention)?;
        }
        let newest = self.frames.iter().rev().find_map(|frame| match frame.keep {
            FrameMode::Live(live) => Some(live),
            FrameMode::Durable | FrameMode::Summary => None,
        });
        let Some(newest) = newest else { return Ok(()) };
        let frames = self.frames.iter().filter(|frame| frame.keep.is_live()).count() as u64;
        let rate = match &mut stream.state.rate {
            Some(rate) => {
                rate.note(cx.now, frames);
                rate
            }
            none => none.insert(Rate::first(cx.now, frames)),
        };
        let keeps = rate.keeps(&newest);
        drop_oldest(tx, stream.execution, true, &mut stream.state.live, keeps)
    }
}

/// Frames of one sort that follow each other.
fn runs(frames: &[NewFrame]) -> impl Iterator<Item = (bool, &[NewFrame])> {
    frames
        .chunk_by(|one, next| one.keep.is_live() == next.keep.is_live())
        .map(|run| (run[0].keep.is_live(), run))
}

fn chunk(
    cx: &Context,
    execution: &Execution,
    state: &StreamState,
    live: bool,
    frames: &[NewFrame],
    versions: &mut impl Iterator<Item = u64>,
) -> Chunk {
    let facts = |frame: &NewFrame| FrameFacts {
        size: u32::try_from(frame.payload.bytes.len()).unwrap_or(u32::MAX),
        kind: frame.kind,
        name: frame.name.clone(),
        content_type: Some(frame.payload.content_type.to_string())
            .filter(|content_type| content_type != Payload::JSON),
        correlation: frame.correlation.clone(),
        summary: match frame.keep {
            FrameMode::Summary => versions.next(),
            FrameMode::Durable | FrameMode::Live(_) => None,
        },
    };
    Chunk {
        execution: execution.row,
        first: state.last + 1,
        live,
        facts: ChunkFacts {
            at: cx.now,
            attempt: execution.attempt,
            frames: frames.iter().map(facts).collect(),
        },
        bytes: frames.iter().flat_map(|frame| &frame.payload.bytes).copied().collect(),
    }
}

/// One frame more than the policy says is kept for so many.
const SPARE: u64 = 100;

fn drop_oldest(
    tx: &mut dyn Tx,
    execution: RowId,
    live: bool,
    kept: &mut KeptFrames,
    keeps: u64,
) -> Result<()> {
    let spare = kept.frames.saturating_sub(keeps);
    if spare == 0 {
        return Ok(());
    }
    let mut through = None;
    for span in tx.oldest_chunks(execution, live, spare)? {
        // A chunk goes only as a whole.
        if kept.frames - span.frames() < keeps {
            break;
        }
        kept.frames -= span.frames();
        kept.gone = span.last;
        through = Some(span.last);
    }
    through.map_or(Ok(()), |through| tx.drop_chunks(execution, live, through))
}

fn apply_patch(document: &mut Value, frame: &NewFrame, index: usize) -> Result<()> {
    let field = |name: &str| format!("frames[{index}].{name}");
    let patch: Value = serde_json::from_slice(&frame.payload.bytes)
        .map_err(|error| Error::invalid(field("payload"), format!("is not JSON: {error}")))?;
    if !patch.is_object() {
        return Err(Error::invalid(field("payload"), "a patch of a summary is a JSON object"));
    }
    if depth(&patch) > Limits::SUMMARY_DEPTH {
        let message = format!("is nested deeper than {}", Limits::SUMMARY_DEPTH);
        return Err(Error::invalid(field("payload"), message));
    }
    merge(document, patch);
    for pointer in &frame.nulls {
        if !set_null(document, pointer) {
            return Err(Error::invalid(
                field("nulls"),
                format!("`{}` names no place in the summary", pointer.escape_debug()),
            ));
        }
    }
    Ok(())
}

/// The stream of an execution, new if it has none.
fn open_stream(tx: &mut dyn Tx, execution: &Execution) -> Result<Stream> {
    let known = match execution.beside.stream {
        true => tx.stream(execution.row)?,
        false => None,
    };
    let new = || Stream { execution: execution.row, state: StreamState::default() };
    Ok(known.unwrap_or_else(new))
}

fn closed_error(execution: &Execution, closed: StreamClosed) -> Error {
    Error::new(
        Code::StreamClosed,
        format!(
            "the stream of {} was closed at {}; it takes no more frames",
            execution.id, closed.at
        ),
    )
    .with_details(json!({ "why": closed.why }))
}

/// Says that there will be no more frames, before the execution ends: those who watch need not
/// wait for that.
///
/// It holds for the attempt, also while that sleeps or is suspended. An attempt that comes after it
/// does the work anew: its first append opens the stream again, and numbers go on. Without one, the
/// stream stays closed when the execution ends, whatever its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloseStream {
    /// Where the execution belongs.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// The lease.
    pub lease: LeaseToken,
}

impl Command for CloseStream {
    const NAME: &'static str = "close_stream";
    type Output = StreamClosed;

    fn apply(&self, tx: &mut dyn Tx, cx: &Context) -> Result<StreamClosed> {
        let mut execution = fence(tx, cx, &self.namespace, &self.lease)?.live(&self.lease)?;
        let mut stream = open_stream(tx, &execution)?;
        if let Some(closed) = stream.state.closed
            && closed.binds(execution.attempt)
        {
            return Ok(closed);
        }
        let attempt = Some(execution.attempt);
        let closed = StreamClosed { at: cx.now, why: StreamEnd::Finished, attempt };
        close(tx, cx, &execution, &mut stream, closed)?;
        if !execution.beside.stream {
            execution.beside.stream = true;
            tx.save(&execution)?;
        }
        Ok(closed)
    }
}

fn close(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    stream: &mut Stream,
    closed: StreamClosed,
) -> Result<()> {
    stream.state.closed = Some(closed);
    tx.put_stream(execution, stream)?;
    let data = json!({ "why": closed.why, "frames": stream.state.last });
    log(tx, cx, execution, EventKind::StreamClosed, None, Some(data))
}

/// Closes the stream of an execution that ends.
pub(crate) fn ended(
    tx: &mut dyn Tx,
    cx: &Context,
    execution: &Execution,
    why: StreamEnd,
) -> Result<()> {
    if execution.beside.stream
        && let Some(mut stream) = tx.stream(execution.row)?
        && stream.state.closed.is_none()
    {
        let closed = StreamClosed { at: cx.now, why, attempt: None };
        close(tx, cx, execution, &mut stream, closed)?;
    }
    Ok(())
}

/// Lets the stream of an execution that begins anew take frames again.
pub(crate) fn reopened(tx: &mut dyn Tx, execution: &Execution) -> Result<()> {
    if execution.beside.stream
        && let Some(mut stream) = tx.stream(execution.row)?
        && stream.state.closed.take().is_some()
    {
        tx.put_stream(execution, &stream)?;
    }
    Ok(())
}
