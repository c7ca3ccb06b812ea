//! The short way: texts that are canonical already.
//!
//! Nearly every purl is written as this crate writes it. Such a text needs no folding, no sorting and no mending, so that it
//! is read in one pass, without a copy. Whatever is in doubt is left to the full parser: `None` here says nothing about
//! the text.

use super::Purl;
use super::percent::{escape, is_escape_of};
use super::rules::{Fold, Namespace, name_is_path, rules_of};
use std::borrow::Cow;

const PLAIN: u8 = 1;
const UPPER: u8 = 2;
const UNDERSCORE: u8 = 4;
const ESCAPE: u8 = 8;
/// Stands for itself, but not in types and keys.
const MARK: u8 = 16;

/// What a byte is; 0 for those that end a part, or cannot be in one.
#[expect(clippy::indexing_slicing, reason = "the compiler runs it, and sees that every index is below 128")]
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' => PLAIN,
            b'~' | b':' => PLAIN | MARK,
            b'A'..=b'Z' => PLAIN | UPPER,
            b'_' => PLAIN | UNDERSCORE,
            b'%' => ESCAPE,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// A part of a canonical text.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    /// As it is written.
    pub(super) text: &'a str,
    /// Where that begins in the purl.
    pub(super) start: usize,
    /// Every class that a byte of it has.
    classes: u8,
}

/// A canonical text, taken apart.
pub(super) struct Plain<'a> {
    pub(super) ty: &'a str,
    pub(super) namespace: Option<Piece<'a>>,
    pub(super) name: Piece<'a>,
    pub(super) version: Option<Piece<'a>>,
    qualifiers: Scan<'a>,
}

/// A text that is read from the front.
#[derive(Clone, Copy)]
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes over one byte, if it is this.
    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// The longest part that begins here, which may be empty.
    fn piece(&mut self) -> Piece<'a> {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let mut classes = 0;
        let mut len = 0;
        for &byte in rest {
            let class = CLASSES.get(usize::from(byte)).copied().unwrap_or_default();
            if class == 0 {
                break;
            }
            classes |= class;
            len += 1;
        }
        let start = self.at;
        self.at += len;
        Piece { text: self.text.get(start..self.at).unwrap_or_default(), start, classes }
    }
}

impl<'a> Piece<'a> {
    /// The part, when it is there and each of its escapes is one that this crate writes.
    fn checked(self, slash_escaped: bool) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_graphic() && (byte != b'/' || slash_escaped) || byte == b' ';
        let is_canonical = self.classes & ESCAPE == 0
            || self.text.split('%').skip(1).all(|after| {
                is_escape_of(after, |byte| fits(byte) && CLASSES.get(usize::from(byte)).is_some_and(|c| c & PLAIN == 0))
            });
        (is_canonical && !self.text.is_empty()).then_some(self)
    }

    fn is_settled(self, fold: Fold) -> bool {
        match fold {
            Fold::Keep => true,
            Fold::Lower => self.classes & UPPER == 0,
            Fold::Pypi => self.classes & (UPPER | UNDERSCORE) == 0,
            Fold::Upper | Fold::Pub => false,
        }
    }

    /// Whether the text stands for another one.
    pub(super) fn is_escaped(self) -> bool {
        self.classes & ESCAPE != 0
    }

    /// Appends what the text stands for.
    pub(super) fn decode_to(self, out: &mut String) {
        let mut rest = self.text;
        while let Some((before, after)) = rest.split_once('%') {
            out.push_str(before);
            // Each escape was found to be one of an ASCII byte.
            out.push(escape(after.as_bytes()).map_or('%', |(byte, _)| char::from(byte)));
            rest = after.get(2..).unwrap_or_default();
        }
        out.push_str(rest);
    }

    /// What the text stands for.
    pub(super) fn value(self) -> Cow<'a, str> {
        if !self.is_escaped() {
            return Cow::Borrowed(self.text);
        }
        let mut decoded = String::with_capacity(self.text.len());
        self.decode_to(&mut decoded);
        Cow::Owned(decoded)
    }
}

impl<'a> Plain<'a> {
    /// Takes a text apart that is a canonical purl without subpath, and one of no rule beyond its parts' spelling.
    pub(super) fn read(raw: &'a str) -> Option<Self> {
        if raw.len() > Purl::LEN_MAX || !raw.starts_with("pkg:") {
            return None;
        }
        let mut scan = Scan { text: raw, at: 4 };
        let ty = scan.piece();
        let has_type_bytes = ty.classes == PLAIN;
        let first_fits = ty.text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if !has_type_bytes || !first_fits {
            return None;
        }
        let ty = ty.text;
        let rules = match ty {
            "chrome-extension" | "cpan" | "julia" | "swid" => return None,
            _ if name_is_path(ty) => return None,
            _ => rules_of(ty),
        };
        scan.skip(b'/')?;
        let start = scan.at;
        let mut namespace: Option<Piece<'a>> = None;
        let mut name = scan.piece().checked(false)?;
        while scan.skip(b'/').is_some() {
            let classes = namespace.map_or(0, |namespace| namespace.classes) | name.classes;
            namespace = Some(Piece { text: raw.get(start..scan.at - 1)?, start, classes });
            name = scan.piece().checked(false)?;
        }
        let version = match scan.skip(b'@') {
            Some(()) => Some(scan.piece().checked(true)?),
            None => None,
        };
        let namespace_fits = match rules.namespace {
            Namespace::Required => namespace.is_some(),
            Namespace::Forbidden => namespace.is_none(),
            Namespace::Optional => true,
        };
        let is_settled = namespace.is_none_or(|namespace| namespace.is_settled(rules.namespace_fold))
            && name.is_settled(rules.name_fold)
            && version.is_none_or(|version| version.is_settled(rules.version_fold));
        if !namespace_fits || !is_settled {
            return None;
        }
        let mut qualifiers = scan;
        if scan.skip(b'?').is_some() {
            qualifiers = scan;
            let mut last = "";
            loop {
                let key = scan.piece();
                scan.skip(b'=')?;
                let is_key = key.classes & (UPPER | ESCAPE | MARK) == 0;
                let first_fits = key.text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
                if !is_key || !first_fits || key.text <= last {
                    return None;
                }
                last = key.text;
                scan.piece().checked(true)?;
                if scan.skip(b'&').is_none() {
                    break;
                }
            }
        }
        (scan.at == raw.len()).then_some(Self { ty, namespace, name, version, qualifiers })
    }

    /// The qualifiers' keys and values, sorted by key.
    pub(super) fn qualifiers(&self) -> impl Iterator<Item = (Piece<'a>, Piece<'a>)> {
        let mut scan = self.qualifiers;
        std::iter::from_fn(move || {
            scan.peek()?;
            let key = scan.piece();
            scan.skip(b'=')?;
            let value = scan.piece();
            scan.skip(b'&');
            Some((key, value))
        })
    }
}
