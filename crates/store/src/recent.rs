use parking_lot::Mutex;
use scheduler_model::Image;
use std::collections::VecDeque;
use std::sync::Arc;

/// Images are kept up to so many bytes, estimated; further ones have to be read from disk.
const BYTES_MAX: usize = 64 << 20;
/// What a component costs beside its text.
const COMPONENT_BYTES: usize = 96;

/// The images that have become durable last, for the one who follows the catalog: what this process has just written it does
/// not read and decode again.
///
/// They are taken in the order of their sequences and each once. What is not here is in the catalog.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    images: VecDeque<Arc<Image>>,
    bytes: usize,
}

impl Recent {
    /// Those of the images for which there is room now, each in its place. The others are dropped here, where it costs the caller's
    /// time and not that of the thread that writes.
    pub(crate) fn admit(&self, images: Vec<Image>) -> Vec<Option<Image>> {
        let mut bytes = self.0.lock().bytes;
        let mut admit = |image: Image| {
            bytes += bytes_of(&image);
            Some(image).filter(|_| bytes <= BYTES_MAX)
        };
        images.into_iter().map(&mut admit).collect()
    }

    /// Keeps an image under its sequence, which is higher than that of every other one, if there is room.
    pub(crate) fn keep(&self, image: Image) {
        let mut kept = self.0.lock();
        let bytes = bytes_of(&image);
        // Those that came first are taken first, hence they stay.
        if kept.bytes + bytes <= BYTES_MAX {
            kept.bytes += bytes;
            kept.images.push_back(Arc::new(image));
        }
    }

    /// The image that a change has put. Earlier ones are forgotten: they were replaced, or nobody asks for them any more.
    pub(crate) fn take(&self, sequence: u64) -> Option<Arc<Image>> {
        let mut kept = self.0.lock();
        while kept.images.front().is_some_and(|first| first.sequence <= sequence) {
            let image = kept.images.pop_front()?;
            kept.bytes = kept.bytes.saturating_sub(bytes_of(&image));
            if image.sequence == sequence {
                return Some(image);
            }
        }
        None
    }
}

fn bytes_of(image: &Image) -> usize {
    let texts: usize = image.components.iter().map(|component| component.purl.len()).sum();
    texts + image.components.len() * COMPONENT_BYTES + 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler_model::{CatalogComponent, ImageDigest, ImagePlace, Timestamp};

    fn image(sequence: u64, components: usize) -> Image {
        Image {
            tenant: "acme".to_owned().try_into().unwrap(),
            digest: ImageDigest::of(&sequence.to_le_bytes()),
            place: ImagePlace::default(),
            components: vec![CatalogComponent { purl: "pkg:npm/a@1".to_owned(), source: None }; components],
            used: None,
            no_purl: 0,
            generated_at: None,
            updated_at: Timestamp::from_millis(0),
            sequence,
        }
    }

    #[test]
    fn an_image_is_taken_once_and_in_order() {
        let recent = Recent::default();
        (1..6).for_each(|sequence| recent.keep(image(sequence, 3)));
        assert_eq!(recent.take(2).map(|image| image.sequence), Some(2));
        assert!(recent.take(2).is_none() && recent.take(1).is_none());
        assert_eq!(recent.take(5).map(|image| image.sequence), Some(5));
        assert!(recent.take(6).is_none());
        assert_eq!(recent.0.lock().bytes, 0);
    }

    #[test]
    fn what_has_no_room_is_dropped_before_it_is_written() {
        let recent = Recent::default();
        let admitted = recent.admit((1..=100).map(|sequence| image(sequence, 10_000)).collect());
        let places: Vec<bool> = admitted.iter().map(Option::is_some).collect();
        assert!(places.is_sorted_by(|before, after| before >= after) && places[0] && !places[99], "{places:?}");
        admitted.into_iter().flatten().for_each(|image| recent.keep(image));
        assert!(recent.admit(vec![image(101, 10_000)])[0].is_none());
    }

    #[test]
    fn p10_no_more_is_kept_than_there_is_room_for() {
        let recent = Recent::default();
        (1..=100).for_each(|sequence| recent.keep(image(sequence, 10_000)));
        let kept = recent.0.lock().images.len();
        assert!((50..70).contains(&kept), "{kept}");
        assert!(recent.0.lock().bytes <= BYTES_MAX);
        // The first ones are there, for they are asked for first; the others are read from disk.
        assert!(recent.take(1).is_some() && recent.take(100).is_none());
        recent.keep(image(101, 10_000));
        assert!(recent.take(101).is_some());
    }
}
