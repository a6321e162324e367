//! Programs that are small, run, and need no compiler: they print their version and end.
//!
//! Takes a name, a version and a length, gives the bytes of an executable for this machine. Only a preflight ever runs
//! one.

/// Where a program's memory begins.
const BASE: u64 = 0x40_0000;

/// Bytes of the two headers.
const HEADERS: u64 = 64 + 56;

/// An executable of `bytes` bytes, or as many as it needs, that prints `version`. `name` tells it from others.
pub(super) fn program(name: &str, version: &str, bytes: usize) -> Vec<u8> {
    let said = format!("{version}\n");
    let code = code(u16::try_from(said.len()).unwrap_or(u16::MAX));
    let mut image = header();
    image.extend(segment(bytes as u64));
    image.extend(code);
    image.extend(said.bytes());
    let left = bytes.saturating_sub(image.len());
    image.extend(name.bytes().cycle().take(left));
    image
}

/// The machine of an executable, as its header names it.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    183
} else {
    62
};

fn header() -> Vec<u8> {
    let mut image = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    image.resize(16, 0);
    for half in [2, MACHINE] {
        image.extend(half.to_le_bytes());
    }
    image.extend(1_u32.to_le_bytes());
    // The entry, the segments, no sections.
    for word in [BASE + HEADERS, 64, 0] {
        image.extend(word.to_le_bytes());
    }
    image.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 0, 0, 0] {
        image.extend(half.to_le_bytes());
    }
    image
}

/// One segment, which is the whole file, readable and executable.
fn segment(bytes: u64) -> Vec<u8> {
    let mut segment = Vec::new();
    for half in [1_u32, 5] {
        segment.extend(half.to_le_bytes());
    }
    for word in [0, BASE, BASE, bytes, bytes, 0x1000] {
        segment.extend(word.to_le_bytes());
    }
    segment
}

/// Writes the `length` bytes behind it to standard output, and exits with 0.
#[cfg(not(target_arch = "aarch64"))]
fn code(length: u16) -> Vec<u8> {
    let mut code = vec![0xb8, 1, 0, 0, 0]; // mov eax, write
    code.extend([0xbf, 1, 0, 0, 0]); // mov edi, 1
    code.extend([0x48, 0x8d, 0x35, 16, 0, 0, 0]); // lea rsi, [rip + 16]
    code.push(0xba); // mov edx, length
    code.extend(u32::from(length).to_le_bytes());
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0xb8, 60, 0, 0, 0]); // mov eax, exit
    code.extend([0x31, 0xff]); // xor edi, edi
    code.extend([0x0f, 0x05]); // syscall
    code
}

/// Writes the `length` bytes behind it to standard output, and exits with 0.
#[cfg(target_arch = "aarch64")]
fn code(length: u16) -> Vec<u8> {
    [
        0xd280_0808,                            // mov x8, write
        0xd280_0020,                            // mov x0, 1
        0x1000_00c1,                            // adr x1, 24 bytes on
        0xd280_0002 | (u32::from(length) << 5), // mov x2, length
        0xd400_0001,                            // svc 0
        0xd280_0ba8,                            // mov x8, exit
        0xd280_0000,                            // mov x0, 0
        0xd400_0001,                            // svc 0
    ]
    .iter()
    .flat_map(|instruction: &u32| instruction.to_le_bytes())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::program;
    use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, process::Command};

    #[test]
    fn it_prints_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let image = program("one", "1.2.3", 4096);
        assert_eq!(image.len(), 4096);
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&image).unwrap();
        drop(file);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        // Another test may have forked while the file was open here: through a shell, which waits no longer than that.
        let ran = Command::new("sh").arg("-c").arg(&path).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(ran.stdout, b"1.2.3\n");
        assert_ne!(image, program("two", "1.2.3", 4096));
    }
}
