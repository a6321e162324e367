//! A published file, whatever it is.

use bc_protocol::release::sign::{SigningKey, cosign};
use bc_protocol::release::{Refusal, Trust, verify, verify_installed};

/// Judges a file. Whether it is new or installed makes a difference to its age alone, and one more signature never makes
/// a good file bad.
pub(crate) fn hold(published: &[u8]) {
    let keys = [1, 2, 3].map(|number| SigningKey::from_scalar(&[number; 32]).unwrap());
    let trust = Trust::new(keys.each_ref().map(SigningKey::pin), 2).unwrap();
    let now = "2026-12-01T21:00:00Z".parse().unwrap();
    let judged = verify(published, &trust, "bcd", now);
    let installed = verify_installed(published, &trust, "bcd");
    match (&judged, &installed) {
        (Ok(new), Ok(old)) => {
            assert_eq!(new.published(), published);
            assert_eq!(new.body(), old.body());
            assert!(new.signers().len() >= 2);
        }
        (Err(Refusal::Expired { .. }), Ok(_)) => {}
        (Err(new), Err(old)) => assert_eq!(new.code(), old.code()),
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("{judged:?}, but {installed:?}"),
    }
    let [_, _, third] = &keys;
    let Ok(signed) = cosign(published, third) else {
        return;
    };
    if let Ok(old) = installed {
        let again = verify_installed(&signed, &trust, "bcd").unwrap();
        assert_eq!(again.body(), old.body());
        assert!(again.signers().is_superset(old.signers()));
    }
}
