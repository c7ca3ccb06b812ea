use crate::images::{Digest, decode_facet, digest_text};
use crate::state::State;
use crate::{Difference, DifferenceKind};
use scheduler_model::TenantId;

/// The live images by tenant and digest, with their components.
struct Forward<'a> {
    state: &'a State,
    images: Vec<((&'a [u8], &'a Digest), u32)>,
    /// By ordinal; ascending by component.
    components: Vec<Vec<(u32, bool)>>,
}

impl<'a> Forward<'a> {
    fn of(state: &'a State) -> Self {
        let mut images: Vec<_> = (0..state.images.len())
            .filter(|&ordinal| state.images.is_live(ordinal))
            .filter_map(|ordinal| {
                let row = state.images.row(ordinal)?;
                Some(((state.images.tenants.get(row.tenant), &row.digest), ordinal))
            })
            .collect();
        images.sort_unstable();
        let mut components = vec![Vec::new(); state.images.len() as usize];
        for component in 0..state.postings.sets() {
            state.postings.view(component).each(0, u32::MAX, |ordinal, used| {
                if let Some(of_image) = components.get_mut(ordinal as usize).filter(|_| state.images.is_live(ordinal)) {
                    of_image.push((component, used));
                }
            });
        }
        Self { state, images, components }
    }

    fn components_of(&self, ordinal: u32) -> &[(u32, bool)] {
        self.components.get(ordinal as usize).map_or(&[], Vec::as_slice)
    }

    fn place(&self, ordinal: u32) -> Vec<(u8, &[u8])> {
        let images = &self.state.images;
        let parts = images.facets_of(ordinal).iter().filter_map(|&facet| decode_facet(images.facets.get(facet)));
        let mut place: Vec<_> = parts.map(|(_, kind, text)| (kind as u8, text)).collect();
        place.sort_unstable();
        place
    }

    /// A component of an image here that the other lacks there, or has as unused where it is used here.
    fn component_beyond(&self, ordinal: u32, other: &Self, other_ordinal: u32) -> Option<u32> {
        let there = |component: u32| {
            let id = self.state.dictionary.counterpart(component, &other.state.dictionary)?;
            other.state.postings.view(id).get(other_ordinal)
        };
        let beyond = |&(component, used): &(u32, bool)| there(component).is_none_or(|there| used && !there);
        self.components_of(ordinal).iter().find(|pair| beyond(pair)).map(|&(component, _)| component)
    }
}

impl State {
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

    fn compare(
        &self,
        here: &Forward<'_>,
        ordinal: u32,
        there: &Forward<'_>,
        ordinal_there: u32,
    ) -> Result<(), DifferenceKind> {
        if here.place(ordinal) != there.place(ordinal_there) {
            return Err(DifferenceKind::Place);
        }
        if let Some(component) = there.component_beyond(ordinal_there, here, ordinal) {
            return Err(DifferenceKind::ComponentMissing(there.state.dictionary.describe(component)));
        }
        if let Some(component) = here.component_beyond(ordinal, there, ordinal_there) {
            return Err(DifferenceKind::ComponentExtra(self.dictionary.describe(component)));
        }
        let unnamed = here.components_of(ordinal).iter().find(|(component, _)| !self.dictionary.is_named(*component));
        unnamed.map_or(Ok(()), |&(component, _)| {
            Err(DifferenceKind::ComponentUnnamed(self.dictionary.describe(component)))
        })
    }
}

fn difference((tenant, digest): &(&[u8], &Digest), kind: DifferenceKind) -> Difference {
    let tenant = String::from_utf8_lossy(tenant).into_owned();
    #[expect(
        clippy::expect_used,
        reason = "a tenant comes in as a TenantId only, or from a checkpoint that was checked"
    )]
    let tenant = TenantId::try_from(tenant).expect("a tenant");
    Difference { tenant, digest: digest_text(digest), kind }
}
