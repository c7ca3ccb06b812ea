use scheduler_model::purl::Component;
use scheduler_model::{CatalogComponent, Image, ImageDigest, ImagePlace, Scope, Selection, TenantId, Timestamp};
use std::collections::BTreeMap;

/// A name has so many versions, so that a catalog has names and versions as real ones do.
const VERSIONS_OF_NAME: u64 = 8;

/// A catalog by seed: images of 150 to 400 packages each, drawn by Zipf's law (exponent 1) from all packages.
#[derive(Debug, Clone, Copy)]
pub struct Catalog {
    /// How many versioned packages there are to draw from; the first is the most popular.
    pub purls: u32,
    /// How many images.
    pub images: u32,
}

/// Which packages a set of keys names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The most popular ones.
    Popular,
    /// Any, each with the same probability: most are in few images.
    Rare,
    /// None that the catalog has.
    Unknown,
}

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn of(seed: u64, stream: u64) -> Self {
        Self(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ stream.wrapping_mul(0xa076_1d64_78bd_642f))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(((self.next() >> 32) * u64::from(limit)) >> 32).unwrap_or_default()
    }

    /// From 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).unwrap_or_default()) / 4_294_967_296.0
    }
}

impl Catalog {
    /// The one tenant.
    pub fn tenant() -> TenantId {
        #[expect(clippy::expect_used, reason = "a literal that is one")]
        TenantId::try_from("tenant-01".to_owned()).expect("a tenant")
    }

    /// The purl of a package by its rank; canonical.
    pub fn purl(rank: u32) -> String {
        let mut random = Random::of(1, rank.into());
        // Names are spread over the ranks, so that one name has popular and rare versions.
        let name = Random::of(2, u64::from(rank) / VERSIONS_OF_NAME).next() % 10_000_000;
        let (major, minor, patch) = (u64::from(rank) % VERSIONS_OF_NAME, random.below(30), random.below(60));
        let version = format!("{major}.{minor}.{patch}");
        match name % 20 {
            0..6 => format!("pkg:npm/lib-{name}@{version}"),
            6..9 => format!("pkg:pypi/py-{name}@{version}"),
            9..11 => format!("pkg:golang/github.com/org{}/mod{name}@v{version}", name % 977),
            11..13 => format!("pkg:maven/org.group{}/artifact-{name}@{version}", name % 977),
            13..17 => format!("pkg:deb/debian/lib{name}@{version}-1%2Bdeb12u{}?arch=amd64", random.below(5)),
            17..19 => format!("pkg:deb/debian/lib{name}@{version}-1?arch=amd64&upstream=src{}", name / 4),
            _ => format!("pkg:apk/alpine/lib{name}@{version}-r{}?arch=x86_64", random.below(5)),
        }
    }

    /// The ranks of an image's packages, ascending, each once.
    pub fn ranks(&self, image: u32) -> Vec<u32> {
        let len = 150 + Random::of(4, image.into()).below(251);
        self.ranks_of(image, len as usize)
    }

    /// The same with so many packages.
    pub fn ranks_of(&self, image: u32, len: usize) -> Vec<u32> {
        let mut random = Random::of(3, image.into());
        let mut ranks = Vec::with_capacity(len * 2);
        let log = (f64::from(self.purls) + 1.0).ln();
        while ranks.len() < len {
            for _ in ranks.len()..len + len / 4 {
                let rank = ((random.unit() * log).exp() - 1.0).floor();
                // Between 0 and the number of packages.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
                ranks.push((rank as u32).min(self.purls - 1));
            }
            ranks.sort_unstable();
            ranks.dedup();
        }
        // Leaving the rarest out would skew the law: leave out at random places.
        while ranks.len() > len {
            let at = random.below(u32::try_from(ranks.len()).unwrap_or_default());
            ranks.remove(at as usize);
        }
        ranks
    }

    /// Positions of what is used: known of every second image, then a third of its packages.
    pub fn used(image: u32, len: usize) -> Option<Vec<u32>> {
        let mut random = Random::of(5, image.into());
        let len = u32::try_from(len).unwrap_or_default();
        (image.is_multiple_of(2)).then(|| (0..len).filter(|_| random.below(3) == 0).collect())
    }

    /// The image's digest.
    pub fn digest(image: u32) -> ImageDigest {
        ImageDigest::of(&image.to_le_bytes())
    }

    /// Where the image lives; one in ten is in the namespace `prod`.
    pub fn place(image: u32) -> ImagePlace {
        ImagePlace {
            registry: "registry.example.com".to_owned(),
            repository: format!("team{}/app{}", image % 37, image / 20),
            namespaces: vec![if image.is_multiple_of(10) { "prod" } else { "test" }.to_owned()],
            tags: vec![format!("1.{}", image % 20)],
            labels: BTreeMap::from([("team".to_owned(), format!("team{}", image % 37))]),
        }
    }

    /// The selection of one image in ten.
    pub fn one_in_ten() -> Selection {
        Selection { scope: Scope::ByNamespace, namespaces: vec!["prod".to_owned()], ..Selection::default() }
    }

    /// A selection of ten images.
    pub fn ten_images(&self) -> Selection {
        let step = (self.images / 10).max(1);
        let digests = (0..10).map(|at| Self::digest(at * step)).collect();
        Selection { scope: Scope::ByDigest, digests, ..Selection::default() }
    }

    /// The packages of an image in match form.
    pub fn components(&self, image: u32) -> Vec<Component> {
        self.ranks(image).into_iter().filter_map(|rank| Component::parse(&Self::purl(rank), None).ok()).collect()
    }

    /// The image as the catalog has it, with so many packages.
    pub fn image(&self, image: u32, len: usize) -> Image {
        let mut components: Vec<_> = self
            .ranks_of(image, len)
            .into_iter()
            .map(|rank| CatalogComponent { purl: Self::purl(rank), source: None })
            .collect();
        components.sort_unstable();
        Image {
            tenant: Self::tenant(),
            digest: Self::digest(image),
            place: Self::place(image),
            used: Self::used(image, components.len()),
            components,
            no_purl: 0,
            generated_at: None,
            updated_at: Timestamp::from_millis(0),
            sequence: 0,
        }
    }

    /// The ranks that so many keys name.
    pub fn key_ranks(&self, keys: Keys, len: u32) -> Vec<u32> {
        let mut ranks: Vec<u32> = match keys {
            Keys::Popular => (0..len.min(self.purls)).collect(),
            Keys::Rare => {
                let mut random = Random::of(6, 0);
                let mut ranks = std::collections::BTreeSet::new();
                while ranks.len() < len.min(self.purls) as usize {
                    ranks.insert(random.below(self.purls));
                }
                ranks.into_iter().collect()
            }
            Keys::Unknown => (0..len).map(|at| at + 2_000_000_000).collect(),
        };
        // No order that the index could profit from.
        let mut random = Random::of(7, 0);
        for at in (1..ranks.len()).rev() {
            let other = random.below(u32::try_from(at + 1).unwrap_or_default());
            ranks.swap(at, other as usize);
        }
        ranks
    }

    /// The keys as an export carries them: a JSON list of purls.
    pub fn keys_json(&self, keys: Keys, len: u32) -> String {
        let purls: Vec<String> = self.key_ranks(keys, len).into_iter().map(Self::purl).collect();
        serde_json::to_string(&purls).unwrap_or_default()
    }
}
