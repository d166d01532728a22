//! What a running execution puts out, frame by frame, for those who watch and those who come later.
//!
//! Frames that are appended together are kept together, so that an append costs the same at any
//! length of the stream, and little more for fifty frames than for one.

mod append;
mod merge;
mod read;
mod remove;

pub use append::{Append, Appended, CloseStream, NewFrame};
pub(crate) use append::{ended, reopened};
pub use read::{FrameView, ReadStream, ReadSummary, StreamFrom, StreamPage, SummaryView};
pub(crate) use remove::{remove_frames, removed};
