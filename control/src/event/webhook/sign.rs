//! Signatures, as Standard Webhooks has them. Pure but for fresh secrets.
//!
//! Takes a secret and a message, gives what the receiver checks. The signature covers id, time and body, so that a
//! message cannot pass for another, nor an old one for a new one.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::chance;

/// What one webhook's messages are signed with.
pub(super) struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// One that nobody else has.
    pub(super) fn fresh() -> Self {
        Self(Zeroizing::new(chance::secret().to_vec()))
    }

    /// The one that was kept.
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// To be kept.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// For the receiver, once.
    pub(super) fn reveal(&self) -> String {
        format!("whsec_{}", STANDARD.encode(&*self.0))
    }

    /// The header `webhook-signature`.
    pub(super) fn sign(&self, id: &str, unix_seconds: i64, body: &[u8]) -> String {
        // HMAC takes keys of every length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return String::new();
        };
        mac.update(format!("{id}.{unix_seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;
    use crate::clock::Moment;

    #[test]
    fn another_implementation_of_the_standard_believes_it() {
        let secret = Secret::fresh();
        let now = Moment::now().millis() / 1000;
        let body = b"{\"type\":\"rollout.paused\"}";
        let signature = secret.sign("evt_1", now, body);
        let check = |id: &str, at: i64, body: &[u8]| {
            let mut headers = http::HeaderMap::new();
            headers.insert("webhook-id", id.parse().unwrap());
            headers.insert("webhook-timestamp", at.into());
            headers.insert("webhook-signature", signature.parse().unwrap());
            let oracle = standardwebhooks::Webhook::new(&secret.reveal()).unwrap();
            oracle.verify(body, &headers).is_ok()
        };
        assert!(check("evt_1", now, body));
        assert!(!check("evt_2", now, body));
        assert!(!check("evt_1", now + 1, body));
        assert!(!check("evt_1", now, b"{}"));
        assert!(!format!("{secret:?}").contains(&secret.reveal()[6..]));
    }
}
