//! Streams in the lab: short ways to append and to read.

use everloom_core::*;

use crate::Lab;
use crate::fixtures::*;

/// Appends frames.
pub fn append(leased: &Leased, frames: impl IntoIterator<Item = NewFrame>) -> Append {
    Append::new(leased.lease.clone(), frames.into_iter().collect())
}

/// Says that there will be no more frames.
pub fn close_stream(leased: &Leased) -> CloseStream {
    CloseStream { namespace: ns(), lease: leased.lease.clone() }
}

/// A durable frame of text.
pub fn frame(text: &str) -> NewFrame {
    NewFrame::new(Payload::bytes(text.to_owned()))
}

/// A live frame of text.
pub fn live(text: &str) -> NewFrame {
    NewFrame::live(Payload::bytes(text.to_owned()))
}

/// Live frames kept as that says.
pub fn live_frames(count: usize, keep: Liveness) -> impl Iterator<Item = NewFrame> {
    std::iter::repeat_n(NewFrame { keep: FrameMode::Live(keep), ..frame("l") }, count)
}

/// Some durable frames.
pub fn frames(count: usize) -> impl Iterator<Item = NewFrame> {
    std::iter::repeat_n(frame("d"), count)
}

/// Reads a stream from its oldest frame on.
pub fn read(execution: ExecutionId) -> ReadStream {
    ReadStream { limit: Limits::PAGE, ..ReadStream::new(execution) }
}

/// Reads a stream after a frame.
pub fn read_after(execution: ExecutionId, after: u64) -> ReadStream {
    ReadStream { from: StreamFrom::After(after), ..read(execution) }
}

/// The numbers of frames.
pub fn seqs(frames: &[FrameView]) -> Vec<u64> {
    frames.iter().map(|frame| frame.seq).collect()
}

/// The texts of frames: `once upon a time`.
pub fn texts(frames: &[FrameView]) -> String {
    let text = |frame: &FrameView| String::from_utf8_lossy(&frame.payload.bytes).into_owned();
    frames.iter().map(text).collect::<Vec<_>>().join(" ")
}

impl Lab {
    /// Everything a read comes to, page by page, as it is read on.
    #[track_caller]
    pub fn frames(&mut self, mut read: ReadStream) -> Vec<FrameView> {
        let mut all = Vec::new();
        loop {
            let page = self.see(read.clone());
            assert!(page.frames.len() <= read.limit);
            all.extend(page.frames);
            if page.at_end {
                return all;
            }
            let place = if read.backward { read.to } else { None };
            assert_ne!(place, Some(page.next), "it goes on");
            match read.backward {
                true => read.to = Some(page.next),
                false => {
                    assert_ne!(read.from, StreamFrom::After(page.next), "it goes on");
                    read.from = StreamFrom::After(page.next);
                }
            }
        }
    }

    /// The numbers of all frames that are kept.
    #[track_caller]
    pub fn kept(&mut self, id: ExecutionId) -> Vec<u64> {
        let frames = self.frames(read(id));
        seqs(&frames)
    }

    /// How many live frames are kept.
    #[track_caller]
    pub fn kept_live(&mut self, id: ExecutionId) -> usize {
        self.frames(read(id)).iter().filter(|frame| frame.live).count()
    }

    /// Why a stream takes no more frames.
    #[track_caller]
    pub fn closed(&mut self, id: ExecutionId) -> Option<StreamEnd> {
        self.see(read(id)).closed.map(|closed| closed.why)
    }

    /// What a stream comes to.
    #[track_caller]
    pub fn summary(&mut self, execution: ExecutionId) -> Option<SummaryView> {
        self.see(ReadSummary { namespace: ns(), execution })
    }
}
