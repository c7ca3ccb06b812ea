use scheduler_model::ImageDigest;
use scheduler_model::purl::ProductKey;

/// The images that a key of type `oci` names itself, whatever they contain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ImageRef {
    /// The image of this digest.
    Digest(ImageDigest),
    /// The images whose registry and repository, joined by `/`, are this; of images without registry the repository.
    Location(String),
    /// The images whose repository's last segment is this, in lower case.
    Name(String),
}

impl ImageRef {
    /// What the key names: by digest when its version is one, else by `repository_url`, else by its name. `None` for
    /// other types.
    ///
    /// ```
    /// use scheduler_impact_index::ImageRef;
    /// use scheduler_model::purl::ProductKey;
    /// let (key, _) = ProductKey::parse("pkg:oci/cart?repository_url=registry.example.com/shop/cart").unwrap();
    /// assert_eq!(ImageRef::of(&key), Some(ImageRef::Location("registry.example.com/shop/cart".into())));
    /// ```
    pub fn of(key: &ProductKey) -> Option<Self> {
        let purl = key.purl();
        if purl.ty() != "oci" {
            return None;
        }
        let digest = purl.version().and_then(|version| ImageDigest::try_from(version.to_ascii_lowercase()).ok());
        if let Some(digest) = digest {
            return Some(Self::Digest(digest));
        }
        let url = purl.qualifier("repository_url").unwrap_or_default();
        let location = url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/');
        Some(if location.is_empty() { Self::Name(name_of(purl.name())) } else { Self::Location(location.to_owned()) })
    }
}

/// The last segment of a repository's name, in lower case as registries have it.
pub(crate) fn name_of(repository: &str) -> String {
    repository.rsplit('/').next().unwrap_or_default().to_lowercase()
}
