//! One writer, group commit.
//!
//! - STO-1: a transaction sees what earlier ones of its group wrote, and readers see nothing of a group before it is durable.
//! - STO-2: no answer, not even one that changed nothing, leaves before the state that it rests on is synced (P8).
//! - STO-3: a transaction that fails leaves no trace.
//!
//! Since all of them run on one thread, every read-modify-write is atomic without a lock. The writes of a group are kept
//! in memory and go to the log in one batch, so that a group of any size costs one sync.

use crate::engine::{Engine, KeyWrite, closed};
use crate::family::Cf;
use crate::read::{Read, ReadExt, Visit};
use crate::timelines;
use scheduler_core::ports::{StoreError, StoreResult};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot, watch};

/// Transactions that wait at most; more make their callers wait.
const QUEUE_LEN_MAX: usize = 1024;
/// Transactions of one group at most.
const GROUP_LEN_MAX: usize = 256;
/// A group takes no further transaction when it holds so many bytes.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// The sequence number of the last change of the catalog.
pub(crate) const CATALOG_HEAD: &[u8] = b"catalog-head";
/// The number of the last change of a schedule.
pub(crate) const SCHEDULES_HEAD: &[u8] = b"schedules-head";
/// The number of the last report.
pub(crate) const REPORTS_HEAD: &[u8] = b"reports-head";

/// A transaction that waits.
pub(crate) type Job = Box<dyn FnOnce(&mut Tx<'_>) -> Answer + Send>;

/// What a transaction came to.
pub(crate) struct Answer {
    /// Whether its writes count.
    pub(crate) keep: bool,
    /// Tells the caller, with the error when the group was lost.
    pub(crate) tell: Box<dyn FnOnce(Option<StoreError>) + Send>,
}

/// Where others hear of what has become durable.
#[derive(Debug)]
pub(crate) struct Signals {
    /// The last change of the catalog.
    pub(crate) catalog: watch::Sender<u64>,
    /// Counts the groups that wrote to an outbox.
    pub(crate) outbox: watch::Sender<u64>,
    /// The last change of a schedule.
    pub(crate) schedules: watch::Sender<u64>,
    /// The last report.
    pub(crate) reports: watch::Sender<u64>,
    /// Whether a write failed since the database was opened.
    pub(crate) failing: watch::Sender<bool>,
}

/// What a group has to tell when it is durable.
#[derive(Debug, Clone, Copy, Default)]
struct News {
    /// The last change of the catalog in the group.
    catalog_head: Option<u64>,
    /// The last change of a schedule in the group.
    schedules_head: Option<u64>,
    /// The last report in the group.
    reports_head: Option<u64>,
    /// Whether the group wrote to an outbox.
    outbox_changed: bool,
}

/// The thread that writes, and the way to it.
pub(crate) struct Committer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Committer {
    /// Starts the thread.
    pub(crate) fn start(engine: Arc<Engine>, signals: Arc<Signals>) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE_LEN_MAX);
        let thread = std::thread::Builder::new()
            .name("store-committer".to_owned())
            .spawn(move || Loop { engine, signals, timeline: timelines::random() }.run(queue))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Hands a transaction over as it is.
    pub(crate) async fn send(&self, job: Job) -> StoreResult<()> {
        self.jobs.as_ref().ok_or_else(closed)?.send(job).await.map_err(|_| closed())
    }

    /// Runs a transaction; returns when its group is durable. A caller that goes away does not stop it.
    pub(crate) async fn submit<T: Send + 'static>(
        &self,
        transaction: impl FnOnce(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let (sender, answer) = oneshot::channel();
        self.send(Box::new(move |tx| {
            let result = transaction(tx);
            Answer {
                keep: result.is_ok(),
                // Nobody listens when the caller has gone away.
                tell: Box::new(move |lost| drop(sender.send(lost.map_or(result, Err)))),
            }
        }))
        .await?;
        answer.await.map_err(|_| closed())?
    }
}

impl Drop for Committer {
    /// Carries out what was handed over, so that the folder is free when this returns.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's committer had panicked");
        }
    }
}

struct Loop {
    engine: Arc<Engine>,
    signals: Arc<Signals>,
    /// Of what this start changes in the catalog (TIM-1).
    timeline: u64,
}

impl Loop {
    fn run(self, mut queue: mpsc::Receiver<Job>) {
        while let Some(first) = queue.blocking_recv() {
            self.group(first, &mut queue);
        }
    }

    fn group(&self, first: Job, queue: &mut mpsc::Receiver<Job>) {
        let repaired = self.repair();
        let engine = Arc::clone(&self.engine);
        let mut answers = Vec::new();
        let result = repaired.and_then(|()| {
            engine.read(|view| {
                let mut tx = Tx::new(view, self.timeline);
                let mut next = Some(first);
                while let Some(job) = next {
                    answers.push(tx.run(job));
                    let full = answers.len() >= GROUP_LEN_MAX || tx.bytes >= GROUP_BYTES_MAX;
                    next = if full { None } else { queue.try_recv().ok() };
                }
                Ok((tx.news, std::mem::take(&mut tx.when_durable), tx.into_writes()))
            })
        });
        let result = result.and_then(|(news, when_durable, writes)| {
            if !writes.is_empty() {
                self.engine.write(writes).inspect_err(|_| {
                    self.signals.failing.send_replace(true);
                })?;
            }
            Ok((news, when_durable))
        });
        match result {
            Ok((news, when_durable)) => {
                when_durable.into_iter().for_each(|note| note());
                if let Some(head) = news.catalog_head {
                    self.signals.catalog.send_replace(head);
                }
                if let Some(head) = news.schedules_head {
                    self.signals.schedules.send_replace(head);
                }
                if let Some(head) = news.reports_head {
                    self.signals.reports.send_replace(head);
                }
                if news.outbox_changed {
                    self.signals.outbox.send_modify(|groups| *groups += 1);
                }
                for answer in answers {
                    (answer.tell)(None);
                }
            }
            Err(error) => {
                tracing::warn!(%error, cause = error_cause(&error), "a group of writes was lost");
                for answer in answers {
                    (answer.tell)(Some(lost(&error)));
                }
            }
        }
    }

    /// Opens the database again after a failed write. What that write held may have become durable, hence the signals.
    fn repair(&self) -> StoreResult<()> {
        if !*self.signals.failing.borrow() {
            return Ok(());
        }
        self.engine.reopen()?;
        let head = |key| self.engine.read(|view| view.number(Cf::Meta, key));
        self.signals.catalog.send_replace(head(CATALOG_HEAD)?);
        self.signals.schedules.send_replace(head(SCHEDULES_HEAD)?);
        self.signals.reports.send_replace(head(REPORTS_HEAD)?);
        self.signals.outbox.send_modify(|groups| *groups += 1);
        self.signals.failing.send_replace(false);
        tracing::info!("the store takes writes again");
        Ok(())
    }
}

/// The error of one member of a lost group: the engine's own error cannot be shared, but its words can.
fn lost(error: &StoreError) -> StoreError {
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Cause(String);
    StoreError::Unavailable { what: "writing".to_owned(), source: Box::new(Cause(error_cause(error))) }
}

fn error_cause(error: &StoreError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// What was written to a family; `None` is a deletion.
type Overlay = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
/// A key, and what the overlay said of it before, if anything.
type Undo = (Cf, Vec<u8>, Option<Option<Vec<u8>>>);

/// A transaction's view: what is durable, and over it what the group has written.
pub(crate) struct Tx<'a> {
    base: &'a dyn Read,
    timeline: u64,
    overlays: [Overlay; Cf::ALL.len()],
    /// What the running transaction replaced in the overlay, to take it back.
    undo: Vec<Undo>,
    bytes: usize,
    /// What the group has to tell.
    news: News,
    when_durable: Vec<Note>,
}

/// What is to be done when a group is durable.
type Note = Box<dyn FnOnce() + Send>;

impl<'a> Tx<'a> {
    /// The view of a new group.
    fn new(base: &'a dyn Read, timeline: u64) -> Self {
        Self {
            base,
            timeline,
            overlays: std::array::from_fn(|_| Overlay::new()),
            undo: Vec::new(),
            bytes: 0,
            news: News::default(),
            when_durable: Vec::new(),
        }
    }

    /// Has something done when the group is durable, before anybody hears of it.
    pub(crate) fn when_durable(&mut self, note: impl FnOnce() + Send + 'static) {
        self.when_durable.push(Box::new(note));
    }

    fn run(&mut self, job: Job) -> Answer {
        let (news, notes) = (self.news, self.when_durable.len());
        let answer = job(self);
        if answer.keep {
            self.undo.clear();
        } else {
            self.news = news;
            self.when_durable.truncate(notes);
            while let Some((cf, key, before)) = self.undo.pop() {
                if let Some(overlay) = self.overlays.get_mut(cf as usize) {
                    match before {
                        Some(before) => overlay.insert(key, before),
                        None => overlay.remove(&key),
                    };
                }
            }
        }
        answer
    }

    fn into_writes(self) -> Vec<KeyWrite> {
        let families = Cf::ALL.into_iter().zip(self.overlays);
        families
            .flat_map(|(cf, overlay)| overlay.into_iter().map(move |(key, value)| KeyWrite { cf, key, value }))
            .collect()
    }

    fn overlay(&self, cf: Cf) -> Option<&Overlay> {
        self.overlays.get(cf as usize)
    }

    fn set(&mut self, cf: Cf, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        let Some(overlay) = self.overlays.get_mut(cf as usize) else { return };
        let before = match overlay.entry(key.clone()) {
            Entry::Occupied(mut slot) => Some(slot.insert(value)),
            Entry::Vacant(slot) => {
                slot.insert(value);
                None
            }
        };
        self.undo.push((cf, key, before));
    }

    /// Writes a value.
    pub(crate) fn put(&mut self, cf: Cf, key: Vec<u8>, value: Vec<u8>) {
        self.set(cf, key, Some(value));
    }

    /// Writes a document.
    pub(crate) fn put_doc<T: serde::Serialize>(&mut self, cf: Cf, key: Vec<u8>, value: &T) -> StoreResult<()> {
        self.put(cf, key, crate::doc::encode(value)?);
        Ok(())
    }

    /// Writes a number.
    pub(crate) fn put_number(&mut self, cf: Cf, key: Vec<u8>, number: u64) {
        self.put(cf, key, number.to_be_bytes().to_vec());
    }

    /// Removes a key.
    pub(crate) fn delete(&mut self, cf: Cf, key: Vec<u8>) {
        self.set(cf, key, None);
    }

    /// The next number of a counter; the first is 1.
    pub(crate) fn next_number(&mut self, cf: Cf, key: &[u8]) -> StoreResult<u64> {
        let next = self.number(cf, key)? + 1;
        self.put_number(cf, key.to_vec(), next);
        Ok(next)
    }

    /// The next number of the catalog; heard by others once it is durable.
    pub(crate) fn next_change(&mut self) -> StoreResult<u64> {
        let next = self.next_number(Cf::Meta, CATALOG_HEAD)?;
        timelines::note(self, next, self.timeline)?;
        self.news.catalog_head = Some(next);
        Ok(next)
    }

    /// The next number of the schedules' changes; heard by others once it is durable.
    pub(crate) fn next_schedule_change(&mut self) -> StoreResult<u64> {
        let next = self.next_number(Cf::Meta, SCHEDULES_HEAD)?;
        self.news.schedules_head = Some(next);
        Ok(next)
    }

    /// The next number of the reports; heard by others once it is durable.
    pub(crate) fn next_report(&mut self) -> StoreResult<u64> {
        let next = self.next_number(Cf::Meta, REPORTS_HEAD)?;
        self.news.reports_head = Some(next);
        Ok(next)
    }

    /// Lets others hear, once it is durable, that an outbox has changed.
    pub(crate) fn outbox_has_changed(&mut self) {
        self.news.outbox_changed = true;
    }
}

impl Read for Tx<'_> {
    fn get(&self, cf: Cf, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        match self.overlay(cf).and_then(|overlay| overlay.get(key)) {
            Some(written) => Ok(written.clone()),
            None => self.base.get(cf, key),
        }
    }

    fn visit_from(&self, cf: Cf, prefix: &[u8], from: &[u8], inclusive: bool, visit: Visit<'_>) -> StoreResult<()> {
        let start = if inclusive { Bound::Included(from) } else { Bound::Excluded(from) };
        let written =
            self.overlay(cf).into_iter().flat_map(|overlay| overlay.range::<[u8], _>((start, Bound::Unbounded)));
        let mut written = written.take_while(|(key, _)| key.starts_with(prefix)).peekable();
        let mut going = true;
        self.base.visit_from(cf, prefix, from, inclusive, &mut |key, value| {
            // What was written before this key comes first; what was written at this key takes its place.
            while let Some((own_key, own)) = written.next_if(|(own_key, _)| own_key.as_slice() < key) {
                if let Some(own) = own {
                    going = visit(own_key, own)?;
                    if !going {
                        return Ok(false);
                    }
                }
            }
            going = match written.next_if(|(own_key, _)| own_key.as_slice() == key) {
                Some((_, Some(own))) => visit(key, own)?,
                Some((_, None)) => true,
                None => visit(key, value)?,
            };
            Ok(going)
        })?;
        for (key, own) in written {
            if !going {
                break;
            }
            if let Some(own) = own {
                going = visit(key, own)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
