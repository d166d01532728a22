//! What lies beside executions that wait, in a memory store that serves as the database.

use everloom_core::{Result, RowId, Transaction, Tx};

use crate::exchange::{HANDED_OVER, Lasts, Loaded, MailChanges, MailWants, Wants};

pub(super) fn load(tx: &mut dyn Transaction, wants: &Wants, loaded: &mut Loaded) -> Result<()> {
    let mut boxes = wants.mail.boxes.clone();
    for (namespace, id) in wants.executions.iter().filter(|_| wants.mail.along) {
        let found = tx.find(*namespace, &[*id])?.into_iter().flatten();
        boxes.extend(found.filter(|one| one.beside.mail).map(|one| one.row));
    }
    for row in boxes {
        load_box(tx, row, loaded)?;
    }
    load_points(tx, &wants.mail, loaded)?;
    load_pages(tx, &wants.mail, loaded)?;
    load_steps(tx, &wants.mail, loaded)?;
    for namespace in wants.mail.signing_keys.union(&wants.mail.own_signing_keys) {
        loaded.mail.signing_keys.extend(tx.signing_keys(*namespace)?);
    }
    for name in &wants.mail.signed {
        loaded.mail.signed.insert(name.clone(), tx.count_signed(name.0, &name.1)?);
    }
    Ok(())
}

fn load_box(tx: &mut dyn Transaction, row: RowId, loaded: &mut Loaded) -> Result<()> {
    let Some(execution) = tx.execution(row)? else { return Ok(()) };
    let suspension = tx.suspension(row, None)?;
    let lasts = Lasts {
        suspension: suspension.as_ref().map_or(0, |suspension| suspension.number),
        waitpoint: tx.last_waitpoint(row)?,
        signal: tx.last_signal(row)?,
    };
    let mail = &mut loaded.mail;
    mail.boxes.insert(row, lasts);
    mail.suspensions.extend(suspension);
    mail.waitpoints.extend(tx.open_waitpoints(row)?);
    mail.signals.extend(tx.kept_signals(row, execution.run)?);
    Ok(())
}

fn load_points(tx: &mut dyn Transaction, wants: &MailWants, loaded: &mut Loaded) -> Result<()> {
    let mail = &mut loaded.mail;
    for (row, number) in &wants.suspensions {
        mail.suspensions.extend(tx.suspension(*row, Some(*number))?);
    }
    for (row, run, key) in &wants.suspension_names {
        mail.suspensions.extend(tx.suspension_by_key(*row, *run, key)?);
    }
    for (row, id) in &wants.waitpoints {
        mail.waitpoints.extend(tx.waitpoint(*row, *id)?);
    }
    for (row, key) in &wants.signal_names {
        mail.signals.extend(tx.signal_by_key(*row, key)?);
    }
    for (row, run) in &wants.kept_signals {
        mail.signals.extend(tx.kept_signals(*row, *run)?);
    }
    for (row, seq) in &wants.signal_payloads {
        let payload = tx.signal_payloads(*row, &[*seq])?.remove(0);
        mail.signal_payloads.insert((*row, *seq), payload);
    }
    Ok(())
}

fn load_pages(tx: &mut dyn Transaction, wants: &MailWants, loaded: &mut Loaded) -> Result<()> {
    let mail = &mut loaded.mail;
    for ((row, after), limit) in &wants.suspension_pages {
        mail.suspensions.extend(tx.suspensions(*row, *after, *limit)?);
    }
    for ((row, after), limit) in &wants.waitpoint_pages {
        mail.waitpoints.extend(tx.waitpoints(*row, *after, *limit)?);
    }
    for ((row, after), limit) in &wants.signal_pages {
        mail.signals.extend(tx.signals(*row, *after, *limit)?);
    }
    let mut taken_pages = wants.taken_pages.clone();
    for row in &wants.resumptions {
        let last = tx.suspension(*row, None)?.map(|last| (*row, last.number));
        taken_pages.extend(last.map(|last| ((last, 0), HANDED_OVER)));
    }
    for (((row, suspension), after), limit) in taken_pages {
        let taken = tx.taken_signals(row, suspension, after, limit)?;
        for signal in &taken {
            let payload = tx.signal_payloads(row, &[signal.seq])?.remove(0);
            mail.signal_payloads.insert((row, signal.seq), payload);
        }
        mail.signals.extend(taken);
    }
    Ok(())
}

fn load_steps(tx: &mut dyn Transaction, wants: &MailWants, loaded: &mut Loaded) -> Result<()> {
    let mail = &mut loaded.mail;
    for (row, name, occurrence) in &wants.step_names {
        mail.steps.extend(tx.step(*row, name, *occurrence)?);
    }
    for ((row, after), limit) in &wants.step_pages {
        let steps = tx.steps(*row, *after, *limit)?;
        for step in &steps {
            let result = tx.step_results(*row, &[step.seq])?.remove(0);
            mail.step_results.insert((*row, step.seq), result);
        }
        mail.steps.extend(steps);
    }
    for row in &wants.last_steps {
        mail.last_steps.insert(*row, tx.last_step(*row)?);
    }
    for (row, seq) in &wants.step_results {
        let result = tx.step_results(*row, &[*seq])?.remove(0);
        mail.step_results.insert((*row, *seq), result);
    }
    Ok(())
}

pub(super) fn write(tx: &mut dyn Tx, changes: &MailChanges) -> Result<()> {
    for suspension in &changes.suspensions {
        tx.save_suspension(suspension)?;
    }
    for suspension in &changes.new_suspensions {
        tx.add_suspension(suspension)?;
    }
    for waitpoint in &changes.waitpoints {
        tx.save_waitpoint(waitpoint)?;
    }
    for waitpoint in &changes.new_waitpoints {
        tx.add_waitpoint(waitpoint)?;
    }
    for signal in &changes.signals {
        tx.save_signal(signal)?;
    }
    for (signal, payload) in &changes.new_signals {
        tx.add_signal(signal, payload)?;
    }
    for (row, from) in &changes.dropped_steps {
        tx.drop_steps(*row, *from)?;
    }
    for (step, result) in &changes.new_steps {
        tx.add_step(step, result)?;
    }
    for key in &changes.signing_keys {
        tx.put_signing_key(key)?;
    }
    Ok(())
}
