//! Questions that travel together, with what becomes of their answers.

use tokio_postgres::Row;

use crate::error::Result;
use crate::link::{Link, Param, Step};

type Reader<'a, T> = Box<dyn FnOnce(&[Row], &mut T) -> Result<()> + Send + 'a>;

/// Statements for one round trip, each with what reads its rows into a `T`.
pub(crate) struct Round<'a, T> {
    steps: Vec<Step>,
    readers: Vec<Reader<'a, T>>,
}

impl<'a, T> Round<'a, T> {
    pub(crate) fn new() -> Self {
        Self { steps: Vec::new(), readers: Vec::new() }
    }

    /// Adds a statement whose answer does not matter.
    pub(crate) fn tell(&mut self, step: Step) {
        self.steps.push(step);
        self.readers.push(Box::new(|_, _| Ok(())));
    }

    /// Adds a question.
    pub(crate) fn ask(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
        read: impl FnOnce(&[Row], &mut T) -> Result<()> + Send + 'a,
    ) {
        self.steps.push(Step::Prepared(sql, params));
        self.readers.push(Box::new(read));
    }

    /// Sends everything and reads all answers.
    pub(crate) fn run(self, link: &mut Link, into: &mut T) -> Result<()> {
        let answers = link.run(&self.steps)?;
        self.read(&answers, into)
    }

    /// What is to be sent.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Reads all answers.
    pub(crate) fn read(self, answers: &[Vec<Row>], into: &mut T) -> Result<()> {
        for (read, rows) in self.readers.into_iter().zip(answers) {
            read(rows, into)?;
        }
        Ok(())
    }
}
