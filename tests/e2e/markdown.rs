//! Pages in Markdown, as far as tests look at them.

use std::collections::BTreeSet;

/// What begins and ends a block.
const FENCE: &str = "```";

/// A fenced block.
pub struct Block {
    /// What stands behind its fence: the language first.
    pub words: Vec<String>,
    /// Its lines.
    pub text: String,
    /// Where it begins on the page.
    pub line: usize,
}

impl Block {
    pub fn language(&self) -> &str {
        self.words.first().map(String::as_str).unwrap_or_default()
    }
}

/// The blocks of a page.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix(FENCE), open.take()) {
            (Some(_), Some(block)) => found.push(block),
            (Some(words), None) => {
                let words = words.split_whitespace().map(str::to_owned).collect();
                open = Some(Block { words, text: String::new(), line: number + 1 });
            }
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end");
    found
}

/// Targets of the links on a page, with their lines. What stands in blocks and code is no link.
pub fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in page.lines().enumerate() {
        if line.starts_with(FENCE) {
            fenced = !fenced;
        } else if !fenced {
            // Every second part is code.
            let prose: String =
                line.split('`').enumerate().map(|(part, text)| if part % 2 == 0 { text } else { "x" }).collect();
            for part in prose.split("](").skip(1) {
                found.push((number + 1, part.split(')').next().unwrap_or_default().to_owned()));
            }
        }
    }
    found
}

/// The anchors that GitHub makes of a page's headings.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let mut fenced = false;
    page.lines()
        .filter(|line| {
            fenced ^= line.starts_with(FENCE);
            !fenced && line.starts_with('#')
        })
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}
