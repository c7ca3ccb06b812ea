//! What intake accepts, what it mends, and what it refuses. Names with a number are public defects of others.

use scheduler_model::purl::{Component, Mend, ProductKey, Purl, PurlError};

/// `raw` is read as `canonical`, with just these mends; the strict parser accepts it when there are none.
fn check(raw: &str, canonical: &str, mends: &[Mend]) {
    let parsed = Purl::parse_lenient(raw).unwrap_or_else(|error| panic!("{raw}: {error}"));
    assert_eq!(parsed.purl.as_str(), canonical, "{raw}");
    assert_eq!(parsed.mended.iter().collect::<Vec<_>>(), mends, "{raw}");
    assert_eq!(Purl::parse_strict(raw).is_ok(), mends.is_empty(), "{raw}");
}

fn same_key(left: &str, right: &str) -> bool {
    let key = |raw: &str| ProductKey::parse(raw).unwrap_or_else(|error| panic!("{raw}: {error}")).0.to_string();
    key(left) == key(right)
}

#[test]
fn intake_mends_what_can_be_understood() {
    use Mend::*;
    for (raw, canonical, mends) in [
        ("pkg:rpm/openssl", "pkg:rpm/openssl", &[MissingNamespace][..]),
        ("pkg:deb/openssl@1.0", "pkg:deb/openssl@1.0", &[MissingNamespace]),
        ("pkg:maven/junit@4", "pkg:maven/junit@4", &[MissingNamespace]),
        ("pkg:golang/stdlib", "pkg:golang/stdlib", &[MissingNamespace]),
        ("pkg:golang/main@(devel)", "pkg:golang/main@%28devel%29", &[MissingNamespace]),
        ("pkg:golang/./sdk", "pkg:golang/./sdk", &[]),
        ("pkg:golang/../server@v1", "pkg:golang/../server@v1", &[]),
        ("pkg:npm/@scope/x", "pkg:npm/%40scope/x", &[UnescapedCharacter]),
        ("pkg:npm/@scope/x@1.0", "pkg:npm/%40scope/x@1.0", &[UnescapedCharacter]),
        ("pkg:npm/%40scope%2Fx@1.0", "pkg:npm/%40scope/x@1.0", &[EncodedSlash]),
        ("pkg:golang/github.com%2Fa%2Fb@v1", "pkg:golang/github.com/a/b@v1", &[EncodedSlash]),
        ("pkg:generic/a%2Fb/c", "pkg:generic/a/b/c", &[EncodedSlash]),
        ("pkg:generic/a%2Fb", "pkg:generic/a%2Fb", &[]),
        ("pkg:git/host/a%2Fb", "pkg:git/host/a/b", &[]),
        ("pkg:git/host%2Fa/b", "pkg:git/host/a/b", &[EncodedSlash]),
        ("pkg:rpm/redhat/bind@4:1.9725-3.el7", "pkg:rpm/redhat/bind@4:1.9725-3.el7", &[]),
        ("pkg:deb/debian/libfoo@1.0+dfsg-1", "pkg:deb/debian/libfoo@1.0%2Bdfsg-1", &[]),
        ("pkg:GEM/a?Platform=java", "pkg:gem/a?platform=java", &[QualifierCase]),
        ("pkg://npm/a", "pkg:npm/a", &[]),
        ("PKG:NPM/a", "pkg:npm/a", &[]),
        (" pkg:npm/a\n", "pkg:npm/a", &[SurroundingSpace]),
        ("pkg:npm/a b", "pkg:npm/a%20b", &[UnescapedCharacter]),
        ("pkg:npm/ä", "pkg:npm/%C3%A4", &[UnescapedCharacter]),
        ("pkg:npm/a@100%", "pkg:npm/a@100%25", &[UnescapedCharacter]),
        ("pkg:npm/a@", "pkg:npm/a", &[]),
        ("pkg:npm/a/", "pkg:npm/a", &[]),
        ("pkg:npm//a//b", "pkg:npm/a/b", &[]),
        ("pkg:npm/a?", "pkg:npm/a", &[]),
        ("pkg:npm/a?&arch=&os", "pkg:npm/a", &[]),
        ("pkg:npm/a?b=2&a=1", "pkg:npm/a?a=1&b=2", &[]),
        ("pkg:npm/a?a=1&a=1", "pkg:npm/a?a=1", &[QualifierRepeated]),
        ("pkg:npm/a?A=1&a=1", "pkg:npm/a?a=1", &[QualifierCase, QualifierRepeated]),
        ("pkg:npm/a?in%20use=1&b=2", "pkg:npm/a?b=2", &[QualifierDropped]),
        ("pkg:npm/a?u=x?y=z", "pkg:npm/a?u=x%3Fy%3Dz", &[UnescapedCharacter]),
        ("pkg:npm/a#b#c", "pkg:npm/a#b%23c", &[UnescapedCharacter]),
        ("pkg:npm/a#./b//../c/", "pkg:npm/a#b/c", &[]),
        ("pkg:pypi/space/name", "pkg:pypi/space/name", &[ForbiddenNamespace]),
        ("pkg:cpan/A::B", "pkg:cpan/A::B", &[TypeRule]),
        ("pkg:swid/a", "pkg:swid/a", &[TypeRule]),
        ("pkg:chrome-extension/dogs", "pkg:chrome-extension/dogs", &[TypeRule]),
        ("pkg:brew/node@20@20.10.0", "pkg:brew/node%4020@20.10.0", &[UnescapedCharacter]),
        ("pkg:github/a/b@refs/heads/main", "pkg:github/a/b@refs%2Fheads%2Fmain", &[]),
        ("pkg:pub/My-Package", "pkg:pub/my_package", &[]),
        ("pkg:oci/Debian@sha256%3Aab", "pkg:oci/debian@sha256:ab", &[]),
    ] {
        check(raw, canonical, mends);
    }
}

#[test]
fn what_is_no_purl_is_refused_with_its_reason() {
    use PurlError::*;
    let duplicate = || DuplicateQualifier { key: "a".to_owned() };
    for (raw, error) in [
        ("", MissingScheme),
        ("not a purl", MissingScheme),
        ("npm/a", MissingScheme),
        ("pkg%3Anpm/a", MissingScheme),
        ("pkg:", MissingType),
        ("pkg:///", MissingType),
        ("pkg:npm", MissingName),
        ("pkg:npm/", MissingName),
        ("pkg:/nothing@1", MissingName),
        ("pkg:maven/", MissingName),
        ("pkg:maven/@1.3.4", MissingName),
        ("pkg:maven/org.example/@1.0", MissingName),
        ("pkg:golang/@%28devel%29", MissingName),
        ("pkg:npm/a%2F", MissingName),
        ("pkg:git/%2F", MissingName),
        ("pkg:3nginx/a", BadType),
        ("pkg:n&g/a", BadType),
        ("pkg:n%20/a", BadType),
        ("pkg:npm/a%FF", NotUtf8),
        ("pkg:npm/a%00", ControlCharacter),
        ("pkg:npm/a\tb", ControlCharacter),
        ("pkg:npm/a?a=1&a=2", duplicate()),
        ("pkg:npm/a?a=1&A=2", duplicate()),
    ] {
        assert_eq!(Purl::parse_lenient(raw), Err(error), "{raw:?}");
        assert!(Purl::parse_strict(raw).is_err(), "{raw:?}");
    }
    assert_eq!(Purl::parse_strict("pkg:npm/a?a=1&a=1"), Err(duplicate()));
    assert_eq!(duplicate().to_string(), "purl qualifier a occurs more than once");
}

#[test]
fn a_purl_is_as_long_as_the_limit_and_no_longer() {
    let longest = format!("pkg:npm/{}", "a".repeat(Purl::LEN_MAX - 8));
    assert!(Purl::parse_strict(&longest).is_ok());
    let len = Purl::LEN_MAX + 1;
    assert_eq!(Purl::parse_lenient(&format!("{longest}a")), Err(PurlError::TooLong { len }));
    // The limit holds in canonical form too, else a purl could not be read back.
    let swelling = format!("pkg:npm/{}", "+".repeat(Purl::LEN_MAX - 8));
    assert_eq!(Purl::parse_strict(&swelling), Err(PurlError::TooLong { len: 8 + 3 * (Purl::LEN_MAX - 8) }));
}

#[test]
fn every_purl_that_was_taken_is_read_back_from_json() {
    for raw in ["pkg:deb/openssl", "pkg:npm/@scope/x", "pkg:pypi/a/b"] {
        let purl = Purl::parse_lenient(raw).unwrap().purl;
        let json = serde_json::to_string(&purl).unwrap();
        assert_eq!(json, format!("\"{purl}\""));
        assert_eq!(serde_json::from_str::<Purl>(&json).unwrap(), purl);
    }
    let error = serde_json::from_str::<Purl>("\"npm/a\"").unwrap_err();
    assert!(error.to_string().starts_with("purl does not begin with `pkg:`"), "{error}");
}

#[test]
fn purl_01_a_valid_purl_in_another_encoding_is_one_key() {
    check("pkg:t/n@1%3A2", "pkg:t/n@1:2", &[]);
    check("pkg:maven/a@2+3", "pkg:maven/a@2%2B3", &[Mend::MissingNamespace]);
    check("pkg:maven/a@2%2B3", "pkg:maven/a@2%2B3", &[Mend::MissingNamespace]);
    assert!(same_key("pkg:maven/a@2+3", "pkg:maven/a@2%2B3"));
}

#[test]
fn purl_02_a_plus_is_never_a_space() {
    check("pkg:t/n+s/na+me@ve+r?k=va+l#su+b", "pkg:t/n%2Bs/na%2Bme@ve%2Br?k=va%2Bl#su%2Bb", &[]);
    let purl = Purl::parse_strict("pkg:t/n+s/na+me@ve+r?k=va+l").unwrap();
    assert_eq!((purl.namespace(), purl.name(), purl.version()), (Some("n+s"), "na+me", Some("ve+r")));
    assert_eq!(purl.qualifier("k"), Some("va+l"));
    check("pkg:t/n%20s", "pkg:t/n%20s", &[]);
}

#[test]
fn purl_04_a_qualifier_key_in_upper_case_is_taken_at_intake_and_counted() {
    let raw = "pkg:gem/jruby-launcher@1.1.2?Platform=java";
    check(raw, "pkg:gem/jruby-launcher@1.1.2?platform=java", &[Mend::QualifierCase]);
    assert_eq!(Purl::parse_strict(raw), Err(PurlError::BadQualifierKey));
}

#[test]
fn purl_06_a_scope_is_no_version() {
    check("pkg:npm/@babel/core#lib", "pkg:npm/%40babel/core#lib", &[Mend::UnescapedCharacter]);
    let purl = Purl::parse_lenient("pkg:npm/@babel/core#lib").unwrap().purl;
    assert_eq!((purl.namespace(), purl.name(), purl.version()), (Some("@babel"), "core", None));
    assert_eq!(purl.subpath(), Some("lib"));
}

#[test]
fn purl_07_case_is_folded_where_the_type_says_so_and_nowhere_else() {
    assert!(same_key("pkg:github/Foo/Bar", "pkg:github/foo/bar"));
    assert!(same_key("pkg:pypi/Django", "pkg:pypi/django"));
    assert!(!same_key("pkg:maven/org.Foo/Bar", "pkg:maven/org.foo/bar"));
}

#[test]
fn purl_08_the_spellings_of_a_python_name_are_one_key() {
    assert!(same_key("pkg:pypi/PyYAML", "pkg:pypi/pyyaml"));
    for spelling in ["my_pkg", "my.pkg", "My--Pkg", "my-pkg", "my-_.pkg"] {
        assert!(same_key(&format!("pkg:pypi/{spelling}"), "pkg:pypi/my-pkg"), "{spelling}");
    }
    // The canonical form stays the specification's.
    check("pkg:pypi/My_Pkg.x", "pkg:pypi/my-pkg.x", &[]);
    assert!(!same_key("pkg:npm/my_pkg", "pkg:npm/my-pkg"));
}

#[test]
fn purl_11_components_that_differ_in_a_qualifier_are_two_purls_and_one_index_entry() {
    let purl = |distro| Purl::parse_strict(&format!("pkg:apk/alpine/musl@1.2.3-r0?distro=alpine-{distro}")).unwrap();
    let (older, newer) = (purl("3.16.1"), purl("3.16.2"));
    assert_ne!(older, newer);
    assert_eq!(Component::from_purl(&older, None), Component::from_purl(&newer, None));
}

#[test]
fn purl_13_an_unknown_type_is_opaque_and_merged_with_none() {
    check("pkg:uv/My_Pkg@1.0", "pkg:uv/My_Pkg@1.0", &[]);
    assert!(!same_key("pkg:uv/requests", "pkg:pypi/requests"));
    let component = Component::from_purl(&Purl::parse_strict("pkg:uv/requests@1").unwrap(), None);
    assert!(!ProductKey::parse("pkg:pypi/requests").unwrap().0.matches(&component));
}

#[test]
fn purl_14_a_version_is_epoch_version_and_release_in_full() {
    let purl = Purl::parse_strict("pkg:rpm/almalinux/xz@5.2.5-8.el9_0?arch=x86_64").unwrap();
    let component = Component::from_purl(&purl, None);
    assert_eq!(component.version(), Some("5.2.5-8.el9_0"));
    assert!(!ProductKey::parse("pkg:rpm/almalinux/xz@5.2.5").unwrap().0.matches(&component));
    let (key, _) = ProductKey::parse("pkg:rpm/almalinux/xz@5.2.5-8.el9_0?epoch=2").unwrap();
    assert_eq!(key.version(), Some("2:5.2.5-8.el9_0"));
}
