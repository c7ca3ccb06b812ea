use crate::codec::{Reader, unseal};
use crate::edition::Marks;
use crate::images::{Digest, decode_facet};
use crate::naming::{decode_component, decode_name, decode_term};
use crate::records::Section;
use crate::save::{META_KEY, Meta, Segment, chunk_key};
use crate::writer::Writer;
use crate::{IndexError, Thresholds};
use rocksdb::{DB, Direction, IteratorMode};
use scheduler_model::TenantId;

/// Reads what is stored; everything is checked, so that a damaged store is an error and never a wrong answer (IDX-6).
pub(crate) fn load(db: &DB, thresholds: &Thresholds) -> Result<(Writer, Meta), IndexError> {
    let Some(value) = db.get(META_KEY)? else { return Ok((Writer::new(thresholds, 0), Meta::default())) };
    let meta = Meta::decode(&value)?;
    let mut writer = Writer::new(thresholds, meta.generation);
    for segment in &meta.segments {
        let before = writer.state.postings.total();
        load_segment(db, segment, &mut writer)?;
        if writer.state.postings.total() - before != segment.postings {
            return Err(IndexError::damaged(format!("segment {} lacks postings", segment.id)));
        }
    }
    finish(&mut writer, meta.marks)?;
    (writer.sequence, writer.timeline) = (meta.sequence, meta.timeline);
    Ok((writer, meta))
}

/// Makes an index of what was loaded: whatever is not retired is live. `marks` is how much there should be.
pub(crate) fn finish(writer: &mut Writer, marks: Marks) -> Result<(), IndexError> {
    let found = writer.state.marks();
    if found != marks {
        return Err(IndexError::damaged(format!("{marks:?} was stored, {found:?} is there")));
    }
    let is_retired = retired_bits(writer)?;
    for ordinal in (0_u32..).zip(is_retired).filter(|(_, retired)| !retired).map(|(ordinal, _)| ordinal) {
        let row = writer.state.images.row(ordinal).ok_or_else(|| IndexError::damaged("an image is missing"))?;
        if writer.find(row.tenant, &row.digest).is_some() {
            return Err(IndexError::damaged("an image is there twice"));
        }
        writer.enter(row.tenant, ordinal);
    }
    Ok(())
}

fn retired_bits(writer: &Writer) -> Result<Vec<bool>, IndexError> {
    let images = &writer.state.images;
    let mut retired = vec![false; images.len() as usize];
    for ordinal in images.retired(0..images.retired_len()) {
        match retired.get_mut(ordinal as usize) {
            Some(bit) if !*bit => *bit = true,
            _ => return Err(IndexError::damaged("an image is retired twice")),
        }
    }
    Ok(retired)
}

fn load_segment(db: &DB, segment: &Segment, writer: &mut Writer) -> Result<(), IndexError> {
    let damaged =
        |chunk: u32, what: &str| IndexError::damaged(format!("chunk {chunk} of segment {}: {what}", segment.id));
    let first = chunk_key(segment.id, 0);
    let mut stored = db.iterator(IteratorMode::From(&first, Direction::Forward));
    let mut last_section = 0;
    for chunk in 0..segment.chunks {
        let (key, value) = stored.next().transpose()?.ok_or_else(|| damaged(chunk, "missing"))?;
        if *key != chunk_key(segment.id, chunk) {
            return Err(damaged(chunk, "missing"));
        }
        let value = unseal(&key, &value).ok_or_else(|| damaged(chunk, "the checksum is wrong"))?;
        load_chunk(value, &mut last_section, writer)?.map_err(|what| damaged(chunk, what))?;
    }
    Ok(())
}

/// Takes the records of a chunk in; says what is wrong with it.
pub(crate) fn load_chunk(
    chunk: &[u8],
    last_section: &mut u8,
    writer: &mut Writer,
) -> Result<Result<(), &'static str>, IndexError> {
    let mut reader = Reader(chunk);
    let section = reader.byte().filter(|section| section >= last_section);
    let Some(&section) = section.and_then(|section| Section::ALL.get(usize::from(section))) else {
        return Ok(Err("out of order"));
    };
    *last_section = section as u8;
    while !reader.is_empty() {
        if load_record(section, &mut reader, writer)?.is_none() {
            return Ok(Err("a record cannot be read"));
        }
    }
    Ok(Ok(()))
}

/// Takes one record in; `Ok(None)` when it is none, or refers to what is not there.
fn load_record(section: Section, reader: &mut Reader<'_>, writer: &mut Writer) -> Result<Option<()>, IndexError> {
    let state = &writer.state;
    let marks = state.marks();
    let record = match section {
        Section::Rows => return load_row(reader, writer),
        Section::Retired => {
            let ordinal = reader.number32().filter(|&ordinal| ordinal < marks.rows);
            return ordinal.map(|ordinal| state.images.retire(ordinal)).transpose();
        }
        Section::Postings => return load_postings(reader, writer),
        Section::Tenants | Section::Names | Section::Terms | Section::Components | Section::Facets => reader.bytes(),
    };
    let Some(record) = record else { return Ok(None) };
    let (expected, id) = match section {
        Section::Tenants if is_tenant(record) => (marks.tenants, state.images.intern_tenant(record)?),
        Section::Names if decode_name(record).is_some() => (marks.names, state.dictionary.intern_name(record)?),
        Section::Terms if decode_term(record).is_some_and(|(name, _)| name < marks.names) => {
            (marks.terms, state.dictionary.intern_term_key(record)?)
        }
        Section::Facets if decode_facet(record).is_some_and(|(tenant, ..)| tenant < marks.tenants) => {
            (marks.facets, state.images.intern_facet(record)?)
        }
        Section::Components => match decode_component(record) {
            Some((own, source)) if own < marks.terms && source.is_none_or(|source| source < marks.terms) => {
                state.postings.push_set()?;
                (marks.components, state.dictionary.intern_terms(own, source)?)
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok((id == expected).then_some(()))
}

fn is_tenant(record: &[u8]) -> bool {
    std::str::from_utf8(record).is_ok_and(|text| TenantId::try_from(text.to_owned()).is_ok())
}

fn load_row(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<Option<()>, IndexError> {
    let images = &writer.state.images;
    let Some((tenant, digest, components, facets)) = read_row(reader) else { return Ok(None) };
    let of_tenant =
        |&facet: &u32| decode_facet(&images.facets.get(facet).to_vec()).is_some_and(|(owner, ..)| owner == tenant);
    if tenant >= images.tenants.len() || !facets.iter().all(of_tenant) {
        return Ok(None);
    }
    images.push(&mut writer.blocks.facets, tenant, &digest, &facets, components)?;
    writer.blocks.reuse_at_once();
    Ok(Some(()))
}

fn read_row(reader: &mut Reader<'_>) -> Option<(u32, Digest, u32, Vec<u32>)> {
    let tenant = reader.number32()?;
    let digest = reader.take(32)?.try_into().ok()?;
    let components = reader.number32()?;
    let mut facets = Vec::new();
    for _ in 0..reader.number32()? {
        facets.push(reader.number32()?);
    }
    Some((tenant, digest, components, facets))
}

fn load_postings(reader: &mut Reader<'_>, writer: &mut Writer) -> Result<Option<()>, IndexError> {
    let (postings, rows) = (&writer.state.postings, writer.state.images.len());
    let (Some(component), Some(len)) = (reader.number32(), reader.number32()) else { return Ok(None) };
    if component >= postings.sets() {
        return Ok(None);
    }
    let mut last = postings.view(component).last();
    let mut base = 0;
    for _ in 0..len {
        let Some(number) = reader.number() else { return Ok(None) };
        let ordinal = u32::try_from(number >> 1).ok().and_then(|gap| gap.checked_add(base));
        let Some(ordinal) = ordinal.filter(|&ordinal| ordinal < rows && last.is_none_or(|last| last < ordinal)) else {
            return Ok(None);
        };
        postings.append(&mut writer.blocks.postings, component, ordinal, number & 1 == 1)?;
        (base, last) = (ordinal, Some(ordinal));
    }
    // No reader has seen any of it.
    writer.blocks.reuse_at_once();
    Ok(Some(()))
}
