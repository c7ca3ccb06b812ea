/// A semantic version with nothing missing; a `v` may stand before it.
pub(crate) fn strict(text: &str) -> Option<semver::Version> {
    semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

/// A version of Go: `v1.2.3+incompatible`, `v1.2`, and for the standard library `go1.21`.
pub(crate) fn golang(text: &str) -> Option<semver::Version> {
    let text = text.strip_prefix("go").unwrap_or(text);
    let text = text.strip_prefix('v').unwrap_or(text);
    let core = text.split(['-', '+']).next().unwrap_or_default();
    let missing = 2usize.checked_sub(core.matches('.').count())?;
    // What is shortened has no pre-release.
    if missing > 0 && core.len() < text.len() {
        return None;
    }
    semver::Version::parse(&format!("{core}{}{}", ".0".repeat(missing), text.strip_prefix(core)?)).ok()
}
