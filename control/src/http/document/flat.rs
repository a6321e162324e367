//! One object instead of parts.
//!
//! Takes every type by its name, and writes out those that are put together of others, one of which may be missing: the
//! fields of that part become fields that need not be there. Makers of clients know plain objects; of `allOf` around
//! something that may be null they drop the fields without a word.

use std::collections::BTreeMap;

use utoipa::openapi::{
    Ref, RefOr,
    schema::{AllOf, Object, Schema},
};

type Types = BTreeMap<String, RefOr<Schema>>;

/// Writes out every type that consists of parts.
pub(super) fn flatten(types: &mut Types) {
    let whole: Vec<(String, Object)> = types
        .iter()
        .filter_map(|(name, schema)| match schema {
            RefOr::T(Schema::AllOf(parts)) => Some((name.clone(), joined(parts, types)?)),
            RefOr::T(_) | RefOr::Ref(_) => None,
        })
        .collect();
    for (name, object) in whole {
        types.insert(name, RefOr::T(Schema::Object(object)));
    }
}

/// One object with the fields of all parts; none where a part is no object.
fn joined(parts: &AllOf, types: &Types) -> Option<Object> {
    let mut whole = Object::new();
    whole.description.clone_from(&parts.description);
    for part in &parts.items {
        let (object, must) = part_of(part, types)?;
        if whole.schema_type == utoipa::openapi::schema::SchemaType::default() {
            whole.schema_type = object.schema_type.clone();
        }
        let fields = object.properties.iter();
        whole
            .properties
            .extend(fields.map(|(name, field)| (name.clone(), field.clone())));
        if must == Presence::Always {
            whole.required.extend(object.required.iter().cloned());
        }
    }
    Some(whole)
}

/// Whether a part is there whenever the whole is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Always,
    Sometimes,
}

fn part_of<'a>(part: &'a RefOr<Schema>, types: &'a Types) -> Option<(&'a Object, Presence)> {
    match part {
        RefOr::T(Schema::Object(object)) => Some((object, Presence::Always)),
        RefOr::T(Schema::OneOf(either)) => {
            let mut named = either.items.iter().filter_map(|item| named(item, types));
            Some((named.next()?, Presence::Sometimes))
        }
        RefOr::T(_) => None,
        RefOr::Ref(_) => Some((named(part, types)?, Presence::Always)),
    }
}

fn named<'a>(schema: &RefOr<Schema>, types: &'a Types) -> Option<&'a Object> {
    let RefOr::Ref(Ref { ref_location, .. }) = schema else {
        return None;
    };
    match types.get(ref_location.rsplit('/').next()?)? {
        RefOr::T(Schema::Object(object)) => Some(object),
        RefOr::T(_) | RefOr::Ref(_) => None,
    }
}
