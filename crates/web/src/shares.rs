//! Places that callers share: so many in all, and of these so many for each holder, so that nobody has all of them.
//!
//! - SHR-1: a holder never has more than its part, and all together never more than there is.
//! - SHR-2: who waits for its own part does not stand in anybody else's way.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Holders are looked through for those that have left when there are so many, and then at each doubling.
const HOLDERS_SWEPT_AT: usize = 64;

/// The places.
pub struct Shares {
    all: Arc<Semaphore>,
    each: usize,
    holders: Mutex<Holders>,
}

struct Holders {
    parts: HashMap<String, Arc<Semaphore>>,
    sweep_at: usize,
}

/// A holder's way to its part.
#[derive(Clone)]
pub struct Account {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

/// Places that are taken; free again when it is dropped.
pub struct Share {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

impl Shares {
    /// So many places in all, and for each holder.
    pub fn new(all: u32, each: u32) -> Self {
        let holders = Holders { parts: HashMap::new(), sweep_at: HOLDERS_SWEPT_AT };
        Self { all: Arc::new(Semaphore::new(all as usize)), each: each as usize, holders: Mutex::new(holders) }
    }

    /// The account of a holder.
    pub fn account(&self, holder: &str) -> Account {
        let mut holders = self.holders.lock();
        if let Some(own) = holders.parts.get(holder) {
            return Account { own: own.clone(), all: self.all.clone() };
        }
        if holders.parts.len() >= holders.sweep_at {
            // Every account and every taken place has its part; what only this map has is idle.
            holders.parts.retain(|_, part| Arc::strong_count(part) > 1);
            holders.sweep_at = HOLDERS_SWEPT_AT.max(holders.parts.len() * 2);
        }
        let own = Arc::new(Semaphore::new(self.each));
        holders.parts.insert(holder.to_owned(), own.clone());
        Account { own, all: self.all.clone() }
    }
}

impl Account {
    /// Takes places at once, if they are free.
    pub fn try_take(&self, count: u32) -> Option<Share> {
        let own = self.own.clone().try_acquire_many_owned(count).ok()?;
        let all = self.all.clone().try_acquire_many_owned(count).ok()?;
        Some(Share { own, all })
    }

    /// Takes places, and waits for them; `None` when that takes too long.
    pub async fn take(&self, count: u32, wait: Duration) -> Option<Share> {
        let taking = async {
            // The own part first, where only this holder's others wait.
            let own = self.own.clone().acquire_many_owned(count).await.ok()?;
            let all = self.all.clone().acquire_many_owned(count).await.ok()?;
            Some(Share { own, all })
        };
        tokio::time::timeout(wait, taking).await.ok().flatten()
    }
}

impl Share {
    /// Puts places of the same account together.
    pub fn add(&mut self, more: Self) {
        self.own.merge(more.own);
        self.all.merge(more.all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn p10_a_holder_has_its_part_and_no_more_and_the_others_theirs() {
        let shares = Shares::new(5, 2);
        let account = |name: &str| shares.account(name);
        let mut a = account("a").try_take(1).unwrap();
        a.add(account("a").try_take(1).unwrap());
        assert!(account("a").try_take(1).is_none(), "its part is taken");
        assert!(account("a").take(1, WAIT).await.is_none(), "waiting ends");
        let b = account("b").take(2, WAIT).await.unwrap();
        assert!(account("c").try_take(2).is_none(), "one is left in all");
        let c = account("c").take(1, WAIT).await.unwrap();
        assert!(account("d").take(1, WAIT).await.is_none());
        // Whoever waits gets what becomes free, and what a timeout left half taken is free again.
        let waiting = account("d");
        let (d, ()) = tokio::join!(waiting.take(2, WAIT), async { drop(b) });
        assert!(d.is_some());
        drop((a, c, d));
        assert!(["a", "c"].iter().all(|name| account(name).try_take(2).is_some()));
        assert_eq!(shares.all.available_permits(), 5);
    }

    /// SHR-2: those who wait for their own part do not queue for the common places.
    #[tokio::test(start_paused = true)]
    async fn p10_a_crowd_of_one_holder_does_not_stand_before_the_others() {
        let shares = Shares::new(4, 2);
        let _a = shares.account("a").try_take(2).unwrap();
        let crowd: Vec<_> = (0..100).map(|_| shares.account("a")).collect();
        let waiting = futures::future::join_all(crowd.iter().map(|one| one.take(1, WAIT)));
        let other = async {
            tokio::task::yield_now().await;
            let began = tokio::time::Instant::now();
            (shares.account("b").take(2, WAIT).await.is_some(), began.elapsed())
        };
        let (waited, other) = tokio::join!(waiting, other);
        assert_eq!(other, (true, Duration::ZERO));
        assert!(waited.iter().all(Option::is_none));
    }

    #[test]
    fn p10_holders_that_have_left_are_forgotten() {
        let shares = Shares::new(10, 2);
        let _kept = shares.account("kept").try_take(2).unwrap();
        for number in 0..10_000 {
            drop(shares.account(&number.to_string()).try_take(1));
        }
        assert!(shares.holders.lock().parts.len() <= HOLDERS_SWEPT_AT);
        assert!(shares.account("kept").try_take(1).is_none(), "one that has places is remembered");
    }
}
