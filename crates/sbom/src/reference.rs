//! Image references (`registry/repository:tag@digest`) and the purls of images.

/// Longest repository path in bytes, as registries have it.
const REPOSITORY_BYTES_MAX: usize = 255;

/// An image reference in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) registry: Option<String>,
    pub(crate) repository: String,
    pub(crate) tag: Option<String>,
    pub(crate) digest: Option<String>,
}

impl Reference {
    /// Parses a reference as tools write it; nothing when the text is another name (a path of an archive, a title).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest_of(digest)?)),
            None => (text, None),
        };
        let last = name.rfind('/').map_or(0, |slash| slash + 1);
        let (path, tag) = match name.get(last..)?.split_once(':') {
            Some((leaf, tag)) => (name.get(..last + leaf.len())?, Some(tag)),
            None => (name, None),
        };
        if digest_of(name).is_some() || tag.is_some_and(|tag| !is_tag(tag)) {
            return None;
        }
        let (registry, repository) = match path.split_once('/') {
            Some((host, rest)) if is_host(host) => (Some(host.to_owned()), rest),
            _ => (None, path),
        };
        is_repository(repository).then(|| Self {
            registry,
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest,
        })
    }
}

/// The text when it is a digest of the kind that names images here.
pub(crate) fn digest_of(text: &str) -> Option<String> {
    let hex = text.strip_prefix("sha256:")?;
    let valid = hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    valid.then(|| text.to_owned())
}

fn is_tag(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=128).contains(&text.len()) && text.bytes().all(plain)
}

/// The first segment is a host when it could be no part of a repository: a dot, a port, or the local host.
fn is_host(segment: &str) -> bool {
    let (host, port) = segment.split_once(':').map_or((segment, None), |(host, port)| (host, Some(port)));
    let named = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
    let port_is_number = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    named && port_is_number && (host.contains('.') || port.is_some() || host == "localhost")
}

fn is_repository(path: &str) -> bool {
    let plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    let archive = [".tar", ".tar.gz", ".tgz"].iter().any(|end| path.ends_with(end));
    path.len() <= REPOSITORY_BYTES_MAX
        && !archive
        && path
            .split('/')
            .all(|segment| segment.starts_with(|c: char| c.is_ascii_alphanumeric()) && segment.bytes().all(plain))
}

/// What the purl of an image says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImagePurl {
    pub(crate) digest: Option<String>,
    pub(crate) tag: Option<String>,
    /// From the `repository_url` qualifier, which is the location as written.
    pub(crate) location: Option<Reference>,
    /// From the purl's own path, which of `oci` purls is the last segment of the repository, by rule.
    pub(crate) path: Option<Reference>,
}

impl ImagePurl {
    /// Reads a purl of type `oci` or `docker`; nothing when it has another type.
    pub(crate) fn parse(purl: &str) -> Option<Self> {
        let (scheme, rest) = purl.split_once(':')?;
        let (kind, rest) = rest.trim_start_matches('/').split_once('/')?;
        let docker = kind.eq_ignore_ascii_case("docker");
        if !scheme.eq_ignore_ascii_case("pkg") || !(docker || kind.eq_ignore_ascii_case("oci")) {
            return None;
        }
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (rest, qualifiers) = rest.split_once('?').unwrap_or((rest, ""));
        let (path, version) = match rest.split_once('@') {
            Some((path, version)) => (path, Some(decode(version))),
            None => (rest, None),
        };
        let path = Reference::parse(&decode(path));
        let mut found = Self { digest: version.as_deref().and_then(digest_of), path, ..Self::default() };
        if docker && found.digest.is_none() {
            found.tag = version.filter(|version| is_tag(version));
        }
        for (name, value) in qualifiers.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = decode(value);
            match name {
                "tag" if is_tag(&value) => found.tag = Some(value),
                "repository_url" => found.location = location(&value, found.path.as_ref()),
                _ => {}
            }
        }
        Some(found)
    }
}

/// A `repository_url`: the whole location for `oci`, the host alone for `docker`.
fn location(url: &str, path: Option<&Reference>) -> Option<Reference> {
    let url = url.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    if is_host(url) {
        return path.map(|path| Reference { registry: Some(url.to_owned()), ..path.clone() });
    }
    Reference::parse(url)
}

/// Percent-decoding; a broken escape stays as it is.
fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%'
            && let Some((hex, after)) = tail.split_at_checked(2)
            && let Some(byte) = std::str::from_utf8(hex).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok())
        {
            out.push(byte);
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "67211c14fa74f070d27cc59d69a7fa9aeff8e28ea118ef3babc295a0428a6d21";

    fn check(text: &str, registry: Option<&str>, repository: &str, tag: Option<&str>, digest: bool) {
        let found = Reference::parse(text).unwrap_or_else(|| panic!("{text} is a reference"));
        assert_eq!(found.registry.as_deref(), registry, "registry of {text}");
        assert_eq!(found.repository, repository, "repository of {text}");
        assert_eq!(found.tag.as_deref(), tag, "tag of {text}");
        assert_eq!(found.digest, digest.then(|| format!("sha256:{HEX}")), "digest of {text}");
    }

    #[test]
    fn references_are_taken_apart() {
        check("ubuntu", None, "ubuntu", None, false);
        check("ubuntu:22.04", None, "ubuntu", Some("22.04"), false);
        check("docker.io/library/alpine:latest", Some("docker.io"), "library/alpine", Some("latest"), false);
        check("localhost:5001/demo-2023:app", Some("localhost:5001"), "demo-2023", Some("app"), false);
        check("localhost/demo", Some("localhost"), "demo", None, false);
        check(&format!("shop/cart:1@sha256:{HEX}"), None, "shop/cart", Some("1"), true);
        check("registry.example.com/a/b_c/d.e", Some("registry.example.com"), "a/b_c/d.e", None, false);
    }

    #[test]
    fn other_names_are_no_references() {
        let digest = format!("sha256:{HEX}");
        for text in [
            "",
            "/test",
            "C:/Users/x",
            "Red Hat Build",
            "a//b",
            "fixtures/images/centos-7.tar.gz",
            "x.tar",
            "name:",
            "name@sha256:12",
            "registry:archive/x",
            &digest,
            "a/b:c:d",
            "Ubuntu",
        ] {
            assert_eq!(Reference::parse(text), None, "{text}");
        }
    }

    #[test]
    fn image_purls_tell_digest_tag_and_location() {
        let full = ImagePurl::parse(&format!(
            "pkg:oci/ubi9@sha256%3A{HEX}?arch=amd64&repository_url=registry.example.com%2Fubi9%2Fubi&tag=9.4"
        ))
        .unwrap();
        assert_eq!(full.digest, Some(format!("sha256:{HEX}")));
        assert_eq!(full.tag.as_deref(), Some("9.4"));
        assert_eq!(full.location, Reference::parse("registry.example.com/ubi9/ubi"));
        assert_eq!(full.path, Reference::parse("ubi9"));

        let docker = ImagePurl::parse("pkg:docker/shop/cart@1.2?repository_url=https://gcr.io/").unwrap();
        assert_eq!(docker.tag.as_deref(), Some("1.2"));
        assert_eq!(docker.location, Reference::parse("gcr.io/shop/cart"));
        assert_eq!(ImagePurl::parse("pkg:npm/left-pad@1"), None);
        assert_eq!(ImagePurl::parse("oci"), None);
    }

    #[test]
    fn broken_escapes_stay() {
        for (input, expected) in [("a%2Fb", "a/b"), ("%", "%"), ("%2", "%2"), ("%zz", "%zz"), ("é%C3%A9", "éé")] {
            assert_eq!(decode(input), expected);
        }
    }
}
