//! Values as people write them in the file.
//!
//! Takes what a key holds, gives the value, or says what was expected there: the reader adds line and key. Pure.

use std::{fmt, net::SocketAddr};

use serde::{
    Deserializer,
    de::{Error, Unexpected, Visitor},
};

/// What is expected of a text, in words.
struct Text<T> {
    expected: &'static str,
    read: fn(&str) -> Option<T>,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Where to listen.
pub(super) fn address<'d, D: Deserializer<'d>>(from: D) -> Result<SocketAddr, D::Error> {
    from.deserialize_str(Text {
        expected: "an address with a port, like \"127.0.0.1:8443\"",
        read: |text| text.parse().ok(),
    })
}

/// Where to listen, for a key that may be left out.
pub(super) fn address_if_any<'d, D: Deserializer<'d>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    address(from).map(Some)
}

/// A length of time; its bounds are looked at later.
pub(super) fn span<'d, D: Deserializer<'d>>(from: D) -> Result<Option<String>, D::Error> {
    from.deserialize_str(Text {
        expected: "a duration in quotes, like \"30d\"",
        read: |text| Some(Some(text.to_owned())),
    })
}
