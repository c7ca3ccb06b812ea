//! Values that come from files and variables of their own.

use super::ConfigError;
use std::path::Path;

/// A secret of one line, from a file that only its owner reads, or from a variable.
pub fn secret_line(path: &str, file: &str, variable: &str, member: &str) -> Result<Vec<u8>, ConfigError> {
    match (file.is_empty(), variable.is_empty()) {
        (false, true) => {
            let place = format!("{path}.{member}File");
            private(&place, file)?;
            read(&place, file).map(one_line)
        }
        (true, false) => std::env::var(variable)
            .map(|value| one_line(value.into_bytes()))
            .map_err(|_| ConfigError::at(format!("{path}.{member}Env"), format!("the variable {variable} is not set"))),
        (true, true) => {
            Err(ConfigError::at(format!("{path}.{member}File"), format!("give {member}File or {member}Env")))
        }
        (false, false) => {
            Err(ConfigError::at(format!("{path}.{member}File"), format!("give {member}File or {member}Env, not both")))
        }
    }
}

/// A URL that is written down, or comes from a file or a variable.
pub fn url(path: &str, written: &str, file: &str, variable: &str) -> Result<String, ConfigError> {
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

fn one_line(mut bytes: Vec<u8>) -> Vec<u8> {
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    bytes
}
