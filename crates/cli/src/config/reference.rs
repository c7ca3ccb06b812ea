//! The files that are written from the raw structs: the commented default and the reference page.

use super::load::load;
use super::raw::{self, File};
use crate::golden::golden;
use serde_json::Value;

type Texts = &'static [(&'static str, &'static [&'static str])];

/// Every section below `scheduler`, with the texts of its members.
const SECTIONS: &[(&str, Texts)] = &[
    ("", raw::Scheduler::TEXTS),
    ("tls", raw::Tls::TEXTS),
    ("authority", raw::Authority::TEXTS),
    ("store", raw::Store::TEXTS),
    ("mongo", raw::Mongo::TEXTS),
    ("queue", raw::Queue::TEXTS),
    ("bus", raw::Bus::TEXTS),
    ("impactIndex", raw::ImpactIndex::TEXTS),
    ("limits", raw::Limits::TEXTS),
    ("events", raw::Events::TEXTS),
    ("webhooks", raw::Webhooks::TEXTS),
    ("webhooks.keys[]", raw::WebhookKey::TEXTS),
    ("webhooks.clients[]", raw::WebhookClient::TEXTS),
    ("integrates", raw::Integrates::TEXTS),
    ("integrates.auth", raw::ScannerAuth::TEXTS),
    ("notifications", raw::Notifications::TEXTS),
    ("retry", raw::Retry::TEXTS),
    ("retention", raw::Retention::TEXTS),
    ("telemetry", raw::Telemetry::TEXTS),
    ("shutdown", raw::Shutdown::TEXTS),
];

/// `rate_per_second` → `ratePerSecond`.
fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (head, tail) = part.split_at(1);
        text + &head.to_uppercase() + tail
    })
}

fn default_of(section: &str) -> Value {
    let root = serde_json::to_value(raw::Scheduler::default()).unwrap();
    match section {
        "" => root,
        "webhooks.keys[]" => serde_json::to_value(raw::WebhookKey::default()).unwrap(),
        "webhooks.clients[]" => serde_json::to_value(raw::WebhookClient::default()).unwrap(),
        path => path.split('.').fold(root, |value, key| value[key].clone()),
    }
}

fn join(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

fn is_section(path: &str) -> bool {
    SECTIONS.iter().any(|(section, _)| *section == path)
}

fn write_yaml(out: &mut String, section: &str, depth: usize) {
    let (_, texts) = SECTIONS.iter().find(|(name, _)| *name == section).unwrap();
    let values = default_of(section);
    let indent = "  ".repeat(depth);
    for (field, lines) in *texts {
        let key = camel(field);
        let path = join(section, &key);
        for line in *lines {
            out.push_str(&format!("{indent}#{line}\n"));
        }
        if is_section(&path) {
            out.push_str(&format!("{indent}{key}:\n"));
            write_yaml(out, &path, depth + 1);
        } else {
            out.push_str(&format!("{indent}{key}: {}\n", values[&key]));
        }
    }
}

fn default_yaml() -> String {
    let mut out = "# Every key with its default, as the program has it: this file and an empty one mean the same.\n\
         # A variable overrides a key: SCHEDULER__LIMITS__MAXJOBSPERRUN=100. What the keys of webhooks look like stands in\n\
         # docs/reference/configuration.md.\n\
         scheduler:\n"
        .to_owned();
    write_yaml(&mut out, "", 1);
    out
}

const PAGE_HEAD: &str = "# Configuration

One YAML file, named by `--config` or `SCHEDULER_CONFIG`; without one every key has its default. `config/default.yaml` is this
page as a file, and `config/` has an example for each kind of deployment.

- **Variables** override the file: `SCHEDULER__` and the path of the key, joined by `__`, in any case after the prefix, as
  `SCHEDULER__LIMITS__MAXJOBSPERRUN=100`. Lists and maps are written as YAML: `SCHEDULER__LIMITS__HOSTRATES='{registry.example.com: 5}'`.
- **Secrets** stand in files (`…File`, readable by their owner only) or variables (`…Env` holds the variable's name). Every URL can come
  the same two ways, since it may hold a password. Of the three forms give one.
- **Errors** stop the start with a sentence that names the key's path: unknown keys, keys that are there twice, wrong types, numbers out of range, missing files,
  secret files that others can read, and relations that cannot hold, such as a lease shorter than a call.
- `stella-scheduler doctor` checks a configuration without starting anything.

Relative paths count from the folder that the program is started in. An empty text means: not set.
";

fn page() -> String {
    let mut out = PAGE_HEAD.to_owned();
    for (section, texts) in SECTIONS {
        let title = if section.is_empty() { "scheduler" } else { section };
        out.push_str(&format!("\n## {title}\n\n| key | default | meaning |\n| --- | --- | --- |\n"));
        let values = default_of(section);
        for (field, lines) in *texts {
            let key = camel(field);
            let default = match &values[&key] {
                Value::Null => "–".to_owned(),
                Value::Object(_) if is_section(&join(section, &key)) => "see below".to_owned(),
                value => format!("`{value}`"),
            };
            let text: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
            out.push_str(&format!("| `{key}` | {default} | {} |\n", text.join(" ")));
        }
    }
    out
}

#[test]
fn the_reference_page_and_the_default_file_are_what_the_code_says() {
    golden("docs/reference/configuration.md", &page());
    golden("config/default.yaml", &default_yaml());
}

#[test]
fn the_documented_default_file_equals_the_built_in_defaults() {
    // The file says what `default_yaml` says: see the test above.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("default.yaml");
    std::fs::write(&path, default_yaml()).unwrap();
    let written = load(Some(&path), std::iter::empty()).unwrap();
    assert_eq!(serde_json::to_value(written).unwrap(), serde_json::to_value(File::default()).unwrap());
}

#[test]
fn every_key_is_documented() {
    assert_eq!(File::TEXTS.len(), 1, "one key at the top");
    for (section, texts) in SECTIONS {
        let values = default_of(section);
        let named: Vec<String> = texts.iter().map(|(field, _)| camel(field)).collect();
        for (key, value) in values.as_object().unwrap() {
            let path = join(section, key);
            assert!(named.contains(key), "{path}");
            let is_free_map = path == "limits.hostRates";
            assert_eq!(value.is_object() && !is_free_map, is_section(&path), "{path}");
        }
        for (field, lines) in *texts {
            assert!(!lines.is_empty(), "{section}: {field} has no text");
        }
    }
}
