//! Putting out frames, at random, and what must always be so about them.

use everloom_core::*;
use serde_json::json;

use super::Walk;
use crate::stream_lab::*;

/// What an execution has put out, as its workers were told.
#[derive(Default)]
pub(super) struct Told {
    /// All frames, those too that retention may have removed since.
    frames: Vec<Frame>,
    /// The attempt in which its worker said that there will be no more.
    closed_in: Option<u32>,
    patches: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Frame {
    seq: u64,
    attempt: u32,
    live: bool,
    payload: Payload,
    version: Option<u64>,
}

impl Frame {
    fn seen(view: FrameView) -> Self {
        let FrameView { seq, attempt, live, payload, summary_version: version, .. } = view;
        Self { seq, attempt, live, payload, version }
    }
}

impl Walk<'_> {
    /// Frames of all sorts, of which no two say the same.
    fn new_frames(&mut self) -> Vec<NewFrame> {
        let keep = Liveness { floor: 3, ceiling: 8, ..Liveness::default() };
        (0..1 + self.random.index(5))
            .map(|place| {
                let said = json!({ "step": self.steps, "place": place });
                match self.random.below(4) {
                    0 => NewFrame::patch(&said),
                    1 => NewFrame {
                        keep: FrameMode::Live(keep),
                        ..NewFrame::new(Payload::bytes(said.to_string()))
                    },
                    _ => NewFrame::new(Payload::bytes(said.to_string())),
                }
            })
            .collect()
    }

    pub(super) fn append(&mut self, lease: &Leased) {
        self.put_out = Some(lease.id());
        let frames = self.new_frames();
        let answer = self.try_to(append(lease, frames.clone()));
        let told = self.streams.entry(lease.id()).or_default();
        match answer {
            Ok(appended) => {
                assert!(self.stale.is_none(), "a stale lease put something out");
                assert_ne!(told.closed_in, Some(lease.attempt), "it was closed");
                assert_eq!(appended.first, told.frames.len() as u64 + 1);
                told.add(lease.attempt, frames);
                assert_eq!(appended.last, told.frames.len() as u64);
                assert_eq!(appended.summary_version, told.patches);
            }
            Err(error) if error.code() == Code::StreamClosed => {
                assert_eq!(told.closed_in, Some(lease.attempt), "it was open");
            }
            Err(error) => assert!(matches!(error.code(), Code::LeaseLost | Code::NotFound)),
        }
    }

    pub(super) fn close_stream(&mut self, lease: &Leased) {
        self.put_out = Some(lease.id());
        if let Some(closed) = self.apply(close_stream(lease)) {
            assert!(self.stale.is_none(), "a stale lease closed a stream");
            assert_eq!((closed.why, closed.attempt), (StreamEnd::Finished, Some(lease.attempt)));
            self.streams.entry(lease.id()).or_default().closed_in = closed.attempt;
        }
    }

    /// Looks at the stream of an execution about which there is news, or which was to put something
    /// out: it has what was accepted and nothing else.
    pub(super) fn check_stream(&mut self, view: &ExecutionView, news: &[Event]) {
        let id = view.id;
        if news.iter().any(|event| event.kind == EventKind::Replayed)
            && let Some(told) = self.streams.get_mut(&id)
        {
            told.closed_in = None;
        }
        let none = Told::default();
        let told = self.streams.get(&id).unwrap_or(&none);
        let page = self.lab.see(read(id));
        assert_eq!(page.last, told.frames.len() as u64);
        let why = page.closed.map(|closed| closed.why);
        let ended = view.end.as_ref().map(|end| StreamEnd::from(end.outcome));
        match told.closed_in {
            Some(_) => assert_eq!(why, Some(StreamEnd::Finished)),
            None => assert_eq!(why, ended),
        }
        if told.frames.is_empty() {
            return;
        }
        told.compare(self.lab.frames(read(id)), 0);
        // Frames are only ever touched by who puts some out.
        if self.put_out != Some(id) {
            return;
        }
        let after = self.random.below(page.last + 1);
        let limit = 1 + self.random.index(7);
        told.compare(self.lab.frames(ReadStream { limit, ..read_after(id, after) }), after);
        let backward = ReadStream { limit, backward: true, ..read_after(id, after) };
        let mut frames = self.lab.frames(backward);
        frames.reverse();
        told.compare(frames, after);
        let summary = self.lab.summary(id);
        assert_eq!(summary.as_ref().map_or(0, |summary| summary.version), told.patches);
        let last = told.frames.iter().rfind(|frame| frame.version.is_some());
        let document = |frame: &Frame| serde_json::from_slice(&frame.payload.bytes).ok();
        assert_eq!(summary.map(|summary| summary.document), last.and_then(document));
    }
}

impl Told {
    fn add(&mut self, attempt: u32, frames: Vec<NewFrame>) {
        self.closed_in = None;
        for frame in frames {
            let patches = frame.keep == FrameMode::Summary;
            self.patches += u64::from(patches);
            self.frames.push(Frame {
                seq: self.frames.len() as u64 + 1,
                attempt,
                live: frame.keep.is_live(),
                payload: frame.payload,
                version: patches.then_some(self.patches),
            });
        }
    }

    /// What is read after a frame is what was put out, in its order and once; only live frames may
    /// be missing.
    fn compare(&self, seen: Vec<FrameView>, after: u64) {
        let mut seen = seen.into_iter().map(Frame::seen).peekable();
        for frame in self.frames.iter().filter(|frame| frame.seq > after) {
            match seen.next_if(|one| one.seq == frame.seq) {
                Some(one) => assert_eq!(one, *frame),
                None => assert!(frame.live, "{frame:?} is missing"),
            }
        }
        assert_eq!(seen.next(), None, "nobody put this out");
    }
}
