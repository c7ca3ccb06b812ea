use super::*;
use parking_lot::Mutex;
use proptest::prelude::*;
use std::sync::mpsc as blocking_mpsc;
use tempfile::TempDir;

struct Fixture {
    committer: Committer,
    engine: Arc<Engine>,
    _folder: TempDir,
}

fn fixture() -> Fixture {
    let folder = TempDir::new().unwrap();
    let engine = Arc::new(Engine::open(folder.path()).unwrap());
    let signals = Arc::new(Signals {
        catalog: watch::Sender::new(0),
        outbox: watch::Sender::new(0),
        schedules: watch::Sender::new(0),
        reports: watch::Sender::new(0),
        failing: watch::Sender::new(false),
    });
    let committer = Committer::start(Arc::clone(&engine), signals).unwrap();
    Fixture { committer, engine, _folder: folder }
}

fn conflict() -> StoreError {
    StoreError::Conflict { what: "it".to_owned() }
}

fn get(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.read(|view| view.get(Cf::Meta, key)).unwrap()
}

/// Holds the committer inside a transaction until the sender is dropped, so that what comes next makes one group with it.
async fn hold(fixture: &Fixture) -> blocking_mpsc::Sender<()> {
    let (release, released) = blocking_mpsc::channel::<()>();
    let (entered, inside) = oneshot::channel();
    let job: Job = Box::new(move |_| {
        let _ = entered.send(());
        let _ = released.recv();
        Answer { keep: true, tell: Box::new(|_| ()) }
    });
    fixture.committer.send(job).await.unwrap();
    inside.await.unwrap();
    release
}

#[tokio::test]
async fn p08_the_log_is_synced_between_the_write_and_the_answer() {
    let fixture = fixture();
    let (told, seen) = oneshot::channel();
    let engine = Arc::clone(&fixture.engine);
    let job: Job = Box::new(move |tx| {
        let written_at = engine.wal_syncs();
        tx.put(Cf::Meta, b"k".to_vec(), b"v".to_vec());
        assert_eq!(get(&engine, b"k"), None, "STO-1: nobody sees it yet");
        let tell = move |lost: Option<StoreError>| {
            assert!(lost.is_none());
            let _ = told.send((written_at, engine.wal_syncs(), get(&engine, b"k")));
        };
        Answer { keep: true, tell: Box::new(tell) }
    });
    fixture.committer.send(job).await.unwrap();
    let (written_at, answered_at, value) = seen.await.unwrap();
    assert_eq!(answered_at, written_at + 1);
    assert_eq!(value.as_deref(), Some(&b"v"[..]));
}

#[tokio::test]
async fn p08_a_group_costs_one_sync_and_sees_itself() {
    let fixture = fixture();
    let before = fixture.engine.wal_syncs();
    let release = hold(&fixture).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let submits = (0..20_u64).map(|_| {
        let order = Arc::clone(&order);
        fixture.committer.submit(move |tx| {
            let number = tx.next_number(Cf::Meta, b"counter")?;
            order.lock().push(number);
            Ok(number)
        })
    });
    let mut submits: Vec<_> = submits.map(Box::pin).collect();
    // A first poll hands each over; none can be answered while the committer is held.
    for submit in &mut submits {
        assert!(std::future::Future::poll(submit.as_mut(), &mut noop()).is_pending());
    }
    drop(release);
    for submit in submits {
        submit.await.unwrap();
    }
    assert_eq!(*order.lock(), (1..=20).collect::<Vec<_>>());
    assert_eq!(fixture.engine.wal_syncs(), before + 1);
}

fn noop() -> std::task::Context<'static> {
    std::task::Context::from_waker(std::task::Waker::noop())
}

#[tokio::test]
async fn a_failed_transaction_leaves_no_trace_in_its_group() {
    let fixture = fixture();
    let release = hold(&fixture).await;
    let put = |key: &'static [u8], keep: bool| {
        fixture.committer.submit(move |tx| {
            tx.put(Cf::Meta, b"shared".to_vec(), key.to_vec());
            tx.put(Cf::Meta, key.to_vec(), b"v".to_vec());
            tx.delete(Cf::Meta, b"a".to_vec());
            if keep {
                tx.put(Cf::Meta, b"a".to_vec(), b"v".to_vec());
            }
            if keep { Ok(()) } else { Err(conflict()) }
        })
    };
    let mut submits = [Box::pin(put(b"a", true)), Box::pin(put(b"b", false)), Box::pin(put(b"c", true))];
    for submit in &mut submits {
        assert!(std::future::Future::poll(submit.as_mut(), &mut noop()).is_pending());
    }
    drop(release);
    let mut answers = Vec::new();
    for submit in submits {
        answers.push(submit.await.is_ok());
    }
    assert_eq!(answers, [true, false, true]);
    let values = [&b"shared"[..], b"a", b"b", b"c"].map(|key| get(&fixture.engine, key));
    assert_eq!(values, [Some(b"c".to_vec()), Some(b"v".to_vec()), None, Some(b"v".to_vec())]);
}

#[tokio::test]
async fn a_transaction_that_only_looks_costs_no_sync() {
    let fixture = fixture();
    let before = fixture.engine.wal_syncs();
    assert_eq!(fixture.committer.submit(|tx| tx.number(Cf::Meta, b"none")).await.unwrap(), 0);
    assert_eq!(fixture.engine.wal_syncs(), before);
}

#[tokio::test]
async fn the_end_carries_out_what_was_handed_over() {
    let fixture = fixture();
    let release = hold(&fixture).await;
    let mut submit = Box::pin(fixture.committer.submit(|tx| {
        tx.put(Cf::Meta, b"k".to_vec(), b"v".to_vec());
        Ok(())
    }));
    assert!(std::future::Future::poll(submit.as_mut(), &mut noop()).is_pending());
    drop(submit);
    drop(release);
    drop(fixture.committer);
    assert_eq!(get(&fixture.engine, b"k").as_deref(), Some(&b"v"[..]));
}

/// A base of plain memory.
struct Plain(BTreeMap<Vec<u8>, Vec<u8>>);

impl Read for Plain {
    fn get(&self, _: Cf, key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        Ok(self.0.get(key).cloned())
    }

    fn visit_from(&self, _: Cf, prefix: &[u8], from: &[u8], inclusive: bool, visit: Visit<'_>) -> StoreResult<()> {
        for (key, value) in self.0.range(from.to_vec()..) {
            if key.starts_with(prefix) && (inclusive || key != from) && !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0..3_u8, 0..4)
}

proptest! {
    #[test]
    fn a_scan_over_the_overlay_is_a_scan_of_the_merged_map(
        base in proptest::collection::btree_map(keys(), Just(vec![0]), 0..20),
        writes in proptest::collection::vec((keys(), any::<bool>()), 0..20),
        prefix in keys(),
        rest in keys(),
        inclusive in any::<bool>(),
        limit in 1..8_usize,
    ) {
        let plain = Plain(base.clone());
        let mut tx = Tx::new(&plain, 7);
        let mut merged = base;
        for (key, put) in writes {
            if put {
                tx.put(Cf::Meta, key.clone(), vec![1]);
                merged.insert(key, vec![1]);
            } else {
                tx.delete(Cf::Meta, key.clone());
                merged.remove(&key);
            }
        }
        let from = [prefix.clone(), rest].concat();
        let mut seen = Vec::new();
        tx.visit_from(Cf::Meta, &prefix, &from, inclusive, &mut |key, value| {
            seen.push((key.to_vec(), value.to_vec()));
            Ok(seen.len() < limit)
        }).unwrap();
        let expected: Vec<_> = merged
            .into_iter()
            .filter(|(key, _)| key.starts_with(&prefix) && (*key > from || inclusive && *key == from))
            .take(limit)
            .collect();
        prop_assert_eq!(seen, expected);
    }
}
