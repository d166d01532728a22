//! What a running execution has put out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Outcome, RowId, Timestamp, duration_ms};

/// The stream of an execution, from its first frame on: one across all attempts and runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// The execution.
    pub execution: RowId,
    /// How far it has come.
    pub state: StreamState,
}

/// How far a stream has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamState {
    /// The number of its last frame.
    pub last: u64,
    /// What is kept of the frames that stay.
    pub durable: KeptFrames,
    /// What is kept of the frames that only those who watch need.
    #[serde(default, skip_serializing_if = "KeptFrames::is_none")]
    pub live: KeptFrames,
    /// How fast live frames come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How often the summary was changed; 0 when there is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub summary: u64,
    /// Since when it takes no more frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<StreamClosed>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How many frames of a sort are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptFrames {
    /// How many.
    pub frames: u64,
    /// All of them up to this number have been removed.
    pub gone: u64,
}

impl KeptFrames {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// That a stream takes no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamClosed {
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub why: StreamEnd,
    /// The attempt whose worker has closed it. A later one may append again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

impl StreamClosed {
    /// Whether a worker in that attempt may append no more.
    pub(crate) fn binds(&self, attempt: u32) -> bool {
        self.attempt.is_none_or(|closed| closed == attempt)
    }
}

/// Why a stream takes no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEnd {
    /// Its worker said that there will be no more.
    Finished,
    /// The execution is completed.
    Completed,
    /// The execution has failed.
    Failed,
    /// The execution was cancelled.
    Cancelled,
    /// The execution has expired.
    Expired,
    /// The execution was skipped.
    Skipped,
}

impl From<Outcome> for StreamEnd {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Completed => Self::Completed,
            Outcome::Failed => Self::Failed,
            Outcome::Cancelled => Self::Cancelled,
            Outcome::Expired => Self::Expired,
            Outcome::Skipped => Self::Skipped,
        }
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameKind {
    /// What a program wrote to its standard output.
    Stdout,
    /// What a program wrote to its standard error.
    Stderr,
    /// Something that happened.
    #[default]
    Event,
    /// Bytes.
    Blob,
}

/// How a frame is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum FrameMode {
    /// As long as the stream's retention allows.
    #[default]
    Durable,
    /// So too, and it changes the summary.
    Summary,
    /// Only for those who watch: about as long as they need to catch up.
    Live(Liveness),
}

impl FrameMode {
    /// Whether it is only for those who watch.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }
}

/// How long live frames are kept: about twice as many as come in `ttl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Liveness {
    /// How far behind a watcher may be.
    #[serde(rename = "ttl_ms", with = "duration_ms")]
    pub ttl: Duration,
    /// Never fewer than these.
    pub floor: u32,
    /// Never more than these, but for the rest of those that were appended together.
    pub ceiling: u32,
}

impl Default for Liveness {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(10), floor: 64, ceiling: 16_384 }
    }
}

/// How fast frames come: an exponential average over the times between the milliseconds in which
/// some came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Frames per second, up to the present millisecond.
    pub average: f64,
    /// The present millisecond.
    pub at: Timestamp,
    /// How many came in it.
    pub frames: u64,
    /// The time in which these came: since those before them, or a millisecond when they came by
    /// more than one append.
    #[serde(rename = "within_ms", with = "duration_ms")]
    pub within: Duration,
}

impl Rate {
    /// How much a new observation counts.
    const ALPHA: f64 = 0.2;

    const SHORTEST: Duration = Duration::from_millis(1);

    /// The rate after some frames have come, and nothing before.
    pub(crate) fn first(at: Timestamp, frames: u64) -> Self {
        Self { average: 0.0, at, frames, within: Self::SHORTEST }
    }

    /// Takes note of frames.
    pub(crate) fn note(&mut self, now: Timestamp, frames: u64) {
        if now > self.at {
            let passed = now.since(self.at);
            *self = Self { average: self.over(passed), at: now, frames, within: passed };
        } else {
            self.frames += frames;
            self.within = Self::SHORTEST;
        }
    }

    /// The average if the present frames are all that came in that time.
    fn over(&self, time: Duration) -> f64 {
        let present = self.frames as f64 / time.max(Self::SHORTEST).as_secs_f64();
        Self::ALPHA * present + (1.0 - Self::ALPHA) * self.average
    }

    /// How many frames to keep.
    pub(crate) fn keeps(&self, live: &Liveness) -> u64 {
        let enough = (2.0 * self.over(self.within) * live.ttl.as_secs_f64()).ceil() as u64;
        enough.clamp(live.floor.into(), live.ceiling.max(live.floor).into())
    }
}

/// Frames that were appended together, as a store keeps them.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The execution.
    pub execution: RowId,
    /// The number of its first frame.
    pub first: u64,
    /// Whether these are live frames.
    pub live: bool,
    /// What is known of each frame.
    pub facts: ChunkFacts,
    /// The bytes of all frames, one after the other.
    pub bytes: Vec<u8>,
}

impl Chunk {
    /// The number of its last frame.
    pub fn last(&self) -> u64 {
        self.first + self.facts.frames.len() as u64 - 1
    }
}

/// What is known of frames that were appended together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkFacts {
    /// When they were appended.
    pub at: Timestamp,
    /// The attempt they belong to.
    pub attempt: u32,
    /// Each frame.
    pub frames: Vec<FrameFacts>,
}

/// What is known of a frame, except for its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameFacts {
    /// How many bytes it has.
    pub size: u32,
    /// What it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: FrameKind,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the bytes are; JSON when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// What connects it with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// The version of the summary after it, if it changed that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<u64>,
}

fn is_default(kind: &FrameKind) -> bool {
    *kind == FrameKind::default()
}

/// Where a chunk stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSpan {
    /// The number of its first frame.
    pub first: u64,
    /// The number of its last frame.
    pub last: u64,
}

impl ChunkSpan {
    /// How many frames it has.
    pub fn frames(self) -> u64 {
        self.last - self.first + 1
    }
}

/// What a stream comes to, as a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The execution.
    pub execution: RowId,
    /// When it was begun.
    pub first_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// JSON text.
    pub document: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn keeps(rate: &Rate) -> u64 {
        rate.keeps(&Liveness { ttl: Duration::from_secs(1), ..Liveness::default() })
    }

    #[test]
    fn a_steady_rate_keeps_twice_what_comes_in_the_ttl() {
        for batch in [1, 5] {
            let mut rate = Rate::first(at(0), batch);
            for ms in (10..2_000).step_by(10) {
                rate.note(at(ms), batch);
            }
            let expected = 200 * batch;
            let kept = keeps(&rate);
            assert!((expected * 95 / 100..=expected * 105 / 100).contains(&kept), "{kept}");
        }
    }

    #[test]
    fn many_frames_in_one_millisecond_are_many() {
        let mut rate = Rate::first(at(0), 1);
        rate.note(at(1_000), 500);
        rate.note(at(1_000), 500);
        assert_eq!(keeps(&rate), 16_384);
        assert_eq!(rate.frames, 1_000);
    }

    #[test]
    fn a_rate_that_is_stored_and_read_is_the_same_to_the_last_bit() {
        let mut rate = Rate::first(at(0), 1);
        let (mut now, mut step) = (0, 1_u64);
        for _ in 0..20_000 {
            step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            now += (step >> 33) as i64 % 1_000;
            rate.note(at(now), 1 + (step >> 43) % 50);
            let text = serde_json::to_string(&rate).unwrap();
            let read: Rate = serde_json::from_str(&text).unwrap();
            assert_eq!(read.average.to_bits(), rate.average.to_bits(), "{text}");
        }
    }

    #[test]
    fn a_stream_that_idles_goes_down_to_the_floor() {
        let mut rate = Rate::first(at(0), 1_000);
        for second in 1..60 {
            rate.note(at(second * 1_000), 1);
        }
        assert_eq!(keeps(&rate), 64);
    }
}
