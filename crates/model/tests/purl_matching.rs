//! The matching rules, as a table.

use scheduler_model::purl::{Component, MatchName, ProductKey, Purl, Source};

fn component(raw: &str, recorded: Option<(&str, Option<&str>)>) -> Component {
    let purl = Purl::parse_lenient(raw).unwrap_or_else(|error| panic!("{raw}: {error}")).purl;
    let source = |(name, version): (&str, Option<&str>)| Source { name: name.into(), version: version.map(Into::into) };
    Component::from_purl(&purl, recorded.map(source).as_ref())
}

fn key(raw: &str) -> ProductKey {
    ProductKey::parse(raw).unwrap_or_else(|error| panic!("{raw}: {error}")).0
}

/// Of all `keys`, those in `matching` select the component and the others do not.
fn check(component: &Component, matching: &[&str], others: &[&str]) {
    for raw in matching {
        assert!(key(raw).matches(component), "{raw} selects {component:?}");
    }
    for raw in others {
        assert!(!key(raw).matches(component), "{raw} does not select {component:?}");
    }
}

#[test]
fn type_namespace_and_name_select_and_qualifiers_and_subpath_do_not_narrow() {
    for (purl, matching, others) in [
        (
            "pkg:deb/debian/curl@7.88.1-10?arch=amd64&distro=debian-12",
            &[
                "pkg:deb/debian/curl",
                "pkg:deb/curl",
                "pkg:deb/Debian/Curl@7.88.1-10",
                "pkg:deb/debian/curl?arch=s390x",
                "pkg:deb/debian/curl@7.88.1-10?distro=debian-11#usr/bin",
                "pkg:deb/debian/curl?epoch=3",
            ][..],
            &[
                "pkg:deb/ubuntu/curl",
                "pkg:rpm/curl",
                "pkg:generic/curl",
                "pkg:deb/debian/curl@7.88.1",
                "pkg:deb/debian/curl@7.88.1-10?epoch=1",
                "pkg:deb/debian/curl-dev",
            ][..],
        ),
        ("pkg:deb/zlib@1", &["pkg:deb/zlib"], &["pkg:deb/debian/zlib"]),
        (
            "pkg:apk/wolfi/zlib@1",
            &["pkg:apk/zlib", "pkg:apk/wolfi/zlib@1"],
            &["pkg:apk/alpine/zlib", "pkg:alpine/zlib"],
        ),
        ("pkg:rpm/redhat/Zlib@1", &["pkg:rpm/Zlib", "pkg:rpm/RedHat/Zlib"], &["pkg:rpm/zlib"]),
        (
            "pkg:npm/%40acme/zlib@1",
            &["pkg:npm/%40acme/zlib", "pkg:npm/@acme/zlib@1"],
            &["pkg:npm/zlib", "pkg:npm/acme/zlib"],
        ),
        ("pkg:npm/zlib@1", &["pkg:npm/zlib"], &["pkg:npm/%40acme/zlib", "pkg:npm/Zlib"]),
        ("pkg:npm/left-pad", &["pkg:npm/left-pad"], &["pkg:npm/left-pad@1"]),
        (
            "pkg:maven/org.Example/Core@1.0",
            &["pkg:maven/org.Example/Core"],
            &["pkg:maven/org.example/core", "pkg:maven/Core"],
        ),
        (
            "pkg:golang/github.com/Azure/x@v1",
            &["pkg:golang/github.com/Azure/x"],
            &["pkg:golang/github.com/azure/x", "pkg:golang/x"],
        ),
        (
            "pkg:pypi/Flask_SQLAlchemy@3.0.5",
            &["pkg:pypi/flask-sqlalchemy", "pkg:PyPI/FLASK.SQLALCHEMY@3.0.5"],
            &["pkg:pypi/flask"],
        ),
        (
            "pkg:github/Package-URL/PURL-Spec@244fd47",
            &["pkg:GitHub/PACKAGE-URL/purl-spec@244fd47"],
            &["pkg:github/package-url/purl-spec@244FD47"],
        ),
        (
            "pkg:deb/debian/libfoo@1.0%2Bdfsg-1~bpo1",
            &["pkg:deb/debian/libfoo@1.0+dfsg-1%7Ebpo1"],
            &["pkg:deb/debian/libfoo@1.0%20dfsg-1~bpo1"],
        ),
    ] {
        check(&component(purl, None), matching, others);
    }
}

#[test]
fn an_epoch_is_the_same_in_every_spelling() {
    let with = [
        "pkg:rpm/rhel/bind@32:9.16-1",
        "pkg:rpm/rhel/bind@9.16-1?epoch=32",
        "pkg:rpm/rhel/bind@32%3A9.16-1?epoch=32",
        "pkg:rpm/rhel/bind@032:9.16-1",
    ];
    let without = [
        "pkg:rpm/rhel/bind@9.16-1",
        "pkg:rpm/rhel/bind@0:9.16-1",
        "pkg:rpm/rhel/bind@9.16-1?epoch=0",
        "pkg:rpm/rhel/bind@9.16-1?epoch=(none)",
    ];
    for purl in &with {
        check(&component(purl, None), &with, &without);
    }
    for purl in &without {
        check(&component(purl, None), &without, &with);
    }
    for (purl, version) in [
        ("pkg:deb/debian/a@1:2", "1:2"),
        ("pkg:deb/debian/a@2?epoch=1", "1:2"),
        ("pkg:deb/debian/a@1:2?epoch=3", "1:2"),
        ("pkg:deb/debian/a@0:1:2", "0:1:2"),
        ("pkg:deb/debian/a@00:1:2", "0:1:2"),
        ("pkg:deb/debian/a@1:", "1:"),
        ("pkg:deb/debian/a@x:2", "x:2"),
        ("pkg:apk/alpine/a@1?epoch=1", "1"),
        ("pkg:npm/bind@9.16.0?epoch=32", "9.16.0"),
        ("pkg:npm/bind@0:9.16.0", "0:9.16.0"),
    ] {
        assert_eq!(component(purl, None).version(), Some(version), "{purl}");
    }
    assert_eq!(component("pkg:rpm/rhel/bind?epoch=1", None).version(), None);
}

#[test]
fn the_old_type_of_alpine_is_apk() {
    let (old, new) =
        (component("pkg:alpine/musl@1.2.4-r2?arch=x86_64", None), component("pkg:apk/alpine/musl@1.2.4-r2", None));
    assert_eq!(old, new);
    let matching = ["pkg:alpine/musl", "pkg:alpine/MUSL@1.2.4-r2", "pkg:apk/alpine/musl", "pkg:apk/musl@1.2.4-r2"];
    check(&old, &matching, &["pkg:alpine/zlib", "pkg:apk/wolfi/musl", "pkg:alpine/musl@1"]);
    let source = component("pkg:alpine/libcrypto3@3.1-r0?upstream=openssl", None);
    check(&source, &["pkg:apk/openssl@3.1-r0", "pkg:alpine/openssl"], &["pkg:apk/wolfi/openssl"]);
    assert!(!key("pkg:alpine/musl").any_namespace());
}

#[test]
fn a_component_of_a_distribution_is_found_under_its_source() {
    for (purl, recorded, matching, others) in [
        (
            "pkg:deb/debian/libssl3@1:3.0-2?upstream=openssl",
            None,
            &["pkg:deb/openssl", "pkg:deb/debian/openssl@1:3.0-2", "pkg:deb/libssl3"][..],
            &["pkg:deb/ubuntu/openssl", "pkg:deb/openssl@3.0-2", "pkg:rpm/openssl"][..],
        ),
        (
            "pkg:deb/debian/libssl3@3.0-1%2Bb2?upstream=OpenSSL%400:3.0-1",
            None,
            &["pkg:deb/openssl@3.0-1", "pkg:deb/libssl3@3.0-1%2Bb2"],
            &["pkg:deb/openssl@3.0-1%2Bb2", "pkg:deb/libssl3@3.0-1"],
        ),
        (
            "pkg:rpm/fedora/gcc-c%2B%2B@14.1.1-4.fc40?upstream=gcc-toolset-14-14.1.1-4.fc40.src.rpm",
            None,
            &["pkg:rpm/gcc-toolset-14@14.1.1-4.fc40", "pkg:rpm/gcc-c++"],
            &["pkg:rpm/gcc-toolset", "pkg:rpm/gcc"],
        ),
        // A file name tells no epoch: the source's version is as it is recorded.
        (
            "pkg:rpm/rhel/openssl-libs@1.1-7?epoch=1&upstream=openssl-1.1-7.src.rpm",
            None,
            &["pkg:rpm/openssl@1.1-7", "pkg:rpm/openssl-libs@1:1.1-7"],
            &["pkg:rpm/openssl@1:1.1-7", "pkg:rpm/openssl-libs@1.1-7"],
        ),
        ("pkg:rpm/rhel/openssl-libs@1.1-7?upstream=openssl", None, &["pkg:rpm/openssl@1.1-7"], &["pkg:rpm/openssl@1"]),
        ("pkg:rpm/rhel/a@1?upstream=b@2", None, &["pkg:rpm/b@2"], &["pkg:rpm/b@1"]),
        ("pkg:deb/debian/a@1?upstream=b-1-1.src.rpm", None, &["pkg:deb/b-1-1.src.rpm"], &["pkg:deb/b"]),
        ("pkg:deb/debian/a@1", Some(("b", None)), &["pkg:deb/b@1"], &["pkg:deb/b@2"]),
        ("pkg:deb/debian/a@1", Some(("B", Some("0:2"))), &["pkg:deb/b@2"], &["pkg:deb/b@1"]),
        ("pkg:deb/debian/a@1", Some(("", Some("2"))), &["pkg:deb/a@1"], &["pkg:deb/a@2"]),
        ("pkg:deb/debian/a@1", Some(("b", Some(""))), &["pkg:deb/b@1"], &[]),
        // The qualifier names the source; the version is that of whoever has it for this name.
        ("pkg:deb/debian/a@1?upstream=b", Some(("b", Some("2"))), &["pkg:deb/b@2"], &["pkg:deb/b@1"]),
        ("pkg:deb/debian/a@1?upstream=b%403", Some(("b", Some("2"))), &["pkg:deb/b@3"], &["pkg:deb/b@2"]),
        ("pkg:deb/debian/a@1?upstream=b", Some(("c", Some("2"))), &["pkg:deb/b@1"], &["pkg:deb/c", "pkg:deb/b@2"]),
        ("pkg:rpm/rhel/a@1?upstream=unreadable.src.rpm", Some(("b", None)), &["pkg:rpm/b"], &["pkg:rpm/unreadable"]),
        // One name, two versions: both are findable.
        ("pkg:deb/debian/a@1%2Bb1?upstream=a%401", None, &["pkg:deb/a@1", "pkg:deb/a@1%2Bb1"], &["pkg:deb/a@2"]),
        ("pkg:npm/wrapper@1?upstream=openssl", Some(("openssl", None)), &["pkg:npm/wrapper"], &["pkg:npm/openssl"]),
    ] {
        check(&component(purl, recorded), matching, others);
    }
}

#[test]
fn a_source_that_is_the_component_itself_is_not_kept() {
    for (purl, recorded) in [
        ("pkg:deb/debian/a@1?upstream=a", None),
        ("pkg:deb/debian/a@1?upstream=A%400:1", None),
        ("pkg:deb/debian/a@1", Some(("a", Some("1")))),
        ("pkg:rpm/rhel/a@1-2?upstream=a-1-2.src.rpm", None),
        ("pkg:deb/debian/a?upstream=a", None),
    ] {
        assert_eq!(component(purl, recorded).source(), None, "{purl}");
    }
}

#[test]
fn a_component_has_a_name_of_its_own_and_one_of_its_source() {
    let name = |name| MatchName { ty: "deb", namespace: Some("debian"), name };
    let found = component("pkg:deb/debian/a@1?upstream=b", None);
    assert_eq!(found.names().collect::<Vec<_>>(), [(name("a"), Some("1")), (name("b"), Some("1"))]);
    let found = component("pkg:deb/debian/a@1?upstream=a%402", None);
    assert_eq!(found.names().collect::<Vec<_>>(), [(name("a"), Some("1")), (name("a"), Some("2"))]);
    assert_eq!(key("pkg:deb/debian/a").match_name(), name("a"));
}

#[test]
fn a_key_is_reported_in_match_form_and_keeps_its_purl() {
    for (raw, reported) in [
        ("pkg:alpine/musl?arch=x86_64", "pkg:apk/alpine/musl"),
        ("pkg:rpm/rhel/bind@9.16-1?epoch=32#x", "pkg:rpm/rhel/bind@32:9.16-1"),
        ("pkg:npm/@scope/x@1+2", "pkg:npm/%40scope/x@1%2B2"),
        ("pkg:git/host/a/b@1", "pkg:git/host/a/b@1"),
        ("pkg:deb/openssl", "pkg:deb/openssl"),
    ] {
        assert_eq!(key(raw).to_string(), reported);
    }
    let image = key("pkg:oci/cart@sha256%3Aab?repository_url=registry.example.com%2Fshop%2Fcart&tag=1");
    assert_eq!(image.purl().qualifier("repository_url"), Some("registry.example.com/shop/cart"));
    assert_eq!((image.match_name().ty, image.match_name().name, image.version()), ("oci", "cart", Some("sha256:ab")));
    assert_eq!(ProductKey::from(image.purl().clone()), image);
}
