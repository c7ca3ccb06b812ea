//! What is printed, and how: documents and lines for scripts, aligned columns for people.

use super::Global;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The widest cell of a table, in characters; longer ones are cut.
const CELL_LEN_MAX: usize = 80;

/// What stands where there is no value.
const NOTHING: &str = "-";

/// Where results and remarks go.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Results are JSON.
    pub json: bool,
    /// Results are ids, and there are no remarks.
    pub quiet: bool,
}

impl Output {
    /// By the flags.
    pub fn new(global: &Global) -> Self {
        Self { json: global.json, quiet: global.quiet }
    }

    /// A line of the result.
    pub fn line(&self, text: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.write_all(b"\n")?;
        Ok(())
    }

    /// A document of the result.
    pub fn document(&self, value: &Value) -> anyhow::Result<()> {
        self.line(&value.to_string())
    }

    /// A line for people only.
    pub fn say(&self, text: &str) -> anyhow::Result<()> {
        if self.json || self.quiet { Ok(()) } else { self.line(text) }
    }

    /// A remark on stderr.
    pub fn remark(&self, text: &str) {
        if !self.quiet {
            // A closed stderr takes nothing from the result.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// An error on stderr, beside the one that ends the command.
    pub fn complain(&self, text: &str) {
        let _ = writeln!(std::io::stderr(), "error: {text}");
    }

    /// One thing: its document, its id, or its fields.
    pub fn thing(&self, value: &Value, id: &str, fields: &[(&str, &str)]) -> anyhow::Result<()> {
        if self.json {
            return self.document(value);
        }
        if self.quiet {
            return self.line(&cell(value, id));
        }
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, pointer) in fields {
            self.line(&format!("{name:width$}  {}", cell(value, pointer)))?;
        }
        Ok(())
    }

    /// A progress bar on a terminal; elsewhere, and when nobody wants to see it, nothing.
    pub fn progress(&self, length: u64) -> ProgressBar {
        if self.json || self.quiet || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        bar
    }

    /// A sign of life on a terminal, for work whose length nobody knows.
    pub fn spinner(&self, text: &'static str) -> ProgressBar {
        if self.json || self.quiet || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner().with_message(text);
        bar.enable_steady_tick(Duration::from_millis(120));
        bar
    }
}

/// Rows under a head, aligned; printed when all are known.
pub struct Table {
    columns: &'static [(&'static str, &'static str)],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Columns: each a head and the pointer to its value.
    pub fn new(columns: &'static [(&'static str, &'static str)]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds the row of an item.
    pub fn push(&mut self, item: &Value) {
        self.rows.push(self.columns.iter().map(|(_, pointer)| cut(&cell(item, pointer))).collect());
    }

    /// The lines.
    pub fn lines(&self) -> Vec<String> {
        let heads: Vec<String> = self.columns.iter().map(|(head, _)| (*head).to_owned()).collect();
        let mut widths = vec![0; heads.len()];
        for row in std::iter::once(&heads).chain(&self.rows) {
            for (width, text) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(text, width)| format!("{text:width$}")).collect();
            cells.join("  ").trim_end().to_owned()
        };
        std::iter::once(&heads).chain(&self.rows).map(line).collect()
    }
}

/// How many items of a list are wanted: none would be no question.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| "give a whole number from 1 on".to_owned())
}

/// Prints a list as its items come: lines of JSON or ids at once, a table at the end.
pub struct Listing {
    out: Output,
    id: &'static str,
    table: Table,
    nothing: &'static str,
}

impl Listing {
    /// A list whose items have their id at a pointer; `nothing` is said when there are none.
    pub fn new(
        out: Output,
        id: &'static str,
        columns: &'static [(&'static str, &'static str)],
        nothing: &'static str,
    ) -> Self {
        Self { out, id, table: Table::new(columns), nothing }
    }

    /// Takes an item.
    pub fn push(&mut self, item: &Value) -> anyhow::Result<()> {
        if self.out.json {
            self.out.document(item)
        } else if self.out.quiet {
            self.out.line(&cell(item, self.id))
        } else {
            self.table.push(item);
            Ok(())
        }
    }

    /// Prints what is left.
    pub fn end(self) -> anyhow::Result<()> {
        if self.table.rows.is_empty() {
            // A script reads no such sentence on stdout.
            if !self.out.json {
                self.out.remark(self.nothing);
            }
            return Ok(());
        }
        self.table.lines().iter().try_for_each(|line| self.out.say(line))
    }
}

/// A value of a document in a few words; of several pointers, separated by blanks, those that have one.
pub fn cell(value: &Value, pointers: &str) -> String {
    let texts: Vec<String> =
        pointers.split(' ').map(|pointer| words(value.pointer(pointer))).filter(|text| text != NOTHING).collect();
    if texts.is_empty() { NOTHING.to_owned() } else { clean(&texts.join(" ")) }
}

fn words(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => NOTHING.to_owned(),
        Some(Value::String(text)) if text.is_empty() => NOTHING.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) if items.is_empty() => NOTHING.to_owned(),
        Some(Value::Array(items)) => items.iter().map(|item| words(Some(item))).collect::<Vec<_>>().join(","),
        Some(Value::Object(members)) if members.is_empty() => NOTHING.to_owned(),
        Some(Value::Object(members)) => {
            let told: Vec<String> = members
                .iter()
                .filter(|(_, value)| !is_blank(value))
                .map(|(name, value)| format!("{name}={}", words(Some(value))))
                .collect();
            if told.is_empty() { NOTHING.to_owned() } else { told.join(" ") }
        }
        Some(other @ (Value::Bool(_) | Value::Number(_))) => other.to_string(),
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(_) => false,
    }
}

/// A number of things; more than one have an `s`.
pub fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Text of others for a terminal: control characters, which could move its cursor or colour it, are replaced.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CELL_LEN_MAX {
        return text.to_owned();
    }
    text.chars().take(CELL_LEN_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_told_in_words() {
        let value = json!({
            "a": null, "b": "", "c": ["x", "y"], "d": {"n": 1, "off": false, "none": null, "list": [], "text": "t"},
            "e": true, "f": [], "g": {}, "h": "red\u{1b}[31m",
        });
        for (pointers, told) in [
            ("/a", "-"),
            ("/b", "-"),
            ("/c", "x,y"),
            ("/d", "n=1 text=t"),
            ("/e", "true"),
            ("/f", "-"),
            ("/g", "-"),
            ("/nothing", "-"),
            ("/a /c", "x,y"),
            ("/c /e", "x,y true"),
            ("/a /b", "-"),
            ("/h", "red\u{FFFD}[31m"),
        ] {
            assert_eq!(cell(&value, pointers), told, "{pointers}");
        }
    }

    #[test]
    fn columns_are_aligned_by_characters_and_long_cells_are_cut() {
        let mut table = Table::new(&[("NAME", "/name"), ("N", "/n")]);
        table.push(&json!({ "name": "каталог", "n": 1 }));
        table.push(&json!({ "name": "a", "n": 22 }));
        assert_eq!(table.lines(), ["NAME     N", "каталог  1", "a        22"]);
        table.push(&json!({ "name": "x".repeat(200) }));
        assert!(table.lines().iter().all(|line| line.chars().count() <= CELL_LEN_MAX + 4));
    }
}
