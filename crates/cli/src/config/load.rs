//! From file and environment to the written configuration. Errors name the key's path.

use super::raw::File;
use super::{ConfigError, document, wording};
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;

/// The prefix of variables that override a key: `SCHEDULER__LIMITS__MAXJOBSPERRUN`.
const OVERRIDE_PREFIX: &str = "SCHEDULER__";

/// Reads a file (none: all defaults) and lays the overrides over it.
pub fn load(path: Option<&Path>, environment: impl Iterator<Item = (OsString, OsString)>) -> Result<File, ConfigError> {
    let mut document = match path {
        Some(path) => read(path)?,
        None => Value::Object(serde_json::Map::new()),
    };
    let known = serde_json::to_value(File::default()).map_err(|e| ConfigError::at("scheduler", e))?;
    let mut overrides = Vec::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(OVERRIDE_PREFIX)) else { continue };
        let value = value.into_string();
        let value = value.map_err(|_| ConfigError::new(format!("the variable {name} is not UTF-8")))?;
        overrides.push((name.to_owned(), value));
    }
    overrides.sort();
    for (name, value) in &overrides {
        lay_over(&mut document, &known, name, value)?;
    }
    serde_path_to_error::deserialize(&document).map_err(|error| {
        let path = error.path().to_string();
        let path = path.strip_prefix("scheduler.").unwrap_or(&path).to_owned();
        let variable = format!("{OVERRIDE_PREFIX}{}", path.replace('.', "__").to_ascii_uppercase());
        let what = wording::plain(&error.into_inner().to_string());
        match overrides.iter().find(|(name, _)| name.eq_ignore_ascii_case(&variable)) {
            Some((name, _)) => ConfigError::at(path, format!("{what} (the variable {name} says so)")),
            None => ConfigError::at(path, what),
        }
    })
}

fn read(path: &Path) -> Result<Value, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| ConfigError::new(format!("the configuration file {} cannot be read: {e}", path.display())))?;
    let document = document::parse(&text)
        .map_err(|e| ConfigError::new(format!("the configuration file {} is not understood: {e}", path.display())))?;
    // An empty file is an empty configuration.
    Ok(if document.is_null() { Value::Object(serde_json::Map::new()) } else { document })
}

/// Sets one key from a variable. Names are matched without case against the keys that there are.
fn lay_over(document: &mut Value, known: &Value, name: &str, value: &str) -> Result<(), ConfigError> {
    let unknown = || ConfigError::new(format!("the variable {name} names no key of the configuration"));
    let parts = std::iter::once("SCHEDULER").chain(name.get(OVERRIDE_PREFIX.len()..).unwrap_or_default().split("__"));
    let (mut target, mut known) = (document, known);
    for part in parts {
        let keys = known.as_object().ok_or_else(unknown)?;
        let (key, below) = match keys.iter().find(|(key, _)| key.eq_ignore_ascii_case(part)) {
            Some((key, below)) => (key.clone(), below),
            // A map with free keys, such as limits.hostRates.
            None if keys.is_empty() => (part.to_owned(), &Value::Null),
            None => return Err(unlike(name, part, keys.keys())),
        };
        if !target.is_object() {
            *target = Value::Object(serde_json::Map::new());
        }
        target = target.as_object_mut().ok_or_else(unknown)?.entry(key).or_insert(Value::Null);
        known = below;
    }
    *target = match known {
        Value::String(_) => Value::String(value.to_owned()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            document::parse(value).map_err(|e| ConfigError::new(format!("the variable {name}: {e}")))?
        }
    };
    Ok(())
}

/// A variable that names no key, with the one that may be meant.
fn unlike<'a>(name: &str, part: &str, keys: impl Iterator<Item = &'a String>) -> ConfigError {
    let said = format!("the variable {name} names no key of the configuration");
    match wording::nearest(part, keys.map(String::as_str)) {
        Some(key) => {
            let meant = name.replacen(part, &key.to_ascii_uppercase(), 1);
            ConfigError::new(format!("{said}; did you mean {meant}?"))
        }
        None => ConfigError::new(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(yaml: &str, variables: &[(&str, &str)]) -> Result<File, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        std::fs::write(&path, yaml).unwrap();
        load(Some(&path), variables.iter().map(|(n, v)| (n.into(), v.into())))
    }

    #[test]
    fn variables_override_the_file_whatever_their_case() {
        let file = with(
            "scheduler: { limits: { maxJobsPerRun: 5 }, listen: '127.0.0.1:1' }",
            &[
                ("SCHEDULER__LIMITS__MAXJOBSPERRUN", "100"),
                ("SCHEDULER__LISTEN", "127.0.0.1:2"),
                ("SCHEDULER__IMPACTINDEX__WARMONSTART", "false"),
                ("SCHEDULER__LIMITS__HOSTRATES", "{ registry.example.com: 5 }"),
                ("SCHEDULER__TELEMETRY__METRICSLISTEN", "127.0.0.1:9"),
                ("SCHEDULER_CONFIG", "no key"),
            ],
        )
        .unwrap()
        .scheduler;
        assert_eq!((file.limits.max_jobs_per_run, file.listen.as_str()), (100, "127.0.0.1:2"));
        assert!(!file.impact_index.warm_on_start);
        assert_eq!(file.limits.host_rates.get("registry.example.com"), Some(&5));
        assert_eq!(file.telemetry.metrics_listen, "127.0.0.1:9");
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        for (yaml, variables, named) in [
            ("scheduler: { limits: { maxJobsPerRunn: 5 } }", vec![], "limits.maxJobsPerRunn"),
            ("scheduler: { limits: { maxJobsPerRun: many } }", vec![], "limits.maxJobsPerRun"),
            ("scheduler: { limits: { maxJobsPerRun: -1 } }", vec![], "limits.maxJobsPerRun"),
            ("scheduler: { webhooks: { keys: [ { id: a, colour: red } ] } }", vec![], "webhooks.keys[0].colour"),
            ("shceduler: {}", vec![], "shceduler"),
            ("scheduler: {}", vec![("SCHEDULER__LIMITS__NOTHING", "1")], "SCHEDULER__LIMITS__NOTHING"),
            ("scheduler: {}", vec![("SCHEDULER__LIMITS__MAXJOBSPERRUN", "many")], "limits.maxJobsPerRun"),
            ("scheduler: [", vec![], "config.yaml"),
            ("scheduler: {}", vec![("SCHEDULER__LIMITS__HOSTRATES", "{ a: 1, a: 2 }")], "`a` is there twice"),
        ] {
            let said = with(yaml, &variables).unwrap_err().to_string();
            assert!(said.contains(named), "{yaml} with {variables:?}: {said}");
        }
    }

    /// Every key that has a value, as its variable is called.
    fn leaves(value: &Value, name: &str, found: &mut Vec<(String, Value)>) {
        match value.as_object().filter(|members| !members.is_empty()) {
            Some(members) => {
                members
                    .iter()
                    .for_each(|(key, below)| leaves(below, &format!("{name}__{}", key.to_uppercase()), found));
            }
            None => found.push((name.to_owned(), value.clone())),
        }
    }

    #[test]
    fn every_key_has_a_variable() {
        let mut found = Vec::new();
        leaves(&serde_json::to_value(File::default()).unwrap()["scheduler"], "SCHEDULER", &mut found);
        assert!(found.len() > 60, "{}", found.len());
        for (name, default) in found {
            let (own, other) = match &default {
                Value::String(text) => (text.clone(), "another".to_owned()),
                Value::Bool(value) => (value.to_string(), (!value).to_string()),
                Value::Number(number) => (number.to_string(), "1".to_owned()),
                Value::Array(_) => ("[]".to_owned(), "[]".to_owned()),
                Value::Object(_) | Value::Null => (default.to_string(), default.to_string()),
            };
            for text in [own, other] {
                let file = with("", &[(&name, &text)]).unwrap_or_else(|error| panic!("{name}={text}: {error}"));
                let mut now = Vec::new();
                leaves(&serde_json::to_value(&file).unwrap()["scheduler"], "SCHEDULER", &mut now);
                let (_, value) = now.iter().find(|(known, _)| *known == name).unwrap();
                let told = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                assert_eq!(told, text, "{name}");
            }
        }
    }

    #[test]
    fn an_empty_file_is_all_defaults() {
        assert_eq!(with("", &[]).unwrap().scheduler.listen, "127.0.0.1:8585");
    }
}
