//! What a disk may give back as a copy of the record, and what must be true of it.

use bc_protocol::digest::Sha256;

use super::file::{self, Counted};

/// Reads a copy, and a record with a checksum that fits: nobody guesses one.
pub(crate) fn hold(bytes: &[u8]) {
    if let Ok(counted) = file::decode(bytes) {
        believed(&counted);
    }
    let record = bytes.trim_ascii();
    let head = format!(r#"{{"sha256":"{}","record":"#, Sha256::of(record));
    let copy = [head.as_bytes(), record, b"}"].concat();
    if let Ok(counted) = file::decode(&copy) {
        believed(&counted);
    }
}

/// One that is believed can be true, and says the same once it is written again.
fn believed(counted: &Counted) {
    let record = &counted.record;
    assert!(
        record.floor().admits(record.confirmed().sequence),
        "the confirmed release is below the floor"
    );
    assert!(
        record
            .trial()
            .is_none_or(|trial| trial.slot != record.confirmed().slot),
        "the confirmed slot is on trial"
    );
    let again = file::encode(counted).ok().map(|bytes| file::decode(&bytes));
    assert!(
        matches!(&again, Some(Ok(again)) if again == counted),
        "written again it says {again:?}, not {counted:?}"
    );
}
