//! A frame of a link, in either direction.

use bc_protocol::link::{FromControl, FromGateway};

/// Reads a frame as both sides would. What was understood is understood the same once it is written again.
pub(crate) fn hold(bytes: &[u8]) {
    if let Ok(frame) = FromGateway::decode(bytes) {
        let again = FromGateway::decode(&frame.clone().encode());
        assert_eq!(again, Ok(frame));
    }
    if let Ok(frame) = FromControl::decode(bytes) {
        let again = FromControl::decode(&frame.clone().encode());
        assert_eq!(again, Ok(frame));
    }
}
