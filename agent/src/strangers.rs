//! What strangers may have written, held against what must be true of it whatever it is.
//!
//! Takes any bytes, and gives nothing: a property that does not hold ends the process. Only tests and builds with faults
//! know it; the fuzz targets of `packaging/fuzz` are what it is there for.

/// A client's end of the helper's socket: frames with whatever is in them, and the answer of a helper.
pub fn helper_frame(bytes: &[u8]) {
    crate::helper::strangers::hold(bytes);
}

/// One copy of the record, as a disk may give it back.
pub fn record(bytes: &[u8]) {
    crate::updater::record::strangers::hold(bytes);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Holds the property for every input that is kept for it.
    fn check(target: &str, hold: fn(&[u8])) {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/fuzz/corpus");
        let mut held = 0;
        for entry in fs::read_dir(corpus.join(target)).unwrap() {
            hold(&fs::read(entry.unwrap().path()).unwrap());
            held += 1;
        }
        assert!(held > 3, "expected inputs for {target}");
    }

    #[test]
    fn frames_of_a_helper() {
        check("helper-frame", super::helper_frame);
    }

    #[test]
    fn copies_of_a_record() {
        check("record", super::record);
    }
}
