use rpm_version::Evr;
use std::cmp::Ordering;

/// A version of RPM: `1:2.3~rc1-4.el9`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rpm(Evr<'static>);

impl Rpm {
    /// Reads a version. RPM compares any text; here it has to look like a version.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (epoch, rest) = text.split_once(':').unwrap_or(("", text));
        let (version, release) = rest.split_once('-').unwrap_or((rest, ""));
        let is_plain = |part: &str| {
            part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'+' | b'~' | b'^'))
        };
        let is_epoch = epoch.bytes().all(|b| b.is_ascii_digit()) && (!epoch.is_empty() || !text.contains(':'));
        let is_whole = !rest.ends_with('-') && version.bytes().any(|b| b.is_ascii_digit());
        let good = is_epoch && is_whole && is_plain(version) && is_plain(release);
        good.then(|| Self(Evr::new(epoch.to_owned(), version.to_owned(), release.to_owned())))
    }

    fn has_epoch(&self) -> bool {
        self.0.epoch().bytes().any(|b| b != b'0')
    }

    /// See [`crate::Version::sure_order`].
    pub(crate) fn sure_order(&self, bound: &Self) -> Option<Ordering> {
        if bound.has_epoch() && !self.has_epoch() {
            return None;
        }
        if self.0.release().is_empty() == bound.0.release().is_empty() {
            return Some(self.cmp(bound));
        }
        let without = |of: &Self| Self(Evr::new(of.0.epoch().to_owned(), of.0.version().to_owned(), String::new()));
        Some(without(self).cmp(&without(bound))).filter(|order| order.is_ne())
    }
}

impl Ord for Rpm {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Rpm {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
