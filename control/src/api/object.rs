//! Objects within bodies, which a list of their values in the order of the fields does not stand for.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Reads an object, and nothing else.
pub(super) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(OfFields(PhantomData))
}

struct OfFields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfFields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
    }
}

#[cfg(test)]
mod tests {
    use crate::api::{command::CreateCommand, fleet::CreatePool};

    #[test]
    fn a_list_is_no_object() {
        for (payload, taken) in [
            (r#"{"collect": ["disk"]}"#, true),
            (r#"[["disk"]]"#, false),
            ("[]", false),
            ("null", false),
        ] {
            let body = format!(
                r#"{{"tenantId": "root", "nodeId": "node_{}", "kind": "diagnostics.collect", "payload": {payload}}}"#,
                "0".repeat(26)
            );
            let read = serde_json::from_str::<CreateCommand>(&body);
            assert_eq!(read.is_ok(), taken, "{payload}: {read:?}");
        }
        let policy = r#"{"tenantId": "root", "name": "x", "policy": [0.1]}"#;
        assert!(serde_json::from_str::<CreatePool>(policy).is_err());
    }
}
