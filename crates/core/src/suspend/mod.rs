//! Waiting for a signal, a callback or a person, and holding nothing meanwhile.
use crate::command::Context;
use crate::model::{Execution, Result, Suspended};
use crate::store::{Read, Tx};
pub(crate) fn time_out(_: &mut dyn Tx, _: &Context, _: &mut Execution) -> Result<()> {
    Ok(())
}
pub(crate) fn what_for(_: &mut dyn Read, _: &Execution, _: &Suspended) -> Result<Vec<String>> {
    Ok(vec![])
}
