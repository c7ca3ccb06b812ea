//! The page of error codes is what the code says: no code without an explanation, none explained that is gone.

use std::collections::BTreeSet;
use std::path::Path;

/// Words that stand where a code would, and are answers to deliveries.
const ANSWERS: [&str; 3] = ["accepted", "superseded", "duplicate"];

#[test]
fn every_code_of_a_problem_is_explained_and_none_that_is_gone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut used = BTreeSet::new();
    for file in std::fs::read_dir(root.join("src")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(path).unwrap();
            // A code follows the status that it belongs to.
            used.extend(source.split("StatusCode::").skip(1).filter_map(code));
        }
    }
    for answer in ANSWERS {
        used.remove(answer);
    }
    let page = std::fs::read_to_string(root.join("../../docs/reference/errors.md")).unwrap();
    let explained: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(code, _)| code.to_owned()))
        .collect();
    assert!(used.len() > 20, "the sources were not found: {used:?}");
    assert_eq!(used, explained);
}

/// The string literal that is the next argument after a status, if it is one.
fn code(after: &str) -> Option<String> {
    let rest = after.trim_start_matches(|c: char| c.is_ascii_uppercase() || c == '_').strip_prefix(',')?;
    let literal = rest.trim_start().strip_prefix('"')?;
    let (code, _) = literal.split_once('"')?;
    let is_code = !code.is_empty() && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    is_code.then(|| code.to_owned())
}
