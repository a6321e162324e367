//! Where randomness enters control.
//!
//! Takes the operating system's, gives bits for ids and for secrets. Never a seed: nothing here can be repeated.

use rand::Rng as _;

/// Bits for an id, which only has to differ from all others.
pub(crate) fn bits() -> u128 {
    rand::random()
}

/// Bytes that nobody can guess.
pub(crate) fn secret() -> [u8; 32] {
    let mut secret = [0; 32];
    rand::rng().fill_bytes(&mut secret);
    secret
}
