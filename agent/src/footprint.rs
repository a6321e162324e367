//! What a process gives back before it waits for a long time.
//!
//! A supervisor or a helper runs through much of the program once, when it starts, and through very little of it
//! afterwards. The code that it has run stays in its memory, and is most of what it has there. Takes nothing; what is
//! given back comes again from the file as soon as it is needed.

use std::fs;

use nix::libc;

/// Where the kernel says what is mapped.
const MAPS: &str = "/proc/self/maps";

/// Gives the pages of the program's code and constants back. Data and stacks stay: nothing can be lost that is not in the
/// file.
pub(crate) fn give_back_code() {
    let maps = match fs::read_to_string(MAPS) {
        Ok(maps) => maps,
        Err(error) => return tracing::debug!(%error, "no code is given back"),
    };
    for (from, to) in maps.lines().filter_map(code) {
        give_back(from, to);
    }
}

/// The addresses of a mapping that holds code of a file, or its beginning, where constants are, and that nobody has ever
/// written to. What was relocated at the start is read only too by now, but lies further behind.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (span, rights, offset) = (words.next()?, words.next()?, words.next()?);
    let is_of_a_file = words.nth(2)?.starts_with('/');
    let (from, to) = span.split_once('-')?;
    let at = |hex| usize::from_str_radix(hex, 16).ok();
    let is_as_in_the_file = match rights {
        "r-xp" => true,
        "r--p" => at(offset)? == 0,
        _ => false,
    };
    (is_of_a_file && is_as_in_the_file).then_some((at(from)?, at(to)?))
}

#[expect(
    unsafe_code,
    reason = "the kernel drops pages of a mapping that is read only and backed by a file: what they hold stays the same"
)]
fn give_back(from: usize, to: usize) {
    let start = std::ptr::with_exposed_provenance_mut(from);
    // SAFETY: the range is a mapping of this process, by the kernel's own word, private, not writable and of a file; its
    // pages are read from that file again when they are next touched. Not even this very code has to stay for that.
    let given = unsafe { libc::madvise(start, to.saturating_sub(from), libc::MADV_DONTNEED) };
    if given != 0 {
        tracing::debug!("the kernel keeps the code");
    }
}

#[cfg(test)]
mod tests {
    use super::{MAPS, code, give_back_code};

    #[test]
    fn only_code_of_files_is_given_back() {
        let of = |line| code(line);
        assert_eq!(
            of("7f00-7fff r-xp 00001000 fe:00 77                   /usr/lib/bcd/bcd"),
            Some((0x7f00, 0x7fff))
        );
        assert_eq!(
            of("7e00-7f00 r--p 00000000 fe:00 77                   /usr/lib/bcd/bcd"),
            Some((0x7e00, 0x7f00))
        );
        for line in [
            "7f00-7fff r--p 00001000 fe:00 77   /usr/lib/bcd/bcd",
            "7f00-7fff rw-p 00001000 fe:00 77   /usr/lib/bcd/bcd",
            "7f00-7fff rwxp 00001000 fe:00 77   /usr/lib/bcd/bcd",
            "7f00-7fff r-xs 00001000 fe:00 77   /usr/lib/bcd/bcd",
            "7f00-7fff r-xp 00000000 00:00 0    [vdso]",
            "7f00-7fff r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn a_program_runs_on_without_its_code() {
        let maps = std::fs::read_to_string(MAPS).unwrap();
        assert!(maps.lines().filter_map(code).count() > 0);
        for _ in 0..100 {
            give_back_code();
        }
        assert_eq!(format!("{:?}", "still here"), "\"still here\"");
    }
}
