//! Reading, the same over what is durable and over what a writer is about to make durable.

use crate::doc;
use crate::family::Cf;
use scheduler_core::ports::StoreResult;
use serde::de::DeserializeOwned;

/// Sees one key and value; says whether to go on.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> StoreResult<bool>;

/// One consistent state of the store.
pub(crate) trait Read {
    /// The value of a key.
    fn get(&self, cf: Cf, key: &[u8]) -> StoreResult<Option<Vec<u8>>>;

    /// Visits the keys that begin with `prefix` in order, from `from` on, or those after it where `from` is a whole key
    /// and `inclusive` is false.
    fn visit_from(&self, cf: Cf, prefix: &[u8], from: &[u8], inclusive: bool, visit: Visit<'_>) -> StoreResult<()>;
}

/// What every [`Read`] can do. Apart from it, so that both can be used through `&dyn Read`.
pub(crate) trait ReadExt: Read {
    /// Visits every key that begins with `prefix`.
    fn visit(&self, cf: Cf, prefix: &[u8], visit: Visit<'_>) -> StoreResult<()> {
        self.visit_from(cf, prefix, prefix, true, visit)
    }

    /// The document of a key.
    fn doc<T: DeserializeOwned>(&self, cf: Cf, key: &[u8]) -> StoreResult<Option<T>> {
        self.get(cf, key)?.map(|bytes| doc::decode(cf.name(), &bytes)).transpose()
    }

    /// The number of a key; 0 when there is none.
    fn number(&self, cf: Cf, key: &[u8]) -> StoreResult<u64> {
        Ok(self.get(cf, key)?.map_or(0, |bytes| crate::key::trailing_number(&bytes)))
    }

    /// The keys and values that begin with `prefix`, at most `limit`.
    fn pairs(&self, cf: Cf, prefix: &[u8], limit: usize) -> StoreResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut pairs = Vec::new();
        self.visit(cf, prefix, &mut |key, value| {
            if pairs.len() < limit {
                pairs.push((key.to_vec(), value.to_vec()));
            }
            Ok(pairs.len() < limit)
        })?;
        Ok(pairs)
    }

    /// The documents whose keys begin with `prefix`.
    fn docs<T: DeserializeOwned>(&self, cf: Cf, prefix: &[u8]) -> StoreResult<Vec<T>> {
        let mut docs = Vec::new();
        self.visit(cf, prefix, &mut |_, value| {
            docs.push(doc::decode(cf.name(), value)?);
            Ok(true)
        })?;
        Ok(docs)
    }
}

impl<R: Read + ?Sized> ReadExt for R {}

/// A page in the making: takes items until there is one more than fits, which tells that there is a next page.
#[derive(Debug)]
pub(crate) struct PageOf<T> {
    items: Vec<T>,
    last: Option<String>,
    limit: usize,
    more: bool,
}

impl<T> PageOf<T> {
    /// An empty page for at least one item.
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: Vec::new(), last: None, limit: limit.max(1), more: false }
    }

    /// Takes an item and its position; says whether it wants another.
    pub(crate) fn push(&mut self, item: T, position: impl FnOnce() -> String) -> bool {
        if self.items.len() == self.limit {
            self.more = true;
            return false;
        }
        self.items.push(item);
        if self.items.len() == self.limit {
            self.last = Some(position());
        }
        true
    }

    /// Ends the page here although it may not be full: the next one goes on after `position`.
    pub(crate) fn cut(&mut self, position: String) {
        self.more = true;
        self.last = Some(position);
    }

    /// The page.
    pub(crate) fn done(self) -> scheduler_core::ports::Page<T> {
        scheduler_core::ports::Page { items: self.items, next: self.last.filter(|_| self.more) }
    }
}
