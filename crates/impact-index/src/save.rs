use crate::codec::{Reader, put_bytes, put_number, seal, unseal};
use crate::edition::{Edition, Marks, State};
use crate::interner::Interner;
use crate::naming::encode_component;
use crate::{IndexError, Thresholds};
use rocksdb::{DB, WriteBatch, WriteOptions};

/// The version of the stored format; others are refused.
pub(crate) const VERSION: u64 = 1;
pub(crate) const META_KEY: &[u8] = b"meta";
pub(crate) const MAGIC: &[u8] = b"SIIX";

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

/// A part of the stored index: everything that one checkpoint found to be new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) id: u64,
    pub(crate) chunks: u32,
    pub(crate) postings: u64,
}

/// What is stored: the one record that makes segments valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
    pub(crate) marks: Marks,
    pub(crate) next_segment: u64,
    pub(crate) segments: Vec<Segment>,
}

pub(crate) fn chunk_key(segment: u64, chunk: u32) -> [u8; 13] {
    let mut key = [b's'; 13];
    let (_, rest) = key.split_at_mut(1);
    let (id, number) = rest.split_at_mut(8);
    id.copy_from_slice(&segment.to_be_bytes());
    number.copy_from_slice(&chunk.to_be_bytes());
    key
}

impl Meta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let Marks { tenants, names, terms, components, facets, rows, retired } = self.marks;
        for number in [VERSION, self.generation, self.sequence] {
            put_number(&mut out, number);
        }
        for number in [tenants, names, terms, components, facets, rows, retired] {
            put_number(&mut out, number.into());
        }
        put_number(&mut out, self.next_segment);
        put_number(&mut out, self.segments.len() as u64);
        for segment in &self.segments {
            put_number(&mut out, segment.id);
            put_number(&mut out, segment.chunks.into());
            put_number(&mut out, segment.postings);
        }
        seal(META_KEY, &mut out);
        out
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, IndexError> {
        let value = unseal(META_KEY, value).ok_or_else(|| IndexError::damaged("the checksum of `meta` is wrong"))?;
        let mut reader = Reader(value);
        if reader.take(MAGIC.len()) != Some(MAGIC) {
            return Err(IndexError::damaged("this is no impact index"));
        }
        match reader.number() {
            Some(VERSION) => {}
            other => return Err(IndexError::damaged(format!("format version {other:?} is not known"))),
        }
        Self::decode_rest(&mut reader)
            .filter(|_| reader.is_empty())
            .ok_or_else(|| IndexError::damaged("`meta` cannot be read"))
    }

    fn decode_rest(reader: &mut Reader<'_>) -> Option<Self> {
        let (generation, sequence) = (reader.number()?, reader.number()?);
        let marks = Marks {
            tenants: reader.number32()?,
            names: reader.number32()?,
            terms: reader.number32()?,
            components: reader.number32()?,
            facets: reader.number32()?,
            rows: reader.number32()?,
            retired: reader.number32()?,
        };
        let next_segment = reader.number()?;
        let mut segments = Vec::new();
        for _ in 0..reader.number()? {
            let (id, chunks, postings) = (reader.number()?, reader.number32()?, reader.number()?);
            segments.push(Segment { id, chunks, postings });
        }
        Some(Self { generation, sequence, marks, next_segment, segments })
    }
}

/// Writes what is new in the edition since `saved`, and returns what is stored then. No writer may be at work: the tables hold
/// what the edition says and nothing more.
///
/// The chunks go out first, under a segment number that nothing refers to yet; then one synchronous write makes them
/// valid together with the sequence, and removes what they replace (IDX-6). A crash before it leaves the last
/// checkpoint as it was.
pub(crate) fn save(db: &DB, edition: &Edition, saved: &Meta, thresholds: &Thresholds) -> Result<Meta, IndexError> {
    let total: u64 = saved.segments.iter().map(|segment| segment.postings).sum();
    let same_generation = saved.generation == edition.generation;
    let new_postings = edition.postings.saturating_sub(total);
    // Few segments load fast; to write everything again is paid for by as much that was written since.
    let largest = saved.segments.first().map_or(0, |segment| segment.postings);
    let merges = saved.segments.len() >= thresholds.segments_max
        || saved.segments.len() > 1 && total + new_postings > largest.saturating_mul(2);
    let base = if same_generation && !merges { saved.marks } else { Marks::default() };
    let mut meta = Meta {
        generation: edition.generation,
        sequence: edition.sequence,
        marks: edition.marks,
        next_segment: saved.next_segment + 1,
        segments: if base == Marks::default() { Vec::new() } else { saved.segments.clone() },
    };
    if base != meta.marks {
        let mut writer = SegmentWriter::begin(db, saved.next_segment, thresholds.chunk_bytes)?;
        writer.write(&edition.state, base)?;
        meta.segments.push(writer.segment);
    }
    let mut batch = WriteBatch::default();
    for segment in saved.segments.iter().filter(|segment| !meta.segments.contains(segment)) {
        batch.delete_range(chunk_key(segment.id, 0), chunk_key(segment.id, u32::MAX));
    }
    batch.put(META_KEY, meta.encode());
    db.write_opt(batch, &synced())?;
    Ok(meta)
}

/// Removes everything that is stored.
pub(crate) fn erase(db: &DB, saved: &Meta, generation: u64) -> Result<Meta, IndexError> {
    let meta = Meta { generation, next_segment: saved.next_segment, ..Meta::default() };
    let mut batch = WriteBatch::default();
    batch.delete_range(chunk_key(0, 0), chunk_key(u64::MAX, u32::MAX));
    batch.put(META_KEY, meta.encode());
    db.write_opt(batch, &synced())?;
    Ok(meta)
}

fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

struct SegmentWriter<'a> {
    db: &'a DB,
    segment: Segment,
    chunk_bytes: usize,
    /// The chunk that is being filled: its section, then its records.
    chunk: Vec<u8>,
}

impl<'a> SegmentWriter<'a> {
    fn begin(db: &'a DB, id: u64, chunk_bytes: usize) -> Result<Self, IndexError> {
        // What a crash left of an attempt under the same number.
        let mut batch = WriteBatch::default();
        batch.delete_range(chunk_key(id, 0), chunk_key(u64::MAX, u32::MAX));
        db.write(batch)?;
        Ok(Self { db, segment: Segment { id, chunks: 0, postings: 0 }, chunk_bytes, chunk: Vec::new() })
    }

    fn write(&mut self, state: &State, base: Marks) -> Result<(), IndexError> {
        let (dictionary, images) = (&state.dictionary, &state.images);
        self.strings(Section::Tenants, &images.tenants, base.tenants)?;
        self.strings(Section::Names, &dictionary.names, base.names)?;
        let mut bytes = Vec::new();
        for term in base.terms..dictionary.terms.len() {
            bytes.clear();
            dictionary.put_term(&mut bytes, term);
            put_bytes(self.record(Section::Terms)?, &bytes);
        }
        for component in base.components..dictionary.len() {
            bytes.clear();
            let (own, source) = dictionary.terms_of(component);
            encode_component(&mut bytes, own, source);
            put_bytes(self.record(Section::Components)?, &bytes);
        }
        self.strings(Section::Facets, &images.facets, base.facets)?;
        for ordinal in base.rows..images.len() {
            let Some(row) = images.row(ordinal) else { continue };
            let chunk = self.record(Section::Rows)?;
            put_number(chunk, row.tenant.into());
            chunk.extend_from_slice(&row.digest);
            put_number(chunk, row.components.into());
            put_number(chunk, images.facets_of(ordinal).count() as u64);
            images.facets_of(ordinal).for_each(|facet| put_number(chunk, facet.into()));
        }
        for ordinal in images.retired(base.retired) {
            put_number(self.record(Section::Retired)?, ordinal.into());
        }
        let mut new = Vec::new();
        for component in 0..state.postings.sets() {
            new.clear();
            state.postings.view(component).each(base.rows, u32::MAX, |ordinal, used| new.push((ordinal, used)));
            if !new.is_empty() {
                self.segment.postings += new.len() as u64;
                put_postings(self.record(Section::Postings)?, component, &new);
            }
        }
        self.flush()
    }

    fn strings(&mut self, section: Section, strings: &Interner, from: u32) -> Result<(), IndexError> {
        let mut bytes = Vec::new();
        for id in from..strings.len() {
            bytes.clear();
            strings.get(id).append_to(&mut bytes);
            put_bytes(self.record(section)?, &bytes);
        }
        Ok(())
    }

    /// Where the next record goes.
    fn record(&mut self, section: Section) -> Result<&mut Vec<u8>, IndexError> {
        if self.chunk.len() >= self.chunk_bytes || self.chunk.first().is_some_and(|&first| first != section as u8) {
            self.flush()?;
        }
        if self.chunk.is_empty() {
            self.chunk.push(section as u8);
        }
        Ok(&mut self.chunk)
    }

    fn flush(&mut self) -> Result<(), IndexError> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let key = chunk_key(self.segment.id, self.segment.chunks);
        seal(&key, &mut self.chunk);
        self.db.put(key, &self.chunk)?;
        self.chunk.clear();
        self.segment.chunks += 1;
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
