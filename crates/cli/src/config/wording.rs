//! What serde says of a value, in words of people who write configurations.

/// The nearest of some names, when one is near enough to be meant. Case does not count.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let distant = known.map(|known| (strsim::osa_distance(&name, &known.to_ascii_lowercase()), known));
    let (distance, known) = distant.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + name.len() / 5).then_some(known)
}

/// A sentence without types of the program.
pub fn plain(said: &str) -> String {
    if let Some(unknown) = said.strip_prefix("unknown field `") {
        return unknown_key(unknown).unwrap_or_else(|| said.to_owned());
    }
    let Some((found, expected)) = said.rsplit_once(", expected ") else { return said.to_owned() };
    let found = found.trim_start_matches("invalid type: ").trim_start_matches("invalid value: ");
    let found = found.replace("unit value", "nothing").replace("integer ", "").replace("sequence", "a list");
    let wanted = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative and not too large",
        "a boolean" => "`true` or `false`",
        "a string" => "a text; quotes make one of anything",
        other if other.starts_with("struct ") => "keys with values, as in docs/reference/configuration.md",
        other => other,
    };
    format!("found {}, wanted {wanted}", found.replace("map", "keys with values"))
}

/// After `unknown field \``: "x`, expected one of `a`, `b`", or "expected `a`".
fn unknown_key(rest: &str) -> Option<String> {
    let (name, rest) = rest.split_once('`')?;
    // Of the pieces between the quotes, every second one is a name.
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let way_out = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    Some(format!("there is no such key; {way_out}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_is_put_in_words() {
        for (said, told) in [
            (
                "unknown field `lstien`, expected one of `listen`, `dataDir`",
                "there is no such key; did you mean `listen`?",
            ),
            (
                "unknown field `colour`, expected one of `listen`, `dataDir`",
                "there is no such key; there are listen, dataDir",
            ),
            ("unknown field `foo`, expected `scheduler`", "there is no such key; there are scheduler"),
            (
                "invalid type: string \"many\", expected u32",
                "found string \"many\", wanted a whole number, not negative and not too large",
            ),
            (
                "invalid value: integer `-3`, expected u32",
                "found `-3`, wanted a whole number, not negative and not too large",
            ),
            (
                "invalid type: unit value, expected a string",
                "found nothing, wanted a text; quotes make one of anything",
            ),
            ("invalid type: map, expected a boolean", "found keys with values, wanted `true` or `false`"),
            ("something else", "something else"),
        ] {
            assert_eq!(plain(said), told);
        }
    }

    #[test]
    fn near_names_are_meant_and_distant_ones_are_not() {
        let known = ["listen", "dataDir", "maxJobsPerRun"];
        for (name, meant) in [
            ("listne", Some("listen")),
            ("DATADIR", Some("dataDir")),
            ("maxJobPerRuns", Some("maxJobsPerRun")),
            ("debug", None),
            ("port", None),
        ] {
            assert_eq!(nearest(name, known.into_iter()), meant, "{name}");
        }
    }
}
