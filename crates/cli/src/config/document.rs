//! YAML as a tree of values in which every key is there once: of two the reader would have to guess which one is meant.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Reads a document; an empty one is `null`. Errors name the line.
pub fn parse(text: &str) -> Result<Value, serde_yaml_ng::Error> {
    // A text without a document is no value to the library.
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Null);
    }
    Node.deserialize(serde_yaml_ng::Deserializer::from_str(text))
}

/// Takes any value.
struct Node;

impl<'de> DeserializeSeed<'de> for Node {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value without a tag")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = entries.next_key_seed(NewKey(&members))? {
            let value = entries.next_value_seed(Self)?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

/// Takes a key that is not there yet. It is refused while it is read, so that the error names its line.
struct NewKey<'a>(&'a Map<String, Value>);

impl<'de> DeserializeSeed<'de> for NewKey<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NewKey<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        if self.0.contains_key(key) {
            return Err(E::custom(format_args!("the key `{key}` is there twice")));
        }
        Ok(key.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_there_twice_is_named_with_its_line() {
        for (text, said) in [
            ("scheduler:\n  listen: a\n  dataDir: b\n  listen: c\n", "the key `listen` is there twice at line 4"),
            ("scheduler:\n  limits: { a: 1 }\n  limits:\n    b: 2\n", "the key `limits` is there twice at line 3"),
            ("a:\n- b: 1\n  b: 1\n", "the key `b` is there twice at line 3"),
            ("a: 1\n\"a\": 1\n", "the key `a` is there twice at line 2"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn every_other_document_is_read_as_before() {
        for text in [
            "",
            "# nothing\n",
            "---\n",
            "---\na: 1\n",
            "a: { b: [1, -2, 2.5, true, null, ~, text, '5', \"x\"], c: {} }\nd: { b: 1 }\ne:\n",
            "a: &x { b: 1 }\nc: *x\n",
            "5: a\ntrue: b\n",
            "a: |\n  one\n  two\n",
        ] {
            let before: Option<Value> = serde_yaml_ng::from_str(text).unwrap();
            assert_eq!(parse(text).unwrap(), before.unwrap_or(Value::Null), "{text}");
        }
    }
}
