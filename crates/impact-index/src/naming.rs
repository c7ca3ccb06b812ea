//! Names, terms and components as bytes: what is hashed, compared and stored.

use scheduler_model::purl::MatchName;

/// In place of a source: there is none.
const NO_SOURCE: u32 = u32::MAX;

/// The types whose keys may leave the namespace out: those of `ProductKey::any_namespace`.
pub(crate) fn has_bare(ty: &str) -> bool {
    matches!(ty, "deb" | "rpm" | "apk")
}

pub(crate) fn bare_key(ty: &str, name: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(ty.len() + name.len() + 1);
    push_prefixed(&mut key, ty);
    key.extend_from_slice(name.as_bytes());
    key
}

/// Appends a name in its stored form. Every part but the last has its length before it: no two names have one form.
pub(crate) fn encode_name(key: &mut Vec<u8>, name: &MatchName<'_>) {
    key.reserve(name.ty.len() + name.namespace.map_or(0, str::len) + name.name.len() + 8);
    push_prefixed(key, name.ty);
    match name.namespace {
        Some(namespace) => {
            key.push(1);
            push_prefixed(key, namespace);
        }
        None => key.push(0),
    }
    key.extend_from_slice(name.name.as_bytes());
}

/// The parts of a name in its stored form; `None` when it is none.
pub(crate) fn decode_name(key: &[u8]) -> Option<MatchName<'_>> {
    let (ty, rest) = split_prefixed(key)?;
    let (&flag, rest) = rest.split_first()?;
    let (namespace, name) = match flag {
        0 => (None, rest),
        1 => split_prefixed(rest).map(|(namespace, name)| (Some(namespace), name))?,
        _ => return None,
    };
    Some(MatchName { ty, namespace, name: std::str::from_utf8(name).ok()? })
}

/// The name and the version of a term in its stored form; `None` when it is none.
pub(crate) fn decode_term(key: &[u8]) -> Option<(u32, Option<&str>)> {
    let (name, rest) = key.split_first_chunk()?;
    let version = match rest.split_first() {
        None => None,
        Some((1, version)) if !version.is_empty() => Some(std::str::from_utf8(version).ok()?),
        Some(_) => return None,
    };
    Some((u32::from_le_bytes(*name), version))
}

/// Appends a component in its stored form.
pub(crate) fn encode_component(key: &mut Vec<u8>, own: u32, source: Option<u32>) {
    key.extend_from_slice(&own.to_le_bytes());
    key.extend_from_slice(&source.unwrap_or(NO_SOURCE).to_le_bytes());
}

/// The terms of a component in its stored form; `None` when it is none.
pub(crate) fn decode_component(key: &[u8]) -> Option<(u32, Option<u32>)> {
    let (own, source) = key.split_first_chunk()?;
    let source = u32::from_le_bytes(source.try_into().ok()?);
    Some((u32::from_le_bytes(*own), (source != NO_SOURCE).then_some(source)))
}

fn push_prefixed(key: &mut Vec<u8>, text: &str) {
    let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
    key.extend_from_slice(&len.to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}

fn split_prefixed(key: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = key.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
    Some((std::str::from_utf8(text).ok()?, rest))
}
