//! Input files of the verbs: small JSON documents, `-` for standard input.

use super::ClientError;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// The largest input document, in bytes.
const INPUT_LEN_MAX: u64 = 256 << 20;

/// The bytes of a file, or of standard input when its name is `-`.
pub fn read_input(path: &Path) -> Result<Vec<u8>, ClientError> {
    let refused = |why: String| ClientError::Input { path: path.to_path_buf(), why };
    let mut content = Vec::new();
    let source: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| refused(error.to_string()))?)
    };
    source.take(INPUT_LEN_MAX + 1).read_to_end(&mut content).map_err(|error| refused(error.to_string()))?;
    if content.len() as u64 > INPUT_LEN_MAX {
        return Err(refused(format!("it is larger than {INPUT_LEN_MAX} bytes")));
    }
    Ok(content)
}

/// A JSON document out of a file.
pub fn read_document(path: &Path) -> Result<Value, ClientError> {
    serde_json::from_slice(&read_input(path)?)
        .map_err(|error| ClientError::Input { path: path.to_path_buf(), why: format!("it is no JSON: {error}") })
}

/// The lines of a text file that say something; `#` begins a remark.
pub fn read_lines(path: &Path) -> Result<Vec<String>, ClientError> {
    let text = String::from_utf8(read_input(path)?)
        .map_err(|_| ClientError::Input { path: path.to_path_buf(), why: "it is not UTF-8".to_owned() })?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}
