//! Reading JSON that strangers wrote.
//!
//! Takes any deserializer, gives typed values. Closes what serde leaves open by default: objects written as arrays, a
//! null where a field may be absent, lists and maps of any length, map keys given twice. Never builds a generic value.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads `T` from an object. A derived reader alone would also take its fields in order from an array.
pub(super) struct Object<T>(PhantomData<T>);

impl<T> Object<T> {
    pub(super) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Object<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Reads a whole JSON text that is one object.
pub(super) fn object_from_slice<'de, T: Deserialize<'de>>(
    json: &'de [u8],
) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Object::new().deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads a list of at most `MAX` objects, and stops at the first one too many.
pub(super) fn objects<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(Objects::<T, MAX>(PhantomData))
}

struct Objects<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Objects<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MAX} objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut objects = Vec::new();
        while let Some(object) = list.next_element_seed(Object::new())? {
            if objects.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            objects.push(object);
        }
        Ok(objects)
    }
}

/// Reads a field that may be absent, but not null.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads a map from text to text that has at most `MAX` entries, none of them twice; the map may be absent.
pub(super) fn present_texts<'de, D, const MAX: usize>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error>
where
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(Texts::<MAX>).map(Some)
}

struct Texts<const MAX: usize>;

impl<'de, const MAX: usize> Visitor<'de> for Texts<MAX> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a map of at most {MAX} texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some((key, text)) = map.next_entry::<String, String>()? {
            if texts.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            if texts.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "expected each key once, found {key:?} twice"
                )));
            }
            texts.insert(key, text);
        }
        Ok(texts)
    }
}
