//! Bearer tokens of every kind: an id that is looked up, a dot, and a secret that is compared.
//!
//! Takes texts from outside, gives ids and digests. The secret itself is shown once and stored nowhere.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bc_protocol::digest::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::chance;

/// A token with its secret. `Debug` shows the id only.
pub(crate) struct Bearer<Id> {
    id: Id,
    secret: Zeroizing<String>,
}

/// No token is longer than this: an id of at most 60 characters and a secret of 43.
const TOKEN_CHARS_MAX: usize = 128;

impl<Id: FromStr + fmt::Display> Bearer<Id> {
    /// A fresh secret under an id.
    pub(crate) fn fresh(id: Id) -> Self {
        let bytes = Zeroizing::new(chance::secret());
        Self {
            id,
            secret: Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes.as_slice())),
        }
    }

    /// Reads `<id>.<secret>`; nothing where the text is not of that form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > TOKEN_CHARS_MAX {
            return None;
        }
        let (id, secret) = text.split_once('.')?;
        Some(Self {
            id: id.parse().ok()?,
            secret: Zeroizing::new(secret.to_owned()),
        })
    }

    /// What to look up.
    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    /// What to store.
    pub(crate) fn digest(&self) -> Sha256 {
        Sha256::of(self.secret.as_bytes())
    }

    /// Whether the secret is the one whose digest was stored. It takes as long for every answer.
    pub(crate) fn matches(&self, stored: &[u8]) -> bool {
        self.digest().as_bytes().as_slice().ct_eq(stored).into()
    }

    /// What its holder gets to see, once.
    pub(crate) fn reveal(&self) -> String {
        format!("{}.{}", self.id, self.secret.as_str())
    }
}

impl<Id: fmt::Debug> fmt::Debug for Bearer<Id> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bearer")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Bearer;
    use bc_protocol::id::{JoinTokenId, TokenId};

    #[test]
    fn a_token_survives_its_text_and_matches_its_digest_alone() {
        let token = Bearer::fresh(TokenId::random(1, 2));
        let other = Bearer::fresh(TokenId::random(1, 2));
        let read = Bearer::<TokenId>::parse(&token.reveal()).unwrap();
        assert_eq!(read.id(), token.id());
        assert!(read.matches(token.digest().as_bytes()));
        assert!(!read.matches(other.digest().as_bytes()));
        assert!(!read.matches(b""));
    }

    #[test]
    fn a_token_of_another_kind_is_none() {
        let token = Bearer::fresh(TokenId::random(1, 2)).reveal();
        assert!(Bearer::<JoinTokenId>::parse(&token).is_none());
        for text in ["", ".", "tok_.x", "x", &"x".repeat(1000)] {
            assert!(Bearer::<TokenId>::parse(text).is_none());
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        let token = Bearer::fresh(TokenId::random(1, 2));
        let secret = token.reveal().split_once('.').unwrap().1.to_owned();
        assert!(!format!("{token:?}").contains(&secret));
    }
}
