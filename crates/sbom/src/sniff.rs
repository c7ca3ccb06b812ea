//! Looks at the first bytes, for inputs that no JSON parser could name.

use crate::SbomError;

/// Bytes that [`start`] wants to see; fewer are fine when the input is shorter.
pub(crate) const PREFIX_BYTES: usize = 64;

/// Says how many bytes of a UTF-8 byte-order mark to pass over, or what the input is instead of JSON.
pub(crate) fn start(prefix: &[u8]) -> Result<usize, SbomError> {
    let encoding = |found| Err(SbomError::Encoding { found });
    let unsupported = |found: &str| Err(SbomError::UnsupportedFormat { found: found.to_owned() });
    match prefix {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => return encoding("UTF-16"),
        [b'{' | b'[', 0, ..] | [0, b'{' | b'[', ..] | [0, 0, 0, b'{' | b'[', ..] => {
            return encoding("UTF-16 or UTF-32");
        }
        [0x1F, 0x8B, ..] => return encoding("gzip"),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => return encoding("zstd"),
        _ => {}
    }
    let mark = if prefix.starts_with(&[0xEF, 0xBB, 0xBF]) { 3 } else { 0 };
    let text = prefix.get(mark..).unwrap_or_default().trim_ascii_start();
    if text.starts_with(b"<") {
        return unsupported("XML");
    }
    if text.starts_with(b"SPDXVersion:") {
        return unsupported("SPDX tag-value");
    }
    if text.starts_with(b"\"") {
        return encoding("a JSON string, as if it had been encoded twice");
    }
    if is_base64_of_json(text) {
        return encoding("base64");
    }
    Ok(mark)
}

/// `{` and `[`, also after a byte-order mark, begin with these letters in base64; no JSON value does.
fn is_base64_of_json(text: &[u8]) -> bool {
    let begins = [&b"ey"[..], b"ew", b"W3", b"Ww", b"77u/"].iter().any(|start| text.starts_with(start));
    begins && text.trim_ascii_end().iter().all(|b| b.is_ascii_alphanumeric() || b"+/=-_\r\n".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(input: &[u8]) -> String {
        start(input).unwrap_err().to_string()
    }

    #[test]
    fn utf8_mark_is_passed_over() {
        assert_eq!(start(b"\xEF\xBB\xBF{}").unwrap(), 3);
        assert_eq!(start(b" \n{}").unwrap(), 0);
        assert_eq!(start(b"").unwrap(), 0);
    }

    #[test]
    fn other_encodings_are_named() {
        for (input, name) in [
            (&b"\xFF\xFE{\0"[..], "UTF-16"),
            (b"\xFE\xFF\0{", "UTF-16"),
            (b"{\0\"\0", "UTF-16"),
            (b"\0{\0\"", "UTF-16"),
            (b"\x1F\x8B\x08\0", "gzip"),
            (b"\x28\xB5\x2F\xFD", "zstd"),
            (b"eyJib21Gb3JtYXQiOiAiQ3ljbG9uZURYIn0=", "base64"),
            (b"ewogICJib21Gb3JtYXQiOg==\n", "base64"),
            (b"77u/eyJib21G", "base64"),
            (b"\"{\\\"bomFormat\\\"", "twice"),
            (b"\xEF\xBB\xBF<?xml version", "XML"),
            (b"SPDXVersion: SPDX-2.2\n", "tag-value"),
        ] {
            assert!(refusal(input).contains(name), "{name}: {}", refusal(input));
        }
    }

    #[test]
    fn json_is_never_taken_for_base64() {
        for input in ["{}", "[1]", "null", "true", "-1", "ey, no", "W3 C"] {
            assert!(start(input.as_bytes()).is_ok(), "{input}");
        }
    }
}
