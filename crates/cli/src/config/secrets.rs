//! Values that come from files and variables of their own.

use super::ConfigError;
use super::raw::Scheduler;
use std::path::Path;

/// A secret of one line, from a file that only its owner reads, or from a variable.
pub fn secret_line(path: &str, file: &str, variable: &str, member: &str) -> Result<Vec<u8>, ConfigError> {
    match (file.is_empty(), variable.is_empty()) {
        (false, true) => {
            let place = below(path, member, "File");
            private(&place, file)?;
            read(&place, file).map(one_line)
        }
        (true, false) => std::env::var(variable)
            .map(|value| one_line(value.into_bytes()))
            .map_err(|_| ConfigError::at(below(path, member, "Env"), format!("the variable {variable} is not set"))),
        (true, true) => Err(ConfigError::at(below(path, member, "File"), format!("give {member}File or {member}Env"))),
        (false, false) => {
            Err(ConfigError::at(below(path, member, "File"), format!("give {member}File or {member}Env, not both")))
        }
    }
}

/// Replaces every URL that stands in a file or a variable by itself.
pub fn resolve_urls(all: &mut Scheduler) -> Result<(), ConfigError> {
    let (authority, scanner, traces) = (&mut all.authority, &mut all.integrates, &mut all.telemetry);
    for (path, written, file, variable) in [
        ("publicUrl", &mut all.public_url, &all.public_url_file, &all.public_url_env),
        ("authority.issuer", &mut authority.issuer, &authority.issuer_file, &authority.issuer_env),
        ("authority.jwksUri", &mut authority.jwks_uri, &authority.jwks_uri_file, &authority.jwks_uri_env),
        ("mongo.uri", &mut all.mongo.uri, &all.mongo.uri_file, &all.mongo.uri_env),
        ("queue.url", &mut all.queue.url, &all.queue.url_file, &all.queue.url_env),
        ("bus.url", &mut all.bus.url, &all.bus.url_file, &all.bus.url_env),
        ("integrates.scannerUrl", &mut scanner.scanner_url, &scanner.scanner_url_file, &scanner.scanner_url_env),
        ("telemetry.otlpEndpoint", &mut traces.otlp_endpoint, &traces.otlp_endpoint_file, &traces.otlp_endpoint_env),
    ] {
        *written = url(path, written, file, variable)?;
    }
    Ok(())
}

/// A URL that is written down, or comes from a file or a variable.
fn url(path: &str, written: &str, file: &str, variable: &str) -> Result<String, ConfigError> {
    let given = [!written.is_empty(), !file.is_empty(), !variable.is_empty()].iter().filter(|g| **g).count();
    if given > 1 {
        return Err(ConfigError::at(path, format!("give one of {path}, {path}File and {path}Env")));
    }
    if file.is_empty() && variable.is_empty() {
        return Ok(written.to_owned());
    }
    let member = path.rsplit('.').next().unwrap_or(path);
    let parent = path.strip_suffix(member).and_then(|p| p.strip_suffix('.')).unwrap_or_default();
    let bytes = secret_line(parent, file, variable, member)?;
    String::from_utf8(bytes).map_err(|_| ConfigError::at(format!("{path}File"), "the URL is not UTF-8"))
}

/// The bytes of a file that the configuration names.
pub fn read(path: &str, file: &str) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(file).map_err(|e| ConfigError::at(path, format!("{file} cannot be read: {e}")))
}

/// Refuses a file that others than its owner can read.
pub fn private(path: &str, file: &str) -> Result<(), ConfigError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(Path::new(file))
        .map_err(|e| ConfigError::at(path, format!("{file} cannot be read: {e}")))?
        .permissions()
        .mode();
    if mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(ConfigError::at(
            path,
            format!("{file} can be read by others (mode {:o}); run `chmod 600 {file}`", mode & 0o777),
        ))
    }
}

/// The path of a member's other form; at the top there is no section to name.
fn below(path: &str, member: &str, form: &str) -> String {
    if path.is_empty() { format!("{member}{form}") } else { format!("{path}.{member}{form}") }
}

fn one_line(mut bytes: Vec<u8>) -> Vec<u8> {
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    bytes
}
