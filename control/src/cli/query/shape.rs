//! What an answer may hold beside what it holds now.
//!
//! Takes the API's own description, tells which names an object of it knows, set or not. A map's keys are nobody's
//! names: what is not in it now is not known.

use std::collections::BTreeSet;

use serde_json::Value;

use super::is_pick;
use crate::http;

/// The description of every type of the API.
#[derive(Debug)]
pub(super) struct Shapes {
    document: Value,
}

impl Shapes {
    /// As this build knows them.
    pub(super) fn known() -> Self {
        // The document is this program's own; where it cannot be read nothing is known, and what is there decides.
        let document = serde_json::from_str(&http::description()).unwrap_or_default();
        Self { document }
    }

    /// The type of this name.
    pub(super) fn of<'a>(&'a self, kind: &str) -> Option<Shape<'a>> {
        let schema = self.document.pointer("/components/schemas")?.get(kind)?;
        Some(Shape {
            shapes: self,
            schema,
        })
    }
}

/// One type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    shapes: &'a Shapes,
    schema: &'a Value,
}

impl<'a> Shape<'a> {
    /// The type of a field.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        let own = self.schema.get("properties").and_then(|all| all.get(name));
        match own {
            Some(schema) => Some(Self { schema, ..self }),
            None => self.parts().into_iter().find_map(|part| part.field(name)),
        }
    }

    /// The type of a list's elements.
    pub(super) fn element(self) -> Option<Self> {
        match self.schema.get("items") {
            Some(schema) => Some(Self { schema, ..self }),
            None => self.parts().into_iter().find_map(Self::element),
        }
    }

    /// The fields that an object of this type may have.
    pub(super) fn names(self) -> BTreeSet<String> {
        let own = self.schema.get("properties").and_then(Value::as_object);
        let own = own.into_iter().flatten().map(|(name, _)| name.clone());
        let others = self.parts().into_iter().flat_map(Self::names);
        own.chain(others).collect()
    }

    /// Whether a path is one of this type. As in an answer, a name behind a list is one of its elements'.
    pub(super) fn leads(self, names: &[&str]) -> bool {
        let [name, rest @ ..] = names else {
            return true;
        };
        if let Some(element) = self.element() {
            return element.leads(if is_pick(name) { rest } else { names });
        }
        self.field(name).is_some_and(|field| field.leads(rest))
    }

    /// What it is made of: another type by its name, several together, or one of several.
    fn parts(self) -> Vec<Self> {
        let named = self.schema.get("$ref").and_then(Value::as_str);
        let named = named.and_then(|path| {
            let path = path.strip_prefix('#')?;
            self.shapes.document.pointer(path)
        });
        let several = ["allOf", "oneOf", "anyOf"]
            .into_iter()
            .filter_map(|how| self.schema.get(how)?.as_array())
            .flatten();
        let schemas: Vec<&'a Value> = named.into_iter().chain(several).collect();
        schemas
            .into_iter()
            .map(|schema| Self { schema, ..self })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_not_set_are_known() {
        let shapes = Shapes::known();
        let rollout = shapes.of("Rollout").unwrap();
        for (path, leads) in [
            (&["reason"][..], true),
            (&["nodes", "rolling-back"], true),
            (&["nodeList", "0", "error"], true),
            (&["nodeList", "*", "fromVersion"], true),
            (&["nodeList", "fromVersion"], true),
            (&["frozen", "by"], true),
            (&["frozen", "gone"], false),
            (&["reason", "gone"], false),
            (&["gone"], false),
        ] {
            assert_eq!(rollout.leads(path), leads, "{path:?}");
        }
        assert!(rollout.names().contains("pausedReason"));
        // A map's keys are what is in it.
        let node = shapes.of("Node").unwrap();
        assert!(node.leads(&["labels"]) && !node.leads(&["labels", "tier"]));
        assert!(node.leads(&["lastAttempt", "code"]));
    }
}
