use crate::edition::Edition;
use crate::images::{Digest, decode_facet, digest_text};
use crate::{Difference, DifferenceKind};
use scheduler_model::TenantId;

/// The tenant and the digest.
type Name = (Vec<u8>, Digest);

/// The live images by tenant and digest, with their components.
struct Forward<'a> {
    edition: &'a Edition,
    images: Vec<(Name, u32)>,
    /// By ordinal; ascending by component.
    components: Vec<Vec<(u32, bool)>>,
}

impl<'a> Forward<'a> {
    fn of(edition: &'a Edition) -> Self {
        let (state, rows) = (&edition.state, edition.marks.rows);
        let is_live: Vec<bool> = (0..rows).map(|ordinal| edition.is_live(ordinal)).collect();
        let mut images: Vec<_> = (0..rows)
            .zip(&is_live)
            .filter(|(_, live)| **live)
            .filter_map(|(ordinal, _)| {
                let row = state.images.row(ordinal)?;
                Some(((state.images.tenants.get(row.tenant).to_vec(), row.digest), ordinal))
            })
            .collect();
        images.sort_unstable();
        let mut components = vec![Vec::new(); rows as usize];
        for component in 0..edition.marks.components {
            state.postings.view(component).each(0, u32::MAX, |ordinal, used| {
                let live = is_live.get(ordinal as usize).copied().unwrap_or_default();
                if let Some(of_image) = components.get_mut(ordinal as usize).filter(|_| live) {
                    of_image.push((component, used));
                }
            });
        }
        Self { edition, images, components }
    }

    fn components_of(&self, ordinal: u32) -> &[(u32, bool)] {
        self.components.get(ordinal as usize).map_or(&[], Vec::as_slice)
    }

    /// A component of an image here that the other lacks there, or has as unused where it is used here.
    fn component_beyond(&self, ordinal: u32, other: &Self, other_ordinal: u32) -> Option<u32> {
        let there = |component: u32| {
            let id = self.edition.state.dictionary.counterpart(component, &other.edition.state.dictionary)?;
            other.edition.state.postings.view(id).get(other_ordinal)
        };
        let beyond = |&(component, used): &(u32, bool)| there(component).is_none_or(|there| used && !there);
        self.components_of(ordinal).iter().find(|pair| beyond(pair)).map(|&(component, _)| component)
    }
}

impl Edition {
    /// Compares the answers of this index, image by image, with those of one that was rebuilt from the catalog.
    pub(crate) fn verify_against(&self, rebuilt: &Self) -> Result<(), Difference> {
        let (here, there) = (Forward::of(self), Forward::of(rebuilt));
        let mut left = here.images.iter().peekable();
        for (name, ordinal_there) in &there.images {
            if let Some((extra, _)) = left.next_if(|(other, _)| other < name) {
                return Err(difference(extra, DifferenceKind::Extra));
            }
            let Some((_, ordinal)) = left.next_if(|(other, _)| other == name) else {
                return Err(difference(name, DifferenceKind::Missing));
            };
            self.compare(&here, *ordinal, &there, *ordinal_there).map_err(|kind| difference(name, kind))?;
        }
        left.next().map_or(Ok(()), |(extra, _)| Err(difference(extra, DifferenceKind::Extra)))
    }

    fn place(&self, ordinal: u32) -> Vec<(u8, Vec<u8>)> {
        let images = &self.state.images;
        let part = |facet| {
            let stored = images.facets.get(facet).to_vec();
            decode_facet(&stored).map(|(_, kind, text)| (kind as u8, text.to_vec()))
        };
        let mut place: Vec<_> = images.facets_of(ordinal).filter_map(part).collect();
        place.sort_unstable();
        place
    }

    fn compare(
        &self,
        here: &Forward<'_>,
        ordinal: u32,
        there: &Forward<'_>,
        ordinal_there: u32,
    ) -> Result<(), DifferenceKind> {
        if self.place(ordinal) != there.edition.place(ordinal_there) {
            return Err(DifferenceKind::Place);
        }
        if let Some(component) = there.component_beyond(ordinal_there, here, ordinal) {
            return Err(DifferenceKind::ComponentMissing(there.edition.state.dictionary.describe(component)));
        }
        if let Some(component) = here.component_beyond(ordinal, there, ordinal_there) {
            return Err(DifferenceKind::ComponentExtra(self.state.dictionary.describe(component)));
        }
        let unnamed =
            here.components_of(ordinal).iter().find(|(component, _)| !self.state.dictionary.is_named(*component));
        unnamed.map_or(Ok(()), |&(component, _)| {
            Err(DifferenceKind::ComponentUnnamed(self.state.dictionary.describe(component)))
        })
    }
}

fn difference(name: &Name, kind: DifferenceKind) -> Difference {
    Difference { tenant: tenant_of(name), digest: digest_text(&name.1), kind }
}

fn tenant_of((tenant, _): &Name) -> TenantId {
    let tenant = String::from_utf8_lossy(tenant).into_owned();
    #[expect(
        clippy::expect_used,
        reason = "a tenant comes in as a TenantId only, or from a checkpoint that was checked"
    )]
    TenantId::try_from(tenant).expect("a tenant")
}
