use crate::codec::{Reader, put_bytes, put_number};
use crate::edition::{Edition, Marks};
use crate::interner::Interner;
use crate::naming::encode_component;

/// Postings of one record at most: a record is short enough to be held in memory by whoever reads it.
const POSTINGS_MAX: usize = 1 << 16;

/// What a chunk holds. The order is that of the chunks: each refers to what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Tenants = 0,
    Names = 1,
    Terms = 2,
    Components = 3,
    Facets = 4,
    Rows = 5,
    Retired = 6,
    Postings = 7,
}

impl Section {
    pub(crate) const ALL: [Self; 8] = [
        Self::Tenants,
        Self::Names,
        Self::Terms,
        Self::Components,
        Self::Facets,
        Self::Rows,
        Self::Retired,
        Self::Postings,
    ];
}

impl Marks {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let Self { tenants, names, terms, components, facets, rows, retired } = *self;
        for number in [tenants, names, terms, components, facets, rows, retired] {
            put_number(out, number.into());
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            tenants: reader.number32()?,
            names: reader.number32()?,
            terms: reader.number32()?,
            components: reader.number32()?,
            facets: reader.number32()?,
            rows: reader.number32()?,
            retired: reader.number32()?,
        })
    }
}

/// Writes what an edition has beyond `base`, in chunks that go to `sink` one after the other; gives how many postings that are.
///
/// The tables may be ahead of the edition meanwhile: what it says is up to its marks, and does not change.
pub(crate) fn write_records<E>(
    edition: &Edition,
    base: Marks,
    chunk_bytes: usize,
    sink: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
) -> Result<u64, E> {
    let mut writer = RecordWriter { sink, chunk_bytes, chunk: Vec::new() };
    writer.write_names(edition, base)?;
    writer.write_images(edition, base)?;
    let postings = writer.write_postings(edition, base)?;
    writer.flush()?;
    Ok(postings)
}

struct RecordWriter<F> {
    sink: F,
    chunk_bytes: usize,
    /// The chunk that is being filled: its section, then its records.
    chunk: Vec<u8>,
}

impl<E, F: FnMut(&mut Vec<u8>) -> Result<(), E>> RecordWriter<F> {
    fn write_names(&mut self, edition: &Edition, base: Marks) -> Result<(), E> {
        let (dictionary, images, marks) = (&edition.state.dictionary, &edition.state.images, edition.marks);
        self.strings(Section::Tenants, &images.tenants, base.tenants..marks.tenants)?;
        self.strings(Section::Names, &dictionary.names, base.names..marks.names)?;
        let mut bytes = Vec::new();
        for term in base.terms..marks.terms {
            bytes.clear();
            dictionary.put_term(&mut bytes, term);
            put_bytes(self.record(Section::Terms)?, &bytes);
        }
        for component in base.components..marks.components {
            bytes.clear();
            let (own, source) = dictionary.terms_of(component);
            encode_component(&mut bytes, own, source);
            put_bytes(self.record(Section::Components)?, &bytes);
        }
        self.strings(Section::Facets, &images.facets, base.facets..marks.facets)
    }

    fn write_images(&mut self, edition: &Edition, base: Marks) -> Result<(), E> {
        let images = &edition.state.images;
        for ordinal in base.rows..edition.marks.rows {
            let Some(row) = images.row(ordinal) else { continue };
            let chunk = self.record(Section::Rows)?;
            put_number(chunk, row.tenant.into());
            chunk.extend_from_slice(&row.digest);
            put_number(chunk, row.components.into());
            put_number(chunk, images.facets_of(ordinal).count() as u64);
            images.facets_of(ordinal).for_each(|facet| put_number(chunk, facet.into()));
        }
        for ordinal in images.retired(base.retired..edition.marks.retired) {
            put_number(self.record(Section::Retired)?, ordinal.into());
        }
        Ok(())
    }

    fn write_postings(&mut self, edition: &Edition, base: Marks) -> Result<u64, E> {
        let mut new = Vec::new();
        let mut total = 0;
        let Some(last) = edition.marks.rows.checked_sub(1) else { return Ok(0) };
        for component in 0..edition.marks.components {
            new.clear();
            let view = edition.state.postings.view(component);
            view.each(base.rows, last, |ordinal, used| new.push((ordinal, used)));
            total += new.len() as u64;
            for part in new.chunks(POSTINGS_MAX) {
                put_postings(self.record(Section::Postings)?, component, part);
            }
        }
        Ok(total)
    }

    fn strings(&mut self, section: Section, strings: &Interner, ids: std::ops::Range<u32>) -> Result<(), E> {
        let mut bytes = Vec::new();
        for id in ids {
            bytes.clear();
            strings.get(id).append_to(&mut bytes);
            put_bytes(self.record(section)?, &bytes);
        }
        Ok(())
    }

    /// Where the next record goes.
    fn record(&mut self, section: Section) -> Result<&mut Vec<u8>, E> {
        if self.chunk.len() >= self.chunk_bytes || self.chunk.first().is_some_and(|&first| first != section as u8) {
            self.flush()?;
        }
        if self.chunk.is_empty() {
            self.chunk.push(section as u8);
        }
        Ok(&mut self.chunk)
    }

    fn flush(&mut self) -> Result<(), E> {
        if !self.chunk.is_empty() {
            (self.sink)(&mut self.chunk)?;
            self.chunk.clear();
        }
        Ok(())
    }
}

/// The component, how many postings, and each as twice the distance from the last, with use in the lowest bit.
fn put_postings(out: &mut Vec<u8>, component: u32, postings: &[(u32, bool)]) {
    put_number(out, component.into());
    put_number(out, postings.len() as u64);
    let mut last = 0;
    for &(ordinal, used) in postings {
        put_number(out, (u64::from(ordinal - last) << 1) | u64::from(used));
        last = ordinal;
    }
}
