//! What executions have put out.

use everloom_core::{
    Chunk, ChunkFacts, Execution, FrameFacts, FrameKind, KeptFrames, Payload, RowId, Stream,
    StreamState, Summary, Transaction,
};

use super::{Queue, at};

/// A chunk of so many frames.
pub(crate) fn chunk(execution: RowId, first: u64, live: bool, frames: u64) -> Chunk {
    let mut bytes = Vec::new();
    let mut facts = ChunkFacts { at: at(5), attempt: 2, frames: vec![] };
    for seq in first..first + frames {
        let (frame, content) = frame(seq);
        facts.frames.push(frame);
        bytes.extend(content);
    }
    Chunk { execution, first, live, facts, bytes }
}

/// Frames of every sort: with nothing, with JSON, with bytes that are no text, with names.
fn frame(seq: u64) -> (FrameFacts, Vec<u8>) {
    let content = match seq % 4 {
        0 => vec![],
        1 => seq.to_string().into_bytes(),
        2 => b"\0\xff\x80'\"\0".to_vec(),
        _ => vec![seq.to_le_bytes()[0]; 30],
    };
    let facts = FrameFacts {
        size: content.len() as u32,
        kind: [FrameKind::Event, FrameKind::Stdout, FrameKind::Stderr, FrameKind::Blob]
            [(seq % 4) as usize],
        name: seq.is_multiple_of(3).then(|| format!("n{seq}")),
        content_type: (seq % 4 == 2).then(|| "text/x; q=\"ä\"".into()),
        correlation: seq.is_multiple_of(5).then(|| "\u{1F980}\n".into()),
        summary: seq.is_multiple_of(6).then_some(seq),
    };
    (facts, content)
}

pub(crate) fn stream(execution: RowId, last: u64) -> Stream {
    let durable = KeptFrames { frames: last / 2, gone: last / 4 };
    Stream { execution, state: StreamState { last, durable, ..Default::default() } }
}

pub(crate) fn summary(execution: RowId, document: &[u8]) -> Summary {
    let document = document.to_vec();
    Summary { execution, first_at: at(3), updated_at: at(8), document }
}

/// Inserts an execution that has a stream, without any of it.
pub(crate) fn add_streaming(tx: &mut dyn Transaction, queue: Queue) -> Execution {
    let mut execution = queue.waiting(tx.new_row().unwrap());
    execution.beside.stream = true;
    tx.insert(&execution, &Payload::default(), None).unwrap();
    execution
}
