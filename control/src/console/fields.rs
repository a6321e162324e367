//! What forms and addresses carry. Pure.
//!
//! Takes urlencoded text, gives each field once. A field that is there twice would be read differently by whoever checks
//! and whoever acts.

use std::collections::BTreeMap;

use url::form_urlencoded;

/// Fields by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(BTreeMap<String, String>);

/// A form or an address that nobody of ours has written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: expected this field once, found it twice")]
pub(super) struct Twice {
    field: String,
}

impl Fields {
    /// Reads `a=1&b=2`. No database keeps U+0000, nor looks for it: U+FFFD stands there.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Twice> {
        let mut fields = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text) {
            let name = name.into_owned();
            if fields
                .insert(name.clone(), value.replace('\0', "\u{fffd}"))
                .is_some()
            {
                return Err(Twice { field: name });
            }
        }
        Ok(Self(fields))
    }

    /// A field's text without space around it; empty where it is absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |text| text.trim())
    }

    /// A field that reads as `T`; none where it is absent or reads as nothing.
    pub(super) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name).parse().ok()
    }

    /// Changes one field.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// The fields as an address carries them, with one of them changed; empty ones are left out.
    pub(super) fn with(&self, name: &str, value: &str) -> String {
        let mut fields = self.0.clone();
        fields.insert(name.to_owned(), value.to_owned());
        let mut to = form_urlencoded::Serializer::new(String::new());
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            to.append_pair(name, value);
        }
        to.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Fields;

    #[test]
    fn a_field_is_there_once_or_not_at_all() {
        let fields = Fields::parse(b"reason=+a%3Cb%3E+&n=3&x=").unwrap();
        assert_eq!(fields.text("reason"), "a<b>");
        assert_eq!(fields.parsed::<u32>("n"), Some(3));
        assert_eq!(fields.parsed::<u32>("reason"), None);
        assert_eq!(fields.text("none"), "");
        assert!(Fields::parse(b"a=1&a=1").is_err());
        let fields = Fields::parse(b"q=a%00b").unwrap();
        assert_eq!(fields.text("q"), "a\u{fffd}b");
    }

    #[test]
    fn an_address_keeps_what_is_not_changed() {
        let fields = Fields::parse(b"state=failed&page=3&q=a b&x=").unwrap();
        assert_eq!(fields.with("page", "4"), "page=4&q=a+b&state=failed");
        assert_eq!(fields.with("page", ""), "q=a+b&state=failed");
    }
}
