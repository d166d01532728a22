//! What executions have put out, in a memory store that serves as the database.

use everloom_core::{Result, Transaction, Tx};

use crate::exchange::{Changes, Loaded, Wants};

pub(super) fn load(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    let mut streaming = wants.streams.streams.clone();
    for (namespace, id) in wants.executions.iter().filter(|_| wants.streams.along) {
        let found = tx.find(*namespace, &[*id])?.into_iter().flatten();
        streaming.extend(found.filter(|one| one.beside.stream).map(|one| one.row));
    }
    let wants = &wants.streams;
    let (mut oldest, mut summaries) = (wants.oldest.clone(), wants.summaries.clone());
    let loaded = &mut loaded.streams;
    for row in streaming {
        loaded.streams.extend(tx.stream(row)?);
        oldest.extend(wants.oldest_along.iter().map(|(live, frames)| ((row, *live), *frames)));
        summaries.extend(Some(row).filter(|_| wants.summaries_along));
    }
    for ((row, live), frames) in oldest {
        loaded.oldest.insert((row, live), tx.oldest_chunks(row, live, frames)?);
    }
    for row in summaries {
        loaded.summaries.extend(tx.summary(row)?);
    }
    Ok(())
}

pub(super) fn write(tx: &mut dyn Tx, changes: &Changes) -> Result<()> {
    let changes = &changes.streams;
    for ((row, live), through) in &changes.dropped_chunks {
        tx.drop_chunks(*row, *live, *through)?;
    }
    for chunk in &changes.new_chunks {
        tx.add_chunk(chunk)?;
    }
    for stream in &changes.streams {
        let execution = tx.execution(stream.execution)?.expect("it has a stream");
        tx.put_stream(&execution, stream)?;
    }
    for summary in &changes.summaries {
        tx.put_summary(summary)?;
    }
    Ok(())
}
