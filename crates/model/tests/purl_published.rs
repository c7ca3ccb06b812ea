//! Purls that others published: the conformance suites, and what scanners wrote of real images.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

use scheduler_model::purl::{Mend, Purl, PurlError, PurlParts};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rows that are not followed, by file and position, each with the reason. A row that holds has no place here.
const NOT_FOLLOWED: &[(&str, usize, &str)] = &[
    ("git-test.json", 0, "wants git folded to lower case; the definition says that git is case-sensitive"),
    ("maven-test.json", 13, "wants a qualifier key in mixed case accepted; the gem and rpm rows want it refused"),
    ("test-suite-data.json", 10, "superseded: gem row of the newer suite refuses a qualifier key in mixed case"),
    ("test-suite-data.json", 11, "superseded: as 10, and the newer suite encodes `/` in qualifier values"),
    ("test-suite-data.json", 12, "superseded: as 10, and the newer suite encodes `/` in qualifier values"),
    ("test-suite-data.json", 17, "superseded: rpm row of the newer suite refuses a qualifier key in mixed case"),
    ("test-suite-data.json", 31, "superseded: newer suite refuses `::` in cpan names"),
    ("test-suite-data.json", 32, "superseded: newer suite accepts cpan names with `-`"),
];

fn shared() -> Option<PathBuf> {
    let path = std::env::var_os("SCHEDULER_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")), PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: no shared data");
    None
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("readable")).expect("json")
}

/// The rows that do not hold, with what came out instead.
fn failures(file: &str, rows: &[Value], holds: impl Fn(&Value) -> Result<(), String>) -> Vec<(String, usize, String)> {
    let failed = |(at, row): (usize, &Value)| holds(row).err().map(|what| (file.to_owned(), at, what));
    rows.iter().enumerate().filter_map(failed).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{got:?} instead of {wanted:?}")) }
}

type Parts = (Option<String>, Option<String>, Option<String>, Option<String>, BTreeMap<String, String>, Option<String>);

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

fn parts_of_row(value: &Value) -> Parts {
    let pairs = value["qualifiers"].as_object().into_iter().flatten();
    let qualifiers = pairs.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect();
    let one = |key| text(value, key);
    (one("type"), one("namespace"), one("name"), one("version"), qualifiers, one("subpath"))
}

fn parts_of(purl: &Purl) -> Parts {
    let own = |text: Option<&str>| text.map(str::to_owned);
    let qualifiers = purl.qualifiers().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let (ty, name) = (own(Some(purl.ty())), own(Some(purl.name())));
    (ty, own(purl.namespace()), name, own(purl.version()), qualifiers, own(purl.subpath()))
}

fn build((ty, namespace, name, version, qualifiers, subpath): &Parts) -> Result<Purl, PurlError> {
    Purl::build(&PurlParts {
        ty: ty.as_deref().unwrap_or_default(),
        namespace: namespace.as_deref(),
        name: name.as_deref().unwrap_or_default(),
        version: version.as_deref(),
        qualifiers: qualifiers.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        subpath: subpath.as_deref(),
    })
}

/// Rows that are `required` bind the strict parser, those that are `recommended` say how to mend.
fn newer_row(row: &Value) -> Result<(), String> {
    let input = &row["input"];
    let parse = |raw: &str| match row["test_group"].as_str().unwrap() {
        "required" => Purl::parse_strict(raw),
        "recommended" => Purl::parse_lenient(raw).map(|parsed| parsed.purl),
        group => panic!("unknown group {group}"),
    };
    let (kind, result) = match row["test_type"].as_str().unwrap() {
        "build" => ("build", build(&parts_of_row(input))),
        kind => (kind, parse(input.as_str().unwrap())),
    };
    if row["expected_failure"].as_bool().unwrap_or_default() {
        return result.map_or(Ok(()), |purl| Err(format!("{purl} instead of an error")));
    }
    let purl = result.map_err(|error| error.to_string())?;
    let wanted = &row["expected_output"];
    if kind == "parse" {
        same(parts_of(&purl), parts_of_row(wanted))
    } else {
        same(purl.as_str(), wanted.as_str().unwrap())
    }
}

fn older_row(row: &Value) -> Result<(), String> {
    let result = Purl::parse_strict(row["purl"].as_str().unwrap());
    if row["is_invalid"].as_bool().unwrap() {
        return result.map_or(Ok(()), |purl| Err(format!("{purl} instead of an error")));
    }
    let purl = result.map_err(|error| error.to_string())?;
    let canonical = row["canonical_purl"].as_str().unwrap();
    same(purl.as_str(), canonical)?;
    same(Purl::parse_strict(canonical), Ok(purl.clone()))?;
    same(build(&parts_of_row(row)), Ok(purl))
}

#[test]
fn every_row_of_the_conformance_suites_holds_but_those_listed() {
    let Some(shared) = shared() else { return };
    let purl = shared.join("data/purl");
    let mut suites: Vec<PathBuf> =
        fs::read_dir(purl.join("types")).unwrap().map(|entry| entry.unwrap().path()).collect();
    suites.push(purl.join("spec/specification-test.json"));
    suites.sort();
    let mut rows_len = 0;
    let mut failed = Vec::new();
    for suite in suites {
        let name = suite.file_name().unwrap().to_str().unwrap();
        let document = json(&suite);
        let rows = document["tests"].as_array().unwrap();
        rows_len += rows.len();
        failed.extend(failures(name, rows, newer_row));
    }
    assert_eq!(rows_len, 390 + 18);
    let older = json(&purl.join("test-suite-data.json"));
    assert_eq!(older.as_array().unwrap().len(), 41);
    failed.extend(failures("test-suite-data.json", older.as_array().unwrap(), older_row));

    let listed: BTreeSet<(&str, usize)> = NOT_FOLLOWED.iter().map(|(file, at, _)| (*file, *at)).collect();
    let found: BTreeSet<(&str, usize)> = failed.iter().map(|(file, at, _)| (file.as_str(), *at)).collect();
    assert_eq!(found, listed, "{failed:#?}");
}

/// The rules of the types are kept by hand; the published definitions say whether they are right.
#[test]
fn types_ask_for_namespaces_as_their_definitions_say() {
    let Some(shared) = shared() else { return };
    for entry in fs::read_dir(shared.join("data/purl/definitions")).unwrap() {
        let definition = json(&entry.unwrap().path());
        let ty = definition["type"].as_str().unwrap();
        let refused = |namespace: &str| {
            let raw = format!("pkg:{ty}/{namespace}abcdefghijklmnopabcdefghijklmnop?uuid=1&tag_id=1");
            matches!(
                Purl::parse_strict(&raw),
                Err(PurlError::MissingNamespace { .. } | PurlError::ForbiddenNamespace { .. })
            )
        };
        let got = match (refused(""), refused("n/")) {
            (true, false) => "required",
            (false, true) => "prohibited",
            (false, false) => "optional",
            (true, true) => "nothing",
        };
        assert_eq!(definition["namespace_definition"]["requirement"].as_str(), Some(got), "{ty}");
    }
}

#[test]
fn types_fold_case_as_their_definitions_say() {
    let Some(shared) = shared() else { return };
    for entry in fs::read_dir(shared.join("data/purl/definitions")).unwrap() {
        let definition = json(&entry.unwrap().path());
        let ty = definition["type"].as_str().unwrap();
        let purl = Purl::parse_lenient(&format!("pkg:{ty}/Space/Name@1.0A")).unwrap().purl;
        let folded = |part: &str, text: &str| match definition[format!("{part}_definition")]["case_sensitive"] {
            Value::Bool(false) => text.to_lowercase(),
            _ => text.to_owned(),
        };
        // The one type that folds to upper case says so in a note only.
        let namespace = if ty == "cpan" { "SPACE".to_owned() } else { folded("namespace", "Space") };
        let wanted = (Some(namespace), folded("name", "Name"), Some(folded("version", "1.0A")));
        let own = |text: Option<&str>| text.map(str::to_owned);
        assert_eq!((own(purl.namespace()), purl.name().to_owned(), own(purl.version())), wanted, "{ty}");
    }
}

#[test]
fn purls_of_real_images_are_read_but_for_two_without_a_name() {
    let Some(shared) = shared() else { return };
    let packed = fs::read(shared.join("data/images/purls-real.txt.zst")).unwrap();
    let list = String::from_utf8(zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    let mut refused = Vec::new();
    let mut mended: BTreeMap<Mend, usize> = BTreeMap::new();
    for line in list.lines() {
        match Purl::parse_lenient(line) {
            Ok(parsed) => {
                assert_eq!(Purl::parse_strict(line).is_ok(), parsed.mended.is_empty(), "{line}");
                let again = Purl::parse_lenient(parsed.purl.as_str()).unwrap();
                assert_eq!(parts_of(&again.purl), parts_of(&parsed.purl), "{line}");
                for mend in parsed.mended.iter() {
                    *mended.entry(mend).or_default() += 1;
                }
            }
            Err(error) => refused.push((line, error)),
        }
    }
    assert_eq!(list.lines().count(), 91_922);
    let nameless = ["pkg:golang/@%28devel%29", "pkg:maven/"].map(|line| (line, PurlError::MissingName));
    assert_eq!(refused.into_iter().collect::<Vec<_>>(), nameless);
    assert_eq!(mended, BTreeMap::from([(Mend::QualifierCase, 1166), (Mend::MissingNamespace, 21)]));
}
