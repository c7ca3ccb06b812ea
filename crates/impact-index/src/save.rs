use crate::codec::{Reader, put_number, seal, unseal};
use crate::edition::{Edition, Marks};
use crate::records::write_records;
use crate::{IndexError, Thresholds};
use rocksdb::{DB, WriteBatch, WriteOptions};

/// The version of the stored format; others are refused. 2: says of which timeline it is.
pub(crate) const VERSION: u64 = 2;
pub(crate) const META_KEY: &[u8] = b"meta";
pub(crate) const MAGIC: &[u8] = b"SIIX";

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
    pub(crate) timeline: u64,
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
        for number in [VERSION, self.generation, self.sequence, self.timeline] {
            put_number(&mut out, number);
        }
        self.marks.put(&mut out);
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
        let (generation, sequence, timeline) = (reader.number()?, reader.number()?, reader.number()?);
        let marks = Marks::read(reader)?;
        let next_segment = reader.number()?;
        let mut segments = Vec::new();
        for _ in 0..reader.number()? {
            let (id, chunks, postings) = (reader.number()?, reader.number32()?, reader.number()?);
            segments.push(Segment { id, chunks, postings });
        }
        Some(Self { generation, sequence, timeline, marks, next_segment, segments })
    }
}

/// Writes what is new in the edition since `saved`, and returns what is stored then.
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
        timeline: edition.timeline,
        marks: edition.marks,
        next_segment: saved.next_segment + 1,
        segments: if base == Marks::default() { Vec::new() } else { saved.segments.clone() },
    };
    if base != meta.marks {
        meta.segments.push(save_segment(db, saved.next_segment, edition, base, thresholds)?);
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

fn save_segment(
    db: &DB,
    id: u64,
    edition: &Edition,
    base: Marks,
    thresholds: &Thresholds,
) -> Result<Segment, IndexError> {
    // What a crash left of an attempt under the same number.
    let mut batch = WriteBatch::default();
    batch.delete_range(chunk_key(id, 0), chunk_key(u64::MAX, u32::MAX));
    db.write(batch)?;
    let mut chunks = 0;
    let postings = write_records(edition, base, thresholds.chunk_bytes, |chunk: &mut Vec<u8>| {
        let key = chunk_key(id, chunks);
        chunks += 1;
        seal(&key, chunk);
        Ok::<(), IndexError>(db.put(key, chunk)?)
    })?;
    Ok(Segment { id, chunks, postings })
}
