//! What a binary runs on, by its own header.
//!
//! Takes the first bytes of a file, gives yes or a reason. A header is a claim like any other: it is held against the
//! platform of the manifest, so that a mix-up of files is found before anything is activated.

use bc_protocol::platform::Platform;
use thiserror::Error;

use crate::content::HEADER_BYTES;

const MAGIC: [u8; 4] = [0x7f, b'E', b'L', b'F'];
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// Why a file is no binary for a platform.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ElfError {
    #[error("expected a 64-bit little-endian ELF file, found another kind of file")]
    NotElf,
    #[error("expected a binary for {expected}, found one for the ELF machine {found}")]
    Machine { expected: Platform, found: u16 },
    #[error("expected a platform whose ELF machine is known, found {found}")]
    Platform { found: Platform },
}

/// Whether a file that begins with `header` is made for `platform`.
pub(crate) fn check(header: &[u8], platform: &Platform) -> Result<(), ElfError> {
    let machine = match platform.as_str() {
        "linux-amd64" => X86_64,
        "linux-arm64" => AARCH64,
        _ => {
            let found = platform.clone();
            return Err(ElfError::Platform { found });
        }
    };
    let Some(header) = header.first_chunk::<HEADER_BYTES>() else {
        return Err(ElfError::NotElf);
    };
    let [m0, m1, m2, m3, class, order, .., low, high] = *header;
    if [m0, m1, m2, m3] != MAGIC || class != CLASS_64 || order != LITTLE_ENDIAN {
        return Err(ElfError::NotElf);
    }
    let found = u16::from_le_bytes([low, high]);
    if found != machine {
        let expected = platform.clone();
        return Err(ElfError::Machine { expected, found });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ElfError, check};
    use bc_protocol::platform::Platform;

    fn header(machine: u16) -> Vec<u8> {
        let mut header = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
        header.extend([0; 8]);
        header.extend([2, 0]);
        header.extend(machine.to_le_bytes());
        header
    }

    #[test]
    fn each_platform_has_its_machine() {
        let (amd64, arm64): (Platform, Platform) = (
            "linux-amd64".parse().unwrap(),
            "linux-arm64".parse().unwrap(),
        );
        assert_eq!(check(&header(62), &amd64), Ok(()));
        assert_eq!(check(&header(183), &arm64), Ok(()));
        let other = ElfError::Machine {
            expected: arm64.clone(),
            found: 62,
        };
        assert_eq!(check(&header(62), &arm64), Err(other));
    }

    #[test]
    fn what_is_no_elf_file_is_refused_whatever_its_length() {
        let amd64: Platform = "linux-amd64".parse().unwrap();
        let whole = header(62);
        for length in 0..whole.len() {
            assert_eq!(check(&whole[..length], &amd64), Err(ElfError::NotElf));
        }
        assert_eq!(
            check(b"#!/bin/sh\nexec /bin/true\n", &amd64),
            Err(ElfError::NotElf)
        );
    }

    #[test]
    fn the_running_program_is_for_its_host() {
        let image = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(check(&image, &Platform::host()), Ok(()));
    }
}
