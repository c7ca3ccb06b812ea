//! What an SBOM says about its image, weighed into facts.

use std::collections::BTreeMap;

use crate::ImageFacts;
use crate::reference::{ImagePurl, Reference, digest_of};

/// Entries of each kind that are kept of an image's properties; no real image comes near.
const FACTS_MAX: usize = 10_000;

/// Statements about an image, in the order of trust in which [`Evidence::facts`] asks them.
#[derive(Default)]
pub(crate) struct Evidence {
    /// Digest of the manifest that was scanned.
    pub(crate) manifest_digest: Option<String>,
    /// `registry/repository@digest`, as the registry or the local engine knows the image.
    pub(crate) repo_digests: Vec<String>,
    /// `registry/repository:tag`.
    pub(crate) repo_tags: Vec<String>,
    /// The image's purls; those of other types tell nothing.
    pub(crate) purls: Vec<String>,
    /// What the tool was asked to scan, or the component's name.
    pub(crate) name: Option<String>,
    /// The component's version, which of images is often the digest.
    pub(crate) version: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Evidence {
    /// Whether one of the purls is an image's.
    pub(crate) fn has_image_purl(&self) -> bool {
        self.purls.iter().any(|purl| ImagePurl::parse(purl).is_some())
    }

    /// Takes a line or property in which Trivy names the image.
    pub(crate) fn trivy(&mut self, name: &str, value: &str) {
        match name {
            "RepoDigest" if self.repo_digests.len() < FACTS_MAX => self.repo_digests.push(value.to_owned()),
            "RepoTag" if self.repo_tags.len() < FACTS_MAX => self.repo_tags.push(value.to_owned()),
            _ => {
                if let Some(label) = name.strip_prefix("Labels:") {
                    self.label(label, value);
                }
            }
        }
    }

    /// Adds a label.
    pub(crate) fn label(&mut self, name: &str, value: &str) {
        if self.labels.len() < FACTS_MAX {
            self.labels.insert(name.to_owned(), value.to_owned());
        }
    }

    /// The facts, each from the most trusted statement that has it.
    pub(crate) fn facts(self) -> ImageFacts {
        let parse = |texts: &[String]| texts.iter().filter_map(|text| Reference::parse(text)).collect::<Vec<_>>();
        let digests = parse(&self.repo_digests);
        let tagged = parse(&self.repo_tags);
        let purls: Vec<ImagePurl> = self.purls.iter().filter_map(|purl| ImagePurl::parse(purl)).collect();
        let name = self.name.as_deref().and_then(Reference::parse);

        let digest = self.manifest_digest.as_deref().and_then(digest_of);
        let digest = digest
            .or_else(|| digests.iter().find_map(|reference| reference.digest.clone()))
            .or_else(|| purls.iter().find_map(|purl| purl.digest.clone()))
            .or_else(|| self.version.as_deref().and_then(digest_of))
            .or_else(|| name.as_ref().and_then(|name| name.digest.clone()))
            .or_else(|| self.name.as_deref().and_then(digest_of));

        let located = purls.iter().filter_map(|purl| purl.location.as_ref());
        let paths = purls.iter().filter_map(|purl| purl.path.as_ref());
        let place = digests.iter().chain(&tagged).chain(located).chain(&name).chain(paths).next();

        let mut tags = Vec::new();
        let references = tagged.iter().chain(&name).filter_map(|reference| reference.tag.as_ref());
        for tag in references.chain(purls.iter().filter_map(|purl| purl.tag.as_ref())) {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }
        ImageFacts {
            digest,
            registry: place.and_then(|place| place.registry.clone()),
            repository: place.map(|place| place.repository.clone()),
            tags,
            labels: self.labels,
            purls: self.purls,
            ..ImageFacts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(digit: char) -> String {
        format!("sha256:{}", String::from(digit).repeat(64))
    }

    #[test]
    fn registrys_own_names_outrank_purls_and_titles() {
        let evidence = Evidence {
            repo_digests: vec![format!("registry.example.com/shop/cart@{}", sha('a'))],
            repo_tags: vec!["registry.example.com/shop/cart:1".to_owned(), "shop/cart:1".to_owned()],
            purls: vec![format!("pkg:oci/cart@{}?repository_url=other.example.com/cart&tag=2", sha('b'))],
            name: Some("cart:3".to_owned()),
            ..Evidence::default()
        };
        let facts = evidence.facts();
        assert_eq!(facts.digest, Some(sha('a')));
        assert_eq!(facts.registry.as_deref(), Some("registry.example.com"));
        assert_eq!(facts.repository.as_deref(), Some("shop/cart"));
        assert_eq!(facts.tags, ["1", "3", "2"]);
    }

    #[test]
    fn each_statement_serves_where_better_ones_lack() {
        let purl = Evidence {
            purls: vec![format!("pkg:oci/cart@{}?repository_url=example.com/shop/cart", sha('b'))],
            name: Some("Shop cart".to_owned()),
            ..Evidence::default()
        };
        let facts = purl.facts();
        assert_eq!((facts.digest, facts.repository.as_deref()), (Some(sha('b')), Some("shop/cart")));

        let named = Evidence {
            name: Some("docker.io/library/alpine:latest".to_owned()),
            version: Some(sha('c')),
            ..Evidence::default()
        };
        let facts = named.facts();
        assert_eq!((facts.digest, facts.repository.as_deref()), (Some(sha('c')), Some("library/alpine")));
        assert_eq!(facts.registry.as_deref(), Some("docker.io"));

        assert_eq!(Evidence { name: Some(sha('d')), ..Evidence::default() }.facts().digest, Some(sha('d')));
        assert_eq!(Evidence::default().facts(), ImageFacts::default());
    }
}
