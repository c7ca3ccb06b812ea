//! What a person sees: steps, lines and, on a terminal, a progress bar.

use super::summary::Summary;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};

/// How many steps there are.
const STEPS: usize = 6;

/// Where the demo writes to.
pub struct Screen {
    out: Box<dyn Write + Send>,
    /// Where the figures go as one JSON document, instead of a table among the rest.
    figures: Option<Box<dyn Write + Send>>,
    step: usize,
}

impl Screen {
    /// Writes to `out`; progress goes to stderr, when that is a terminal.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, figures: None, step: 0 }
    }

    /// Writes the figures as a JSON document to `figures`, and all else to `out`.
    pub fn with_document(out: Box<dyn Write + Send>, figures: Box<dyn Write + Send>) -> Self {
        Self { figures: Some(figures), ..Self::new(out) }
    }

    /// The figures at the end.
    pub fn figures(&mut self, summary: &Summary) -> io::Result<()> {
        match &mut self.figures {
            Some(figures) => {
                writeln!(figures, "{}", summary.document())?;
                figures.flush()
            }
            None => self.text(&format!("\n{summary}")),
        }
    }

    /// Begins the next step, and says what it is for.
    pub fn step(&mut self, title: &str, explained: &str) -> io::Result<()> {
        self.step += 1;
        writeln!(self.out, "\n[{}/{STEPS}] {title}", self.step)?;
        self.line(explained)
    }

    /// A line that belongs to the step.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "      {text}")
    }

    /// Text as it is.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")
    }

    /// A bar that vanishes when it is dropped. Where there is no terminal nothing is drawn.
    pub fn bar(&self, total: usize, what: &str) -> anyhow::Result<ProgressBar> {
        let style = ProgressStyle::with_template("      {msg:<22} [{bar:32}] {pos}/{len}")?.progress_chars("=> ");
        let bar = ProgressBar::new(total as u64).with_style(style).with_message(what.to_owned());
        Ok(bar.with_finish(indicatif::ProgressFinish::AndClear))
    }
}
