//! What bodies may cost while they are received: memory, readers of large documents, and time.
//!
//! - RCP-1: bytes of bodies that are held at once are bounded, over all connections and for each caller (P10).
//! - RCP-2: a sender keeps a least pace, or is cut off. Only waiting for the sender counts, not our own work.
//! - RCP-3: whoever waits for room or for a reader is answered in bounded time.

use crate::code::Code;
use crate::problem::Problem;
use crate::shares::{Account, Share, Shares};
use axum::body::{Body, BodyDataStream, HttpBody};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A body of so many bytes needs no room of its own: connections are bounded too.
const FREE_BYTES: usize = 16 << 10;

/// Room is taken in pieces of so many bytes.
const ROOM_BYTES: usize = 64 << 10;

/// Of what is left of a body after an early answer, so many bytes are taken in and thrown away.
const UNREAD_BYTES_MAX: usize = 64 << 20;

/// The least pace of a sender: a body, or at least so many bytes of it, come within that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes.
    pub bytes: u64,
    /// The time for them.
    pub within: Duration,
}

/// What bodies may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceptionLimits {
    /// Bytes of bodies that are held at once. A caller may hold a quarter.
    pub held_bytes: u64,
    /// Large documents that are read at once. A caller may have half of them.
    pub readers: u32,
    /// The longest wait for room, or for a reader.
    pub wait: Duration,
    /// The least pace.
    pub pace: Pace,
}

impl ReceptionLimits {
    /// Those of a service whose bodies may have so many bytes: a caller has room for one, packed and unpacked.
    pub fn for_bodies(body_bytes: u64) -> Self {
        Self {
            held_bytes: body_bytes.saturating_mul(8).max(256 << 20),
            readers: 8,
            wait: Duration::from_secs(10),
            pace: Pace { bytes: 1 << 20, within: Duration::from_secs(30) },
        }
    }
}

/// The place where bodies are received.
pub struct Reception {
    limits: ReceptionLimits,
    room: Shares,
    readers: Shares,
}

impl Reception {
    /// One with these limits.
    pub fn new(limits: ReceptionLimits) -> Self {
        let pieces = u32::try_from(limits.held_bytes / ROOM_BYTES as u64).unwrap_or(u32::MAX);
        Self {
            limits,
            room: Shares::new(pieces, pieces / 4),
            readers: Shares::new(limits.readers, limits.readers.div_ceil(2)),
        }
    }

    /// A body that begins to come in.
    pub fn incoming(&self, body: Body) -> Incoming {
        let pace = self.limits.pace;
        Incoming { stream: body.into_data_stream(), pace, came: 0, left: pace.within, ended: false }
    }

    /// A body that is taken in and thrown away when nobody comes to read it: an answer before its end must not cost the
    /// connection, on which the next request may be under way.
    pub fn certain(&self, body: Body) -> Body {
        if body.is_end_stream() {
            return body;
        }
        Body::from_stream(Certain { stream: body.into_data_stream(), is_read: false, pace: self.limits.pace })
    }

    /// Room for what a caller sends; none is taken yet.
    pub fn room(&self, caller: &str) -> Room {
        Room { account: self.room.account(caller), wait: self.limits.wait, taken: None, pieces: 0 }
    }

    /// A reader of large documents.
    pub async fn reader(&self, caller: &str) -> Result<Share, Problem> {
        let reader = self.readers.account(caller).take(1, self.limits.wait).await;
        reader.ok_or_else(|| busy("as many large documents are read as can be"))
    }
}

/// Room in memory; free again when it is dropped.
pub struct Room {
    account: Account,
    wait: Duration,
    taken: Option<Share>,
    pieces: u32,
}

impl Room {
    /// Makes it hold so many bytes; it does not shrink.
    pub async fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        let wanted = u32::try_from(bytes.saturating_sub(FREE_BYTES).div_ceil(ROOM_BYTES)).unwrap_or(u32::MAX);
        let Some(more) = wanted.checked_sub(self.pieces).filter(|more| *more > 0) else { return Ok(()) };
        let share = self.account.take(more, self.wait).await.ok_or_else(|| busy("no memory is free for the body"))?;
        match &mut self.taken {
            Some(taken) => taken.add(share),
            none => *none = Some(share),
        }
        self.pieces = wanted;
        Ok(())
    }
}

fn busy(what: &str) -> Problem {
    Problem::new(Code::Busy, format!("{what}, of this caller or of all; try again")).retry_after(10)
}

/// The body ended too early.
pub fn cut() -> Problem {
    Problem::new(Code::BodyCut, "the body ended before its end")
}

/// A body on its way in. What is left of it when this is dropped is taken in and thrown away: a sender that is cut off in
/// the middle does not read the answer.
pub struct Incoming {
    stream: BodyDataStream,
    pace: Pace,
    /// Bytes towards the pace, and the time that is left for the rest of them.
    came: u64,
    left: Duration,
    ended: bool,
}

impl Incoming {
    /// The next part; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let began = Instant::now();
        let next = timeout(self.left, self.stream.next()).await;
        let part = match next {
            Ok(Some(Ok(part))) => part,
            Ok(None) => {
                self.ended = true;
                return Ok(None);
            }
            Ok(Some(Err(_))) => {
                self.ended = true;
                return Err(cut());
            }
            Err(_) => {
                self.ended = true;
                return Err(self.too_slow());
            }
        };
        self.left = self.left.saturating_sub(began.elapsed());
        self.came += part.len() as u64;
        if self.came >= self.pace.bytes {
            (self.came, self.left) = (0, self.pace.within);
        }
        Ok(Some(part))
    }

    /// The parts, for readers of the standard kind.
    pub fn into_stream(self) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
        stream::unfold(self, |mut incoming| async {
            let part = incoming.next().await.transpose()?;
            Some((part.map_err(|_| std::io::ErrorKind::UnexpectedEof.into()), incoming))
        })
    }

    fn too_slow(&self) -> Problem {
        let Pace { bytes, within } = self.pace;
        Problem::new(
            Code::BodyCut,
            format!("the body came too slowly: it, or {bytes} bytes of it, have to come within {} s", within.as_secs()),
        )
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.ended {
            return;
        }
        let stream = std::mem::replace(&mut self.stream, Body::empty().into_data_stream());
        let mut rest = Self { stream, ended: true, ..*self };
        runtime.spawn(async move {
            let mut unread = 0;
            while let Ok(Some(part)) = rest.next().await {
                unread += part.len();
                if unread > UNREAD_BYTES_MAX {
                    return;
                }
            }
        });
    }
}

/// A body that somebody may come to read, and then answers for.
struct Certain {
    stream: BodyDataStream,
    is_read: bool,
    pace: Pace,
}

impl Stream for Certain {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.is_read = true;
        self.stream.poll_next_unpin(context)
    }
}

impl Drop for Certain {
    fn drop(&mut self) {
        if !self.is_read {
            let stream = std::mem::replace(&mut self.stream, Body::empty().into_data_stream());
            drop(Incoming { stream, pace: self.pace, came: 0, left: self.pace.within, ended: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    const LIMITS: ReceptionLimits = ReceptionLimits {
        held_bytes: 16 * ROOM_BYTES as u64,
        readers: 2,
        wait: Duration::from_secs(10),
        pace: Pace { bytes: 1000, within: Duration::from_secs(30) },
    };

    /// A body whose parts come after so many seconds each.
    fn body(parts: Vec<(u64, usize)>) -> Body {
        Body::from_stream(stream::iter(parts).then(|(seconds, bytes)| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok::<_, std::io::Error>(vec![b'x'; bytes])
        }))
    }

    /// Bytes that are received, or the second at which the sender is cut off.
    async fn receive(parts: Vec<(u64, usize)>) -> Result<usize, u64> {
        let mut incoming = Reception::new(LIMITS).incoming(body(parts));
        let (began, mut received) = (Instant::now(), 0);
        loop {
            match incoming.next().await {
                Ok(Some(part)) => received += part.len(),
                Ok(None) => return Ok(received),
                Err(problem) => {
                    assert_eq!(
                        (problem.status(), &problem.document()["code"]),
                        (StatusCode::BAD_REQUEST, &"body-cut".into())
                    );
                    return Err(began.elapsed().as_secs());
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn p10_a_sender_keeps_the_least_pace_or_is_cut_off() {
        for (what, parts, expected) in [
            ("a small one in time", vec![(29, 1), (0, 1)], Ok(2)),
            ("a small one too late", vec![(29, 1), (2, 1)], Err(30)),
            ("nothing at all", vec![(1000, 1)], Err(30)),
            ("a byte now and then", vec![(12, 1); 100], Err(30)),
            ("the least pace", vec![(29, 1000); 20], Ok(20_000)),
            ("less than that after much", vec![(0, 100_000), (16, 999), (16, 999)], Err(30)),
        ] {
            assert_eq!(receive(parts).await, expected, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn p10_our_own_work_does_not_count_against_the_sender() {
        let mut incoming = Reception::new(LIMITS).incoming(body(vec![(1, 1); 20]));
        for _ in 0..20 {
            assert!(incoming.next().await.unwrap().is_some());
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        assert!(incoming.next().await.unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn p10_room_is_bounded_for_each_caller_and_waited_for_only_so_long() {
        let reception = Reception::new(LIMITS);
        let (mut first, mut second, mut other) = (reception.room("a"), reception.room("a"), reception.room("b"));
        first.hold(FREE_BYTES + 4 * ROOM_BYTES).await.unwrap();
        second.hold(FREE_BYTES).await.unwrap();
        let began = Instant::now();
        let refused = second.hold(FREE_BYTES + 1).await.unwrap_err();
        assert_eq!((refused.status(), began.elapsed()), (StatusCode::SERVICE_UNAVAILABLE, LIMITS.wait));
        other.hold(FREE_BYTES + 4 * ROOM_BYTES).await.unwrap();
        let (held, ()) = tokio::join!(second.hold(FREE_BYTES + 3 * ROOM_BYTES), async { drop(first) });
        held.unwrap();
        // It grows by what it does not have yet.
        second.hold(FREE_BYTES + 4 * ROOM_BYTES).await.unwrap();
        second.hold(FREE_BYTES + 4 * ROOM_BYTES + 1).await.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn p10_a_caller_has_half_of_the_readers() {
        let reception = Reception::new(LIMITS);
        let first = reception.reader("a").await.unwrap();
        let began = Instant::now();
        let refused = reception.reader("a").await.err().unwrap();
        assert_eq!((refused.status(), began.elapsed()), (StatusCode::SERVICE_UNAVAILABLE, LIMITS.wait));
        let _other = reception.reader("b").await.unwrap();
        drop(first);
        reception.reader("a").await.unwrap();
    }

    /// The largest body has room when it is packed too.
    #[tokio::test(start_paused = true)]
    async fn a_caller_has_room_for_the_largest_body_in_both_forms() {
        for body_bytes in [4096, 32 << 20, 1 << 30] {
            let mut room = Reception::new(ReceptionLimits::for_bodies(body_bytes)).room("a");
            room.hold(usize::try_from(2 * body_bytes).unwrap()).await.unwrap();
        }
    }
}
