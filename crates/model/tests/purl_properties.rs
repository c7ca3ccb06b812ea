//! Laws of parsing and matching that hold for every input.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use scheduler_model::purl::{Component, ProductKey, Purl, Source};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Texts that are near a purl: pieces that mean something to the parser, in any order.
fn near_purl() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "[a-zA-Z0-9]{1,3}",
        "[ -~]",
        "%[0-9A-Fa-f]{2}",
        "\\PC",
        Just("/".to_owned()),
        Just("@".to_owned()),
        Just("%2F".to_owned()),
        Just("?k=".to_owned()),
        Just("&K=".to_owned()),
        Just("#".to_owned()),
        Just("..".to_owned()),
        Just("1:".to_owned()),
    ];
    (prop_oneof![Just("git"), Just("npm"), Just("Rpm"), Just("pypi"), Just("alpine"), Just("x")], vec(pieces, 0..12))
        .prop_map(|(ty, pieces)| format!("pkg:{ty}/{}", pieces.concat()))
}

/// From few values, so that keys and components meet.
fn distro_purl() -> impl Strategy<Value = String> {
    let ty = prop_oneof![Just("deb"), Just("rpm"), Just("apk"), Just("alpine"), Just("npm")];
    let version = option::of(prop_oneof![Just("@1-1"), Just("@0:1-1"), Just("@2:1-1")]);
    let qualifiers = option::of(prop_oneof![
        Just("?epoch=2"),
        Just("?upstream=a"),
        Just("?upstream=b%402:1-1"),
        Just("?epoch=0&upstream=b-1-1.src.rpm"),
    ]);
    (ty, option::of(prop_oneof![Just("alpine/"), Just("n/")]), "[ab]", version, qualifiers).prop_map(
        |(ty, namespace, name, version, qualifiers)| {
            let [namespace, version, qualifiers] = [namespace, version, qualifiers].map(Option::unwrap_or_default);
            format!("pkg:{ty}/{namespace}{name}{version}{qualifiers}")
        },
    )
}

fn parts(purl: &Purl) -> impl PartialEq + std::fmt::Debug {
    let own = |text: Option<&str>| text.map(str::to_owned);
    let qualifiers: Vec<_> = purl.qualifiers().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let (namespace, version, subpath) = (own(purl.namespace()), own(purl.version()), own(purl.subpath()));
    (purl.ty().to_owned(), namespace, purl.name().to_owned(), version, qualifiers, subpath)
}

fn laws(raw: &str) -> Result<(), TestCaseError> {
    let strict = Purl::parse_strict(raw);
    let Ok(lenient) = Purl::parse_lenient(raw) else {
        prop_assert!(strict.is_err(), "only the strict parser accepts it");
        return Ok(());
    };
    prop_assert_eq!(strict.is_ok(), lenient.mended.is_empty());
    if let Ok(strict) = &strict {
        prop_assert_eq!(strict, &lenient.purl);
        prop_assert_eq!(&Purl::parse_strict(strict.as_str()), &Ok(strict.clone()));
    }
    let purl = lenient.purl;
    let again = Purl::parse_lenient(purl.as_str());
    let again = again.map_err(|error| TestCaseError::fail(format!("{purl} is not read back: {error}")))?.purl;
    prop_assert_eq!(again.as_str(), purl.as_str());
    prop_assert_eq!(parts(&again), parts(&purl));
    let hash = |purl: &Purl| {
        let mut hasher = DefaultHasher::new();
        purl.hash(&mut hasher);
        hasher.finish()
    };
    prop_assert_eq!(hash(&again), hash(&purl));
    for source in [None, Some(("a", None)), Some(("A", Some("0:1")))] {
        let owned = source.map(|(name, version)| Source { name: name.into(), version: version.map(Into::into) });
        prop_assert_eq!(Component::parse(raw, source), Ok(Component::from_purl(&purl, owned.as_ref())));
    }
    let key = ProductKey::from(purl);
    let reread = ProductKey::parse(&key.to_string());
    let (reread, _) = reread.map_err(|error| TestCaseError::fail(format!("{key} is not read back: {error}")))?;
    prop_assert_eq!(reread.to_string(), key.to_string());
    prop_assert_eq!(reread.match_name(), key.match_name());
    prop_assert_eq!(reread.version(), key.version());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed_or_refused(raw in "\\PC*") {
        laws(&raw)?;
        laws(&format!("pkg:{raw}"))?;
    }

    #[test]
    fn a_canonical_purl_is_read_back_as_itself(raw in near_purl()) {
        laws(&raw)?;
    }

    #[test]
    fn a_key_selects_a_component_just_when_one_of_its_names_fits(key in distro_purl(), purl in distro_purl(), source in option::of(("[ab]", option::of("[12]")))) {
        let read = |raw: &str| Purl::parse_lenient(raw).map(|parsed| parsed.purl).map_err(|error| TestCaseError::fail(error.to_string()));
        let key = ProductKey::from(read(&key)?);
        let source = source.map(|(name, version)| Source { name, version });
        let component = Component::from_purl(&read(&purl)?, source.as_ref());
        let wanted = key.match_name();
        let found = component.names().any(|(name, version)| {
            let name_fits = (name.ty, name.name) == (wanted.ty, wanted.name);
            let namespace_fits = name.namespace == wanted.namespace || key.any_namespace();
            name_fits && namespace_fits && key.version().is_none_or(|wanted| Some(wanted) == version)
        });
        prop_assert_eq!(key.matches(&component), found);
    }

    #[test]
    fn a_component_read_at_once_is_that_of_its_purl(purl in distro_purl(), source in option::of(("[ab]?", option::of("(0:)?[12]?")))) {
        let recorded = source.as_ref().map(|(name, version)| (name.as_str(), version.as_deref()));
        let owned = source.clone().map(|(name, version)| Source { name, version });
        let parsed = Purl::parse_lenient(&purl).map_err(|error| TestCaseError::fail(error.to_string()))?.purl;
        prop_assert_eq!(Component::parse(&purl, recorded), Ok(Component::from_purl(&parsed, owned.as_ref())));
    }

    #[test]
    fn a_component_is_selected_by_its_own_purl(purl in distro_purl()) {
        let purl = Purl::parse_lenient(&purl).map_err(|error| TestCaseError::fail(error.to_string()))?.purl;
        let component = Component::from_purl(&purl, None);
        prop_assert!(ProductKey::from(purl).matches(&component));
    }
}
