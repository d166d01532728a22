//! Going on with the next item when a store left a question about this one unanswered.

use crate::model::{Again, Error, Result};

/// Lets a rule look at many things in one round, so that what all of them miss is loaded together.
#[derive(Default)]
pub(crate) struct Misses(Option<Error>);

impl Misses {
    /// The answer; nothing if it is to be loaded yet. Any other error ends the rule.
    pub(crate) fn pass<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.again() == Some(Again::Miss) => {
                self.0 = Some(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends the round if anything was missed.
    pub(crate) fn finish(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
