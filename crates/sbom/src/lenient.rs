//! Streaming visits that skip whatever has an unexpected type (SBOM-R3).
//!
//! A visit hands a member or an element to its visitor one at a time; nothing else is kept. What is skipped is neither
//! buffered nor decoded, so its depth and size cost nothing but time.

use std::fmt::{self, Display};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Longest text, in bytes, that is kept as a fact; a longer one counts as absent.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;

/// Takes one JSON value; each kind that is not overridden is skipped and gives `other`.
pub(crate) trait Handle<'de>: Sized {
    type Out;

    fn other(self) -> Self::Out;

    fn text(self, _text: &str) -> Self::Out {
        self.other()
    }

    fn scalar(self, _shown: &dyn Display) -> Self::Out {
        self.other()
    }

    fn number(self, value: u64) -> Self::Out {
        self.scalar(&value)
    }

    fn null(self) -> Self::Out {
        self.scalar(&"null")
    }

    fn list<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Out, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.other())
    }

    fn object<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Out, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self.other())
    }
}

/// Carries a [`Handle`] through serde.
pub(crate) struct Any<H>(pub(crate) H);

impl<'de, H: Handle<'de>> DeserializeSeed<'de> for Any<H> {
    type Value = H::Out;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<H::Out, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, H: Handle<'de>> Visitor<'de> for Any<H> {
    type Value = H::Out;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<H::Out, E> {
        Ok(self.0.scalar(&value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<H::Out, E> {
        Ok(self.0.scalar(&value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<H::Out, E> {
        Ok(self.0.number(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<H::Out, E> {
        Ok(self.0.scalar(&value))
    }

    fn visit_unit<E: Error>(self) -> Result<H::Out, E> {
        Ok(self.0.null())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<H::Out, E> {
        Ok(self.0.text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<H::Out, A::Error> {
        self.0.list(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<H::Out, A::Error> {
        self.0.object(map)
    }
}

/// Takes the members of an object; each call reads the value exactly once, with [`skip`] at least.
pub(crate) trait Members<'de> {
    fn member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

/// Takes the elements of a list; each call reads one and says whether there was one.
pub(crate) trait Elements<'de> {
    fn element<A: SeqAccess<'de>>(&mut self, seq: &mut A) -> Result<bool, A::Error>;
}

/// Visits an object; gives whether the value was one.
pub(crate) struct Object<'m, M>(pub(crate) &'m mut M);

impl<'de, M: Members<'de>> Handle<'de> for Object<'_, M> {
    type Out = bool;

    fn other(self) -> bool {
        false
    }

    fn object<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut key = String::new();
        while map.next_key_seed(Key(&mut key))?.is_some() {
            self.0.member(&key, &mut map)?;
        }
        Ok(true)
    }
}

/// Visits a list; gives whether the value was one.
pub(crate) struct List<'e, E>(pub(crate) &'e mut E);

impl<'de, E: Elements<'de>> Handle<'de> for List<'_, E> {
    type Out = bool;

    fn other(self) -> bool {
        false
    }

    fn list<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        while self.0.element(&mut seq)? {}
        Ok(true)
    }
}

/// Visits a list that matters; null counts as an empty one, as some encoders write it.
struct ListOrNull<'e, E>(&'e mut E);

impl<'de, E: Elements<'de>> Handle<'de> for ListOrNull<'_, E> {
    type Out = bool;

    fn other(self) -> bool {
        false
    }

    fn null(self) -> bool {
        true
    }

    fn list<A: SeqAccess<'de>>(self, seq: A) -> Result<bool, A::Error> {
        List(self.0).list(seq)
    }
}

/// A string that is not too long.
pub(crate) struct Text;

impl Handle<'_> for Text {
    type Out = Option<String>;

    fn other(self) -> Option<String> {
        None
    }

    fn text(self, text: &str) -> Option<String> {
        (text.len() <= TEXT_BYTES_MAX).then(|| text.to_owned())
    }
}

/// Reads a member's name into a buffer that is used again; one too long to be of interest becomes empty.
struct Key<'k>(&'k mut String);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<(), E> {
        self.0.clear();
        if name.len() <= TEXT_BYTES_MAX {
            self.0.push_str(name);
        }
        Ok(())
    }
}

/// Passes over the member's value.
pub(crate) fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}

/// The member as text, if it is one.
pub(crate) fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<String>, A::Error> {
    map.next_value_seed(Any(Text))
}

/// Visits the member as an object; skips something else.
pub(crate) fn object<'de, A, M>(map: &mut A, members: &mut M) -> Result<(), A::Error>
where
    A: MapAccess<'de>,
    M: Members<'de>,
{
    map.next_value_seed(Any(Object(members))).map(|_| ())
}

/// Visits the member as a list; skips something else.
pub(crate) fn list<'de, A, E>(map: &mut A, elements: &mut E) -> Result<(), A::Error>
where
    A: MapAccess<'de>,
    E: Elements<'de>,
{
    is_list(map, elements).map(|_| ())
}

/// Visits the member as a list; false when it is something else.
pub(crate) fn is_list<'de, A, E>(map: &mut A, elements: &mut E) -> Result<bool, A::Error>
where
    A: MapAccess<'de>,
    E: Elements<'de>,
{
    map.next_value_seed(Any(List(elements)))
}

/// Visits the member as a list or as null; false when it is something else.
pub(crate) fn is_list_or_null<'de, A, E>(map: &mut A, elements: &mut E) -> Result<bool, A::Error>
where
    A: MapAccess<'de>,
    E: Elements<'de>,
{
    map.next_value_seed(Any(ListOrNull(elements)))
}

/// Visits the next element as an object: none at the end, false when it is something else.
pub(crate) fn next_object<'de, A, M>(seq: &mut A, members: &mut M) -> Result<Option<bool>, A::Error>
where
    A: SeqAccess<'de>,
    M: Members<'de>,
{
    seq.next_element_seed(Any(Object(members)))
}
