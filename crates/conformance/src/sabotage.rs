//! Commands that fail after their work is done.

use everloom_core::{Code, Command, Context, Error, Job, Result, Seed, Tx};

/// A command that does all its work and then fails: none of it may stay.
pub struct Sabotage<C: Command> {
    command: C,
    seed: Seed,
    how: How,
    refusal: Option<Error>,
}

/// In which way a sabotaged command fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It returns an error.
    Error,
    /// It panics.
    Panic,
}

impl<C: Command> Sabotage<C> {
    /// A command that will fail after its work is done.
    pub fn new(command: C, seed: Seed, how: How) -> Self {
        Self { command, seed, how, refusal: None }
    }

    /// What its caller is told.
    #[track_caller]
    pub fn refusal(self) -> Error {
        self.refusal.expect("a command that fails is refused")
    }
}

impl<C: Command> Job for Sabotage<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn seed(&self) -> Seed {
        self.seed
    }

    fn apply(&mut self, tx: &mut dyn Tx, cx: &Context) -> Result<()> {
        self.command.apply(tx, cx)?;
        match self.how {
            How::Error => Err(Error::new(Code::WrongState, "sabotaged")),
            // Unwinds without the message a panic would print.
            How::Panic => std::panic::resume_unwind(Box::new("sabotaged")),
        }
    }

    fn refuse(&mut self, error: Error) {
        self.refusal = Some(error);
    }
}
