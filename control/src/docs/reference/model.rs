//! The part of an OpenAPI document that the page shows.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

/// A document.
#[derive(Debug, Deserialize)]
pub(super) struct Document {
    paths: BTreeMap<String, BTreeMap<String, Operation>>,
    /// Its types.
    pub(super) components: Components,
}

/// The types of a document.
#[derive(Debug, Deserialize)]
pub(super) struct Components {
    pub(super) schemas: BTreeMap<String, Schema>,
}

/// What can be asked at one path.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    pub(super) summary: String,
    #[serde(default)]
    pub(super) description: String,
    operation_id: Option<String>,
    request_body: Option<Answer>,
    pub(super) responses: BTreeMap<String, Answer>,
}

/// A body, of a request or of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    content: BTreeMap<String, Content>,
}

#[derive(Debug, Deserialize)]
struct Content {
    schema: Option<Schema>,
}

/// What a value is like.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Schema {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    pub(super) description: Option<String>,
    #[serde(rename = "type")]
    kind: Option<Kinds>,
    #[serde(default)]
    pub(super) properties: BTreeMap<String, Schema>,
    #[serde(default)]
    required: Vec<String>,
    pub(super) items: Option<Box<Schema>>,
    #[serde(rename = "enum", default)]
    pub(super) one_of_words: Vec<String>,
    pub(super) pattern: Option<String>,
    pub(super) format: Option<String>,
    pub(super) minimum: Option<serde_json::Number>,
    pub(super) maximum: Option<serde_json::Number>,
    pub(super) exclusive_minimum: Option<serde_json::Number>,
    pub(super) max_length: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) default: Option<serde_json::Value>,
    #[serde(default)]
    one_of: Vec<Schema>,
    #[serde(default)]
    all_of: Vec<Schema>,
    additional_properties: Option<Others>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Kinds {
    One(String),
    Some(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Others {
    Like(Box<Schema>),
    /// Whether there may be any.
    Allowed(IgnoredAny),
}

/// One field of an object.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Schema,
    pub(super) required: bool,
}

impl Document {
    pub(super) fn parse(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Every operation with its path and HTTP's method: those of the API by group first.
    pub(super) fn operations(&self) -> Vec<(&str, &str, &Operation)> {
        let mut all: Vec<_> = self
            .paths
            .iter()
            .flat_map(|(path, item)| {
                let each = item.iter();
                each.map(|(method, operation)| (path.as_str(), method.as_str(), operation))
            })
            .collect();
        all.sort_by_key(|(path, _, operation)| {
            (operation.group().is_empty(), operation.group(), *path)
        });
        all
    }

    /// A type by its name.
    pub(super) fn schema(&self, name: &str) -> Option<&Schema> {
        self.components.schemas.get(name)
    }

    /// What a schema names, or itself.
    pub(super) fn resolved<'a>(&'a self, schema: &'a Schema) -> &'a Schema {
        match schema.named().and_then(|name| self.schema(name)) {
            Some(named) => named,
            None => schema,
        }
    }

    /// Every field of an object, those that are always there first.
    pub(super) fn fields<'a>(&'a self, schema: &'a Schema) -> Vec<Field<'a>> {
        let mut fields: Vec<Field<'a>> = schema
            .properties
            .iter()
            .map(|(name, field)| Field {
                name,
                schema: field,
                required: schema.required.contains(name),
            })
            .collect();
        for part in &schema.all_of {
            let optional = part.one_of.iter().any(Schema::is_null);
            for mut field in self.fields(self.resolved(part)) {
                field.required &= !optional;
                fields.push(field);
            }
        }
        fields.sort_by_key(|field| (!field.required, field.name));
        fields
    }
}

impl Operation {
    /// The group of methods that it belongs to.
    pub(super) fn group(&self) -> &str {
        self.tags.first().map_or("", String::as_str)
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.operation_id.as_deref()
    }

    /// The type that it takes.
    pub(super) fn asked_name(&self) -> Option<&str> {
        self.request_body.as_ref()?.named()
    }

    pub(super) fn asked<'a>(&self, document: &'a Document) -> Option<&'a Schema> {
        document.schema(self.asked_name()?)
    }

    /// The type that it gives.
    pub(super) fn given(&self) -> Option<&str> {
        self.responses.get("200")?.named()
    }

    /// What it may answer instead.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&str, &Answer)> {
        let all = self
            .responses
            .iter()
            .filter(|(status, _)| !status.starts_with('2'));
        all.map(|(status, answer)| (status.as_str(), answer))
    }
}

impl Answer {
    fn named(&self) -> Option<&str> {
        self.content
            .values()
            .find_map(|content| content.schema.as_ref()?.named())
    }
}

impl Schema {
    /// The name of the type that it refers to, also where the value may be missing.
    pub(super) fn named(&self) -> Option<&str> {
        if let Some(reference) = &self.reference {
            return reference.rsplit('/').next();
        }
        self.one_of.iter().find_map(Schema::named)
    }

    /// What is said of it here.
    pub(super) fn about(&self) -> Option<&str> {
        let own = self.description.as_deref();
        own.or_else(|| self.one_of.iter().find_map(Schema::about))
    }

    fn is_null(&self) -> bool {
        self.primitive() == Some("null")
    }

    /// Its kind in JSON; of one that may be null, the other.
    pub(super) fn primitive(&self) -> Option<&str> {
        match self.kind.as_ref()? {
            Kinds::One(kind) => Some(kind),
            Kinds::Some(kinds) => kinds
                .iter()
                .map(String::as_str)
                .find(|kind| *kind != "null"),
        }
    }

    /// What the values of a map are like.
    pub(super) fn values(&self) -> Option<&Schema> {
        match self.additional_properties.as_ref()? {
            Others::Like(schema) => Some(schema),
            Others::Allowed(_) => None,
        }
    }
}
