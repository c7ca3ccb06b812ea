//! Percent-encoding of the components.

use super::PurlError;
use super::mend::{Judge, Mend};
use std::borrow::Cow;
use std::fmt;

/// Which bytes stand for themselves in canonical form, besides letters, digits and `-._~:`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slash {
    /// `/` separates segments.
    Kept,
    /// `/` is data.
    Encoded,
}

/// Whether some byte of `text` is one that `is` names. It looks at every byte, without a branch: on texts as short as
/// these that is several times faster than to stop at the first.
pub(super) fn has_byte(text: &str, is: impl Fn(u8) -> bool) -> bool {
    text.bytes().fold(false, |found, byte| found | is(byte))
}

fn is_plain(byte: u8, slash: Slash) -> bool {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => true,
        b'/' => slash == Slash::Kept,
        _ => false,
    }
}

/// Writes `text` percent-encoded.
pub(super) fn encode(out: &mut impl fmt::Write, text: &str, slash: Slash) -> fmt::Result {
    if !has_byte(text, |byte| !is_plain(byte, slash)) {
        return out.write_str(text);
    }
    for character in text.chars() {
        let mut buffer = [0; 4];
        for byte in character.encode_utf8(&mut buffer).bytes() {
            if is_plain(byte, slash) {
                out.write_char(char::from(byte))?;
            } else {
                out.write_char('%')?;
                out.write_char(hex(byte >> 4))?;
                out.write_char(hex(byte & 0xf))?;
            }
        }
    }
    Ok(())
}

fn hex(nibble: u8) -> char {
    char::from(if nibble < 10 { b'0' + nibble } else { b'A' + nibble - 10 })
}

/// The text that `raw` stands for. A `%` that begins no escape stands for itself when lenient.
pub(super) fn decode<'a>(raw: &'a str, judge: &mut Judge) -> Result<Cow<'a, str>, PurlError> {
    if !has_byte(raw, |byte| byte == b'%') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = if first == b'%' { escape(tail) } else { None };
        if let Some((byte, tail)) = escaped {
            if byte.is_ascii_control() {
                return Err(PurlError::ControlCharacter);
            }
            bytes.push(byte);
            rest = tail;
        } else {
            if first == b'%' {
                judge.defect(Mend::UnescapedCharacter, || PurlError::BadEscape)?;
            }
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| PurlError::NotUtf8)
}

/// The byte that the two digits at the start of `text` give, and what follows them.
pub(super) fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let ([high, low], rest) = text.split_first_chunk()?;
    Some((digit(*high)? << 4 | digit(*low)?, rest))
}

/// Whether the text after a `%` begins with two digits as [`encode`] writes them, of a byte that `is` names.
pub(super) fn is_escape_of(after: &str, is: impl Fn(u8) -> bool) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'A'..=b'F');
    let digits = after.as_bytes().first_chunk::<2>().filter(|digits| digits.iter().all(|&byte| is_digit(byte)));
    digits.and_then(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).is_some_and(is)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
