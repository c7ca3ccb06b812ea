/// A version of Composer: one to four numbers and a stability. Branches (`dev-main`, `1.x-dev`) have no order here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Composer {
    numbers: [u64; 4],
    stability: Stability,
    /// The number of the pre-release or patch; none comes before zero.
    count: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Rc,
    Stable,
    Patch,
}

impl Composer {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let text = text.split_once('+').map_or(text.as_str(), |(version, _)| version);
        let text = text.strip_prefix('v').unwrap_or(text);
        let core_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (core, suffix) = text.split_at_checked(core_end)?;
        // `1.0.beta2` and `1.0-beta2` are one.
        let core = if suffix.is_empty() { core } else { core.strip_suffix('.').unwrap_or(core) };
        let mut numbers = [0; 4];
        let mut places = numbers.iter_mut();
        for part in core.split('.') {
            *places.next()? = part.parse().ok()?;
        }
        let suffix = suffix.strip_prefix(['-', '_']).unwrap_or(suffix);
        let word_end = suffix.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(suffix.len());
        let (word, count) = suffix.split_at_checked(word_end)?;
        let count = count.strip_prefix(['.', '-']).unwrap_or(count);
        let stability = match word {
            "alpha" | "a" => Stability::Alpha,
            "beta" | "b" => Stability::Beta,
            "rc" => Stability::Rc,
            "" | "stable" if count.is_empty() => Stability::Stable,
            "patch" | "pl" | "p" => Stability::Patch,
            _ => return None,
        };
        let is_number = count.bytes().all(|b| b.is_ascii_digit());
        let count = if count.is_empty() { None } else { Some(count.parse().ok().filter(|_| is_number)?) };
        Some(Self { numbers, stability, count })
    }
}
