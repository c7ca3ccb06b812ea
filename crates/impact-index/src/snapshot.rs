use crate::codec::{Reader, put_bytes, put_number};
use crate::edition::{Edition, Marks};
use crate::load::{finish, load_chunk};
use crate::records::write_records;
use crate::writer::Writer;
use crate::{IndexError, Thresholds};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take, Write};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 8] = b"SIIXSNAP";
/// The version of the format that is written. 2: says of which timeline it is.
const VERSION: u32 = 2;
/// The oldest one that is read.
const OLDEST_VERSION: u32 = 1;
const HEAD_LEN: u64 = 12;
const CHECKSUM_LEN: u64 = 8;
/// A chunk is no longer than this.
const CHUNK_BYTES_MAX: usize = 64 << 20;
const ZSTD_LEVEL: i32 = 3;
/// What a reader keeps of what it has decompressed: 8 MiB. The level asks for less.
const WINDOW_LOG_MAX: u32 = 23;
const BUFFER_BYTES: usize = 64 * 1024;

/// What a snapshot is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The last catalog change that is in it.
    pub sequence: u64,
    /// The timeline of that change, as the catalog had it; 0 when it is not known.
    pub timeline: u64,
    /// Live images.
    pub images: u64,
    /// (image, package) pairs, those of retired images included.
    pub postings: u64,
}

/// Why a snapshot cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file is something else.
    #[error("this is no snapshot of an impact index")]
    Foreign,
    /// A newer program wrote it.
    #[error("the snapshot is of format version {0}, this program reads {OLDEST_VERSION} to {VERSION}")]
    Version(u32),
    /// It is not as it was written.
    #[error("the snapshot is torn or altered: {reason}")]
    Damaged {
        /// What was found.
        reason: String,
    },
    /// The index cannot take it.
    #[error(transparent)]
    Index(IndexError),
    /// Reading or writing failed.
    #[error("the snapshot cannot be read or written")]
    Io(#[from] io::Error),
}

fn damaged(reason: impl Into<String>) -> SnapshotError {
    SnapshotError::Damaged { reason: reason.into() }
}

impl From<IndexError> for SnapshotError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Damaged { reason } => Self::Damaged { reason },
            other => Self::Index(other),
        }
    }
}

/// Keeps the checksum of what is written.
struct Summed<W> {
    out: W,
    sum: Xxh3,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes an edition whole. Neither readers nor the writer wait for it.
pub(crate) fn write(
    edition: &Edition,
    thresholds: &Thresholds,
    out: impl Write,
) -> Result<SnapshotInfo, SnapshotError> {
    let mut out = Summed { out, sum: Xxh3::new() };
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut encoder = zstd::Encoder::new(&mut out, ZSTD_LEVEL)?;
    encoder.include_checksum(true)?;
    let mut head = Vec::new();
    put_number(&mut head, edition.sequence);
    put_number(&mut head, edition.timeline);
    edition.marks.put(&mut head);
    put_number(&mut head, edition.postings);
    put_chunk(&mut encoder, &head)?;
    write_records(edition, Marks::default(), thresholds.chunk_bytes, |chunk| put_chunk(&mut encoder, chunk))?;
    // An empty chunk is the end.
    put_chunk(&mut encoder, &[])?;
    encoder.finish()?;
    let sum = out.sum.digest();
    out.out.write_all(&sum.to_le_bytes())?;
    out.out.flush()?;
    let Edition { sequence, timeline, marks, postings, .. } = *edition;
    Ok(Head { sequence, timeline, marks, postings }.info())
}

fn put_chunk(out: &mut impl Write, chunk: &[u8]) -> Result<(), SnapshotError> {
    if chunk.len() > CHUNK_BYTES_MAX {
        return Err(SnapshotError::Index(IndexError::Full("bytes of a label in a snapshot")));
    }
    let mut framed = Vec::with_capacity(chunk.len() + 10);
    put_bytes(&mut framed, chunk);
    Ok(out.write_all(&framed)?)
}

/// What the first chunk says.
#[derive(Clone, Copy)]
struct Head {
    sequence: u64,
    timeline: u64,
    marks: Marks,
    postings: u64,
}

impl Head {
    fn read(version: u32, chunk: &[u8]) -> Option<Self> {
        let mut reader = Reader(chunk);
        let sequence = reader.number()?;
        let timeline = if version == 1 { 0 } else { reader.number()? };
        let head = Self { sequence, timeline, marks: Marks::read(&mut reader)?, postings: reader.number()? };
        reader.is_empty().then_some(head)
    }

    fn info(&self) -> SnapshotInfo {
        let images = self.marks.rows.saturating_sub(self.marks.retired);
        SnapshotInfo {
            sequence: self.sequence,
            timeline: self.timeline,
            images: images.into(),
            postings: self.postings,
        }
    }
}

impl SnapshotInfo {
    /// Reads what a snapshot is of, and checks that it is as it was written.
    ///
    /// # Errors
    /// When it is none, or not as it was written.
    pub fn read(input: impl Read + Seek) -> Result<Self, SnapshotError> {
        open(input).map(|(head, _)| head.info())
    }
}

/// The body of a snapshot, while it is decompressed.
type Body<R> = BufReader<zstd::Decoder<'static, BufReader<Take<R>>>>;

/// Checks a snapshot and reads its head; gives the chunks after it.
fn open<R: Read + Seek>(mut input: R) -> Result<(Head, Chunks<Body<R>>), SnapshotError> {
    let (version, body_len) = check(&mut input)?;
    input.seek(SeekFrom::Start(HEAD_LEN))?;
    let mut decoder = zstd::Decoder::new(input.take(body_len))?.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    let mut chunks = Chunks(BufReader::with_capacity(BUFFER_BYTES, decoder));
    let head = Head::read(version, &chunks.next()?).ok_or_else(|| damaged("its head cannot be read"))?;
    Ok((head, chunks))
}

/// Reads a snapshot; everything is checked, so that a damaged one is an error and never a wrong answer.
pub(crate) fn read(input: impl Read + Seek, thresholds: &Thresholds) -> Result<(Writer, SnapshotInfo), SnapshotError> {
    let (head, mut chunks) = open(input)?;
    let mut writer = Writer::new(thresholds, 0);
    let mut last_section = 0;
    loop {
        let chunk = chunks.next()?;
        if chunk.is_empty() {
            break;
        }
        load_chunk(&chunk, &mut last_section, &mut writer)?.map_err(damaged)?;
    }
    let in_frame = !chunks.0.fill_buf().map_err(unreadable)?.is_empty();
    if in_frame || !chunks.0.into_inner().finish().fill_buf()?.is_empty() {
        return Err(damaged("something follows its end"));
    }
    if writer.state.postings.total() != head.postings {
        return Err(damaged("postings are missing"));
    }
    finish(&mut writer, head.marks)?;
    (writer.sequence, writer.timeline) = (head.sequence, head.timeline);
    Ok((writer, head.info()))
}

/// Checks what a snapshot is and its checksum; gives its version and the length of what is in between.
fn check(input: &mut (impl Read + Seek)) -> Result<(u32, u64), SnapshotError> {
    let len = input.seek(SeekFrom::End(0))?;
    input.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    input.take(HEAD_LEN).read_to_end(&mut head)?;
    let (magic, version) = head.split_at_checked(MAGIC.len()).ok_or(SnapshotError::Foreign)?;
    if magic != MAGIC {
        return Err(SnapshotError::Foreign);
    }
    let version: [u8; 4] = version.try_into().map_err(|_| damaged("it ends in its head"))?;
    let version = u32::from_le_bytes(version);
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(SnapshotError::Version(version));
    }
    let body_len = len.checked_sub(HEAD_LEN + CHECKSUM_LEN).ok_or_else(|| damaged("it ends in its head"))?;
    let mut sum = Xxh3::new();
    sum.update(&head);
    let mut left = body_len;
    let mut buffer = vec![0; BUFFER_BYTES];
    while left > 0 {
        let len = input.read(&mut buffer)?;
        let part = buffer.get(..len.min(usize::try_from(left).unwrap_or(usize::MAX))).unwrap_or_default();
        if part.is_empty() {
            return Err(damaged("it became shorter while it was read"));
        }
        sum.update(part);
        left -= part.len() as u64;
    }
    input.seek(SeekFrom::Start(HEAD_LEN + body_len))?;
    let mut stored = [0; 8];
    input.read_exact(&mut stored)?;
    if u64::from_le_bytes(stored) == sum.digest() {
        Ok((version, body_len))
    } else {
        Err(damaged("its checksum is wrong"))
    }
}

/// The chunks of the body, each with its length before it.
struct Chunks<R>(R);

impl<R: BufRead> Chunks<R> {
    fn next(&mut self) -> Result<Vec<u8>, SnapshotError> {
        let len = self.number()?;
        let len = usize::try_from(len).ok().filter(|&len| len <= CHUNK_BYTES_MAX);
        let len = len.ok_or_else(|| damaged("a chunk is too long"))?;
        let mut chunk = Vec::new();
        (&mut self.0).take(len as u64).read_to_end(&mut chunk).map_err(unreadable)?;
        if chunk.len() == len { Ok(chunk) } else { Err(damaged("it ends too early")) }
    }

    fn number(&mut self) -> Result<u64, SnapshotError> {
        let mut bytes = Vec::new();
        loop {
            let mut byte = [0];
            self.0.read_exact(&mut byte).map_err(unreadable)?;
            bytes.extend_from_slice(&byte);
            let [last] = byte;
            if last < 0x80 || bytes.len() >= 10 {
                return Reader(&bytes).number().ok_or_else(|| damaged("a length cannot be read"));
            }
        }
    }
}

/// The checksum was right, so what cannot be decompressed was never a snapshot.
fn unreadable(error: io::Error) -> SnapshotError {
    damaged(format!("it cannot be decompressed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p10_a_chunk_is_at_most_so_long_when_written_and_when_read() {
        let mut chunk = vec![7; CHUNK_BYTES_MAX];
        let mut out = Vec::new();
        put_chunk(&mut out, &chunk).unwrap();
        assert_eq!(Chunks(&out[..]).next().unwrap(), chunk);
        chunk.push(7);
        assert!(matches!(put_chunk(&mut io::sink(), &chunk), Err(SnapshotError::Index(IndexError::Full(_)))));
        out.clear();
        put_bytes(&mut out, &chunk);
        assert!(matches!(Chunks(&out[..]).next(), Err(SnapshotError::Damaged { .. })));
    }
}
