use crate::changes::index_of;
use crate::run_keys::Mentions;
use proptest::prelude::*;
use scheduler_impact_index::{Query, QueryKey, Want};
use scheduler_model::{CatalogComponent, ChangedKey, Image, Priority, Selection, TenantId};
use scheduler_testkit::store::build;
use std::collections::BTreeSet;

/// Two names, one of them spelled in two ways: keys of their own that select the same.
const KEYS: [(&str, &str); 3] = [("pkg:npm/a", "a"), ("pkg:npm/a?spelled=otherwise", "a"), ("pkg:npm/b", "b")];

/// What a change says of versions.
#[derive(Debug, Clone, Copy)]
enum Says {
    /// From the first on, before the second.
    Range(u8, u8),
    /// Nothing.
    Nothing,
    /// Something that nobody understands.
    Nonsense,
}

impl Says {
    fn text(self) -> Vec<String> {
        match self {
            Self::Range(from, to) => vec![format!("vers:npm/>={from}.0.0|<{to}.0.0")],
            Self::Nothing => Vec::new(),
            Self::Nonsense => vec!["vers:npm/soon".to_owned()],
        }
    }

    fn may_mean(self, version: u8) -> bool {
        match self {
            Self::Range(from, to) => (from..to).contains(&version),
            Self::Nothing | Self::Nonsense => true,
        }
    }
}

/// A mention of a key, by its place in [`KEYS`].
type Mention = (usize, Says);

fn mention() -> impl Strategy<Value = Mention> {
    let range = (0_u8..8, 1_u8..4).prop_map(|(from, len)| Says::Range(from, from + len));
    (0..KEYS.len(), prop_oneof![6 => range, 1 => Just(Says::Nothing), 1 => Just(Says::Nonsense)])
}

fn image(number: usize, packages: &[(usize, u8)]) -> Image {
    let component = |(name, version): &(usize, u8)| {
        let purl = format!("pkg:npm/{}@{version}.0.0", ["a", "b"][*name]);
        CatalogComponent { purl, source: None }
    };
    Image { components: packages.iter().map(component).collect(), ..build::image(&tenant(), number) }
}

fn tenant() -> TenantId {
    "alpha".parse().unwrap()
}

/// The rule, mention by mention: a key counts for every version when one of its mentions speaks of any, else for those of its
/// ranges; an image is asked for when one of its packages counts for one key.
fn is_asked(packages: &[(usize, u8)], mentions: &[Mention], narrow: bool) -> bool {
    packages.iter().any(|(name, version)| {
        KEYS.iter().enumerate().any(|(key, (_, of_key))| {
            let mut says = mentions.iter().filter(|(at, _)| *at == key).map(|(_, says)| *says).peekable();
            *of_key == ["a", "b"][*name]
                && says.peek().is_some()
                && (!narrow || says.any(|says| says.may_mean(*version)))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p01_narrowing_leaves_out_what_no_change_of_any_key_speaks_of(
        images in prop::collection::vec(prop::collection::vec((0_usize..2, 0_u8..10), 0..4), 1..12),
        mentions in prop::collection::vec(mention(), 0..6),
        narrow in any::<bool>(),
    ) {
        let mut gathered = Mentions::default();
        for (key, says) in &mentions {
            let (key, _) = KEYS[*key];
            let affected = says.text();
            gathered.add(ChangedKey { key: key.to_owned(), priority: Priority::Normal, subcomponent: None, affected });
        }
        let keys: Vec<QueryKey> = gathered.keys(narrow).unwrap().into_iter().map(|(key, _)| key).collect();
        let catalog: Vec<Image> = images.iter().enumerate().map(|(number, packages)| image(number, packages)).collect();
        let digests: Vec<_> = catalog.iter().map(|image| image.digest.clone()).collect();
        let index = index_of(catalog).unwrap();
        let (tenant, selection) = (tenant(), Selection::default());
        let query = Query { tenant: &tenant, selection: &selection, keys: Some(&keys), usage_only: false };
        let found = index.resolve(&query, Want { digests: true, ..Want::default() });
        let asked: BTreeSet<_> = found.digests.iter().map(|image| image.digest.clone()).collect();
        let all = |narrow| images.iter().zip(&digests).filter(move |(packages, _)| is_asked(packages, &mentions, narrow));
        prop_assert_eq!(asked, all.clone()(narrow).map(|(_, digest)| digest.clone()).collect::<BTreeSet<_>>());
        prop_assert_eq!(found.candidates + found.narrowed_away, all(false).count() as u64);
    }
}

fn keys_of(mentions: &[(&str, &[&str], Priority)], narrow: bool) -> Vec<(String, bool, Priority)> {
    let mut gathered = Mentions::default();
    for (key, affected, priority) in mentions {
        let affected = affected.iter().map(|text| (*text).to_owned()).collect();
        gathered.add(ChangedKey { key: (*key).to_owned(), priority: *priority, subcomponent: None, affected });
    }
    let mut keys: Vec<_> = gathered
        .keys(narrow)
        .unwrap()
        .into_iter()
        .map(|(key, priority)| (key.key.purl().as_str().to_owned(), key.affected.is_some(), priority))
        .collect();
    keys.sort();
    keys
}

#[test]
fn a_key_is_narrowed_only_if_every_mention_of_it_gives_a_range_that_is_understood() {
    let (low, kev) = (Priority::Normal, Priority::Kev);
    let check = |mentions: &[(&str, &[&str], Priority)], narrowed, priority| {
        let expected = vec![("pkg:npm/a".to_owned(), narrowed, priority)];
        assert_eq!(keys_of(mentions, true), expected, "{mentions:?}");
        assert_eq!(keys_of(mentions, false), vec![("pkg:npm/a".to_owned(), false, priority)], "{mentions:?}");
    };
    check(&[("pkg:npm/a", &["vers:npm/<1.0.0"], low)], true, low);
    check(&[("pkg:npm/a", &["vers:npm/<1.0.0", "vers:npm/>=2.0.0|<3.0.0"], low)], true, low);
    check(&[("pkg:npm/a", &["vers:npm/<1.0.0"], low), ("pkg:npm/a", &["vers:npm/<2.0.0"], kev)], true, kev);
    check(&[("pkg:npm/a", &["vers:npm/<1.0.0"], low), ("pkg:npm/a", &[], low)], false, low);
    check(&[("pkg:npm/a", &[], low), ("pkg:npm/a", &["vers:npm/<1.0.0"], low)], false, low);
    check(&[("pkg:npm/a", &["vers:npm/<1.0.0", "vers:npm/*"], low)], false, low);
    check(&[("pkg:npm/a", &["vers:unheard-of/<1.0.0"], low)], false, low);
}

#[test]
fn spellings_of_one_key_with_one_urgency_are_one_key_and_images_that_a_key_names_are_kept_apart() {
    let range: &[&str] = &["vers:npm/<1.0.0"];
    let of = |key: &'static str, priority| (key, range, priority);
    let keys = keys_of(
        &[
            of("pkg:npm/a", Priority::Normal),
            of("pkg:npm/a?x=1", Priority::Normal),
            of("pkg:npm/a?x=2", Priority::Kev),
            of("pkg:oci/a?repository_url=one/a", Priority::Normal),
            of("pkg:oci/a?repository_url=two/a", Priority::Normal),
        ],
        true,
    );
    assert_eq!(keys.len(), 4, "{keys:?}");
}
