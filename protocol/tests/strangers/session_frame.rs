//! A frame of a session, in either direction.

use bc_protocol::session::{FromGateway, FromNode};

/// Reads a frame as both sides would. What was understood is understood the same once it is written again.
pub(crate) fn hold(bytes: &[u8]) {
    if let Ok(frame) = FromNode::decode(bytes) {
        let again = FromNode::decode(&frame.clone().encode());
        assert_eq!(again, Ok(frame));
    }
    match FromGateway::decode(bytes) {
        // What cannot be read cannot be passed on either.
        Ok(FromGateway::Spec(Err(_)) | FromGateway::Command(Err(_))) | Err(_) => {}
        Ok(frame) => {
            let again = FromGateway::decode(&frame.clone().encode());
            assert_eq!(again, Ok(frame));
        }
    }
}
