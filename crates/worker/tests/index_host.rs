//! The index of a service that goes on working: rebuilt, checkpointed, damaged, written out and restored.
#![expect(clippy::unwrap_used, reason = "the helpers of a test may panic")]

use rocksdb::{DB, IteratorMode, Options};
use scheduler_core::ports::{CatalogStore, Feed, Store};
use scheduler_impact_index::{Change, ImpactIndex, PutImage, Query, SnapshotError, Thresholds, Want};
use scheduler_model::purl::Component;
use scheduler_model::{CatalogComponent, Image, ImageDigest, ImagePlace, Selection, TenantId, Timestamp};
use scheduler_store::EmbeddedStore;
use scheduler_worker::{IndexHost, IndexState, RestoreError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(30);

/// Looks again and again until a condition holds, for at most [`PATIENCE`].
async fn until(what: &str, holds: impl Fn() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(1));
    let held = tokio::time::timeout(PATIENCE, async {
        while !holds() {
            looks.tick().await;
        }
    });
    held.await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

fn tenant() -> TenantId {
    TenantId::try_from("acme".to_owned()).unwrap()
}

fn image(number: usize) -> Image {
    Image {
        tenant: tenant(),
        digest: ImageDigest::of(&number.to_be_bytes()),
        place: ImagePlace::default(),
        components: vec![CatalogComponent { purl: format!("pkg:npm/a@{number}"), source: None }],
        used: None,
        no_purl: 0,
        generated_at: None,
        updated_at: Timestamp::from_millis(0),
        sequence: 0,
    }
}

/// A data folder with its store.
struct Data {
    folder: TempDir,
    store: Arc<EmbeddedStore>,
}

impl Data {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(EmbeddedStore::open(&folder.path().join("store")).unwrap());
        Self { folder, store }
    }

    async fn with_images(numbers: std::ops::Range<usize>) -> Self {
        let data = Self::new();
        data.put(numbers).await;
        data
    }

    async fn put(&self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            self.store.put_images(vec![image(number)]).await.unwrap();
        }
    }

    /// The image with another package than its own.
    async fn put_otherwise(&self, number: usize) {
        let components = image(number + 1000).components;
        self.store.put_images(vec![Image { components, ..image(number) }]).await.unwrap();
    }

    /// The catalog as a backup has it, opened in a folder of its own.
    async fn restored_copy(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        self.store.checkpoint_to(&folder.path().join("store")).await.unwrap();
        let store = Arc::new(EmbeddedStore::open(&folder.path().join("store")).unwrap());
        Self { folder, store }
    }

    /// The same folder after a start.
    fn opened_again(self) -> Self {
        let Self { folder, store } = self;
        drop(store);
        let store = Arc::new(EmbeddedStore::open(&folder.path().join("store")).unwrap());
        Self { folder, store }
    }

    fn index_folder(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("index.snapshot")
    }

    fn host(&self, checkpoint_every: u64) -> Arc<IndexHost> {
        let (catalog, feed): (Arc<dyn Store>, Arc<dyn Feed>) = (self.store.clone(), self.store.clone());
        IndexHost::open_with(catalog, feed, Some(self.index_folder()), checkpoint_every).unwrap()
    }

    /// An index that follows the catalog.
    async fn start(&self) -> Running {
        let host = self.host(u64::MAX);
        let stop = CancellationToken::new();
        let follow = tokio::spawn(host.clone().follow(stop.clone()));
        host.warm().await;
        Running { host, stop, follow }
    }

    /// Stores an index that is not made of the catalog: see [`put_into`].
    fn forge(&self, timeline: u64, images: impl Iterator<Item = (usize, usize)>) {
        let index = ImpactIndex::create(&self.index_folder(), Thresholds::default()).unwrap();
        put_into(&index, timeline, images);
        index.checkpoint().unwrap();
    }

    /// Has the index write a checkpoint and end.
    async fn checkpointed(&self) {
        self.start().await.stop().await;
    }

    async fn snapshot(&self) {
        let running = self.start().await;
        let file = std::fs::File::create(self.file()).unwrap();
        running.host.snapshot(file).unwrap().await.unwrap().unwrap();
        running.stop().await;
    }
}

struct Running {
    host: Arc<IndexHost>,
    stop: CancellationToken,
    follow: JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.stop.cancel();
        self.follow.await.unwrap();
    }

    fn images(&self) -> u64 {
        images(&self.host)
    }
}

fn images(host: &IndexHost) -> u64 {
    let (tenant, selection) = (tenant(), Selection::default());
    let query = Query { tenant: &tenant, selection: &selection, keys: None, usage_only: false };
    host.index().resolve(&query, Want::default()).candidates
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p01_no_acknowledged_image_is_missing_while_the_index_is_rebuilt() {
    let data = Data::new();
    let running = data.start().await;
    let before = running.host.index().stats().generation;
    let rebuilding = tokio::spawn({
        let host = running.host.clone();
        async move {
            for _ in 0..5 {
                host.rebuild().await.unwrap();
            }
        }
    });
    let mut put = 0;
    while !rebuilding.is_finished() || put < 20 {
        data.put(put..put + 1).await;
        put += 1;
        assert_eq!(running.host.caught_up(PATIENCE).await.unwrap(), IndexState::Warm);
        assert_eq!(running.images(), put as u64);
    }
    rebuilding.await.unwrap();
    assert_eq!(running.host.verify().await.unwrap(), None);
    assert_eq!(running.host.index().stats().generation, before + 5);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_checkpoints_are_written_on_the_way_and_a_killed_process_loses_what_came_after() {
    let data = Data::new();
    let host = data.host(10);
    let follow = tokio::spawn(host.clone().follow(CancellationToken::new()));
    for round in 0..3 {
        data.put(round * 10..round * 10 + 10).await;
        let beyond = 10 * round as u64;
        until("a checkpoint", || host.index().stats().checkpointed > beyond).await;
    }
    data.put(30..35).await;
    host.caught_up(PATIENCE).await.unwrap();
    // No last checkpoint: the task is just gone.
    follow.abort();
    follow.await.unwrap_err();
    let stored = host.index().stats().checkpointed;
    // A checkpoint that is being written holds the folder until it is done.
    let index = Arc::downgrade(&host.index());
    drop(host);
    until("the folder is free", || index.strong_count() == 0).await;
    let again = data.host(10).index().sequence();
    assert!((21..=35).contains(&stored) && again >= stored, "checkpointed at {stored}, stored up to {again}");
    let running = data.start().await;
    assert_eq!((running.images(), running.host.verify().await.unwrap()), (35, None));
    running.stop().await;
}

/// Each file of the folder, cut, with a flipped bit, full of something else, or gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_a_damaged_index_is_rebuilt_and_gives_no_wrong_answer() {
    let data = Data::with_images(0..40).await;
    data.checkpointed().await;
    let files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(data.index_folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with("LOG"))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    let restore = || {
        std::fs::remove_dir_all(data.index_folder()).unwrap();
        std::fs::create_dir(data.index_folder()).unwrap();
        files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    };
    for (path, bytes) in files.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let mut flipped = bytes.clone();
        let middle = bytes.len() / 2;
        *flipped.get_mut(middle).unwrap() ^= 1;
        for damaged in
            [Some(flipped), Some(bytes.iter().copied().take(middle).collect()), Some(b"something".to_vec()), None]
        {
            restore();
            match &damaged {
                Some(bytes) => std::fs::write(path, bytes).unwrap(),
                None => std::fs::remove_file(path).unwrap(),
            }
            let running = data.start().await;
            assert_eq!((running.images(), running.host.verify().await.unwrap()), (40, None), "{}", path.display());
            running.stop().await;
        }
    }
}

/// Somebody restored the catalog and left the index where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_an_index_that_is_ahead_of_its_catalog_is_rebuilt() {
    let (lost, restored) = (Data::with_images(0..9).await, Data::with_images(0..4).await);
    lost.checkpointed().await;
    copy(&lost.index_folder(), &restored.index_folder());
    let running = restored.start().await;
    assert_eq!((running.images(), running.host.verify().await.unwrap()), (4, None));
    restored.put(20..22).await;
    running.host.caught_up(PATIENCE).await.unwrap();
    assert_eq!((running.images(), running.host.verify().await.unwrap()), (6, None));
    running.stop().await;
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_a_restored_snapshot_catches_up_and_equals_the_original() {
    let data = Data::with_images(0..20).await;
    data.store.delete_image(&tenant(), &image(19).digest).await.unwrap();
    data.snapshot().await;
    // Later: more images, one that is put again, one that is gone, and one that was gone and is there again.
    data.put(20..30).await;
    data.put(3..4).await;
    data.put(19..20).await;
    data.store.delete_image(&tenant(), &image(5).digest).await.unwrap();
    std::fs::remove_dir_all(data.index_folder()).unwrap();
    let host = data.host(u64::MAX);
    let info = host.restore(data.file()).await.unwrap();
    assert_eq!((info.sequence, info.images), (21, 19));
    let head = data.store.catalog_head().await.unwrap();
    let stats = host.index().stats();
    assert_eq!((images(&host), stats.sequence, stats.checkpointed), (29, head, head));
    drop(host);
    let running = data.start().await;
    assert_eq!((running.images(), running.host.verify().await.unwrap()), (29, None));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_a_snapshot_of_another_catalog_is_refused() {
    let data = Data::with_images(0..10).await;
    let check = async |other: &Data, says: &str| {
        other.snapshot().await;
        let host = data.host(u64::MAX);
        let refused = host.restore(other.file()).await.unwrap_err();
        assert!(matches!(refused, RestoreError::OtherCatalog(_)), "{refused:?}");
        assert!(refused.to_string().contains(says), "{refused}");
        // Nothing of it has come in.
        assert_eq!((host.index().sequence(), host.index().stats().images), (0, 0));
    };
    check(&Data::with_images(0..11).await, "as of change 11, the catalog is at 10").await;
    // Other images, and the very same ones.
    check(&Data::with_images(100..105).await, "its change 5 is another one than the catalog's").await;
    check(&Data::with_images(0..10).await, "its change 10 is another one than the catalog's").await;
}

/// What a program wrote that did not know of timelines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_does_not_say_of_which_catalog_it_is_is_refused() {
    let data = Data::with_images(0..3).await;
    let index = ImpactIndex::in_memory(Thresholds::default());
    put_into(&index, 0, (0..3).map(|number| (number, number)));
    index.snapshot(std::fs::File::create(data.file()).unwrap()).unwrap();
    let refused = data.host(u64::MAX).restore(data.file()).await.unwrap_err();
    assert!(refused.to_string().contains("it does not say of which catalog it is"), "{refused}");
}

/// Puts images into an index as no catalog would: each with the package of another number.
fn put_into(index: &ImpactIndex, timeline: u64, images: impl Iterator<Item = (usize, usize)>) {
    let tenant = tenant();
    for (sequence, (number, package)) in (1..).zip(images) {
        let Image { digest, place, .. } = image(number);
        let packages = [Component::parse(&format!("pkg:npm/a@{package}"), None).unwrap()];
        let put = Some(PutImage { place: &place, components: &[0], used: None });
        index.apply(&packages, &[Change { sequence, timeline, tenant: &tenant, digest: &digest, put }]).unwrap();
    }
}

/// The index of another catalog, be it of the same images, is found out when it is opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_an_index_of_another_catalog_is_rebuilt_and_gives_no_wrong_answer() {
    for (other, further) in [(0..20, 20..60), (100..120, 20..60), (0..70, 20..60)] {
        let data = Data::with_images(0..20).await;
        let foreign = Data::with_images(other).await;
        foreign.put_otherwise(3).await;
        foreign.checkpointed().await;
        copy(&foreign.index_folder(), &data.index_folder());
        data.put(further).await;
        let running = data.start().await;
        running.host.warm().await;
        assert_eq!(running.host.index().stats().images, 60);
        assert_eq!(running.host.verify().await.unwrap(), None);
        running.stop().await;
    }
}

/// A catalog and its copy have gone two ways, and have the same images and as many changes since. An index or a snapshot from before
/// is good for both, one from after for its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_a_catalog_that_was_restored_and_went_another_way_takes_nothing_from_the_first_way() {
    let first = Data::with_images(0..30).await;
    first.snapshot().await;
    let second = first.restored_copy().await;
    // No change since: the snapshot and the index of the first are of the second, too.
    copy(&first.index_folder(), &second.index_folder());
    let host = second.host(u64::MAX);
    assert_eq!(host.index().sequence(), 30);
    assert_eq!(host.restore(first.file()).await.unwrap().sequence, 30);
    drop(host);
    let first = first.opened_again();
    first.put_otherwise(3).await;
    second.put_otherwise(4).await;
    for data in [&first, &second] {
        data.put(30..1000).await;
    }
    first.snapshot().await;
    let host = second.host(u64::MAX);
    let refused = host.restore(first.file()).await.unwrap_err();
    assert!(matches!(refused, RestoreError::OtherCatalog(_)), "{refused:?}");
    drop(host);
    std::fs::remove_dir_all(second.index_folder()).unwrap();
    copy(&first.index_folder(), &second.index_folder());
    let running = second.start().await;
    assert_eq!((running.images(), running.host.verify().await.unwrap()), (1000, None));
    running.stop().await;
}

/// A checkpoint of a program that did not know of timelines, and a folder of the catalog from then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_without_a_timeline_is_rebuilt_once() {
    let data = Data::with_images(0..5).await;
    data.forge(0, (0..5).map(|number| (number, number + 1)));
    let running = data.start().await;
    assert_eq!((running.images(), running.host.verify().await.unwrap()), (5, None));
    let generation = running.host.index().stats().generation;
    running.stop().await;
    let running = data.start().await;
    assert_eq!(running.host.index().stats().generation, generation);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_of_the_catalog_that_cannot_be_read_does_not_keep_the_index_cold() {
    let data = Data::with_images(0..10).await;
    data.checkpointed().await;
    let Data { folder, store } = data;
    drop(store);
    let path = folder.path().join("store");
    {
        let families = DB::list_cf(&Options::default(), &path).unwrap();
        let db = DB::open_cf(&Options::default(), &path, families).unwrap();
        let changes = db.cf_handle("changes").unwrap();
        let (key, _) = db.iterator_cf(changes, IteratorMode::Start).next().unwrap().unwrap();
        db.put_cf(changes, key, b"garbage").unwrap();
    }
    let store = Arc::new(EmbeddedStore::open(&path).unwrap());
    let data = Data { folder, store };
    let running = tokio::time::timeout(PATIENCE, data.start()).await.unwrap();
    assert_eq!(running.images(), 10);
    running.stop().await;
}

/// An index that says to be of this catalog and is not as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p09_verify_names_the_first_difference_and_a_rebuild_mends_it() {
    let data = Data::with_images(0..60).await;
    let timeline = data.store.timeline_at(60).await.unwrap();
    data.forge(timeline, (0..60).map(|number| (number, if [10, 11].contains(&number) { 1000 } else { number })));
    let running = data.start().await;
    let difference = running.host.verify().await.unwrap().unwrap();
    let first = image(10).digest.min(image(11).digest);
    let lacks = if first == image(10).digest { "npm/a@10" } else { "npm/a@11" };
    let said = format!("image {first} of tenant acme: component {lacks} is missing or counts as unused");
    assert_eq!(difference.to_string(), said);
    running.host.rebuild().await.unwrap();
    assert_eq!(running.host.verify().await.unwrap(), None);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_no_snapshot_changes_nothing() {
    let data = Data::with_images(0..3).await;
    data.checkpointed().await;
    let host = data.host(u64::MAX);
    let missing = host.restore(data.file()).await.unwrap_err();
    assert!(matches!(missing, RestoreError::Snapshot(SnapshotError::Io(_))), "{missing:?}");
    std::fs::write(data.file(), b"something else").unwrap();
    let foreign = host.restore(data.file()).await.unwrap_err();
    assert!(matches!(foreign, RestoreError::Snapshot(SnapshotError::Foreign)), "{foreign:?}");
    assert_eq!((host.index().sequence(), images(&host)), (3, 3));
}
