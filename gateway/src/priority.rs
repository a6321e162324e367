//! Which thread goes first on a processor.

use std::io;

use nix::libc;

/// How much a thread of work that can wait leaves to others where all processors are busy: it keeps a thirtieth of what it
/// would have. With more it would be its turn now and then before somebody who has just spoken.
pub(crate) const NICE: i32 = 15;

/// For how long such a thread wants a processor at a time, nanoseconds. Whoever asks for less, as all others do, has it at
/// once.
const TURN_NS: u64 = 50_000_000;

/// `struct sched_attr` as it first was.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Lets every other thread go before this one, from now on. Kernels before 6.12 know no turns, and give a thread that wakes the
/// processor soon anyway.
#[expect(
    unsafe_code,
    reason = "no library that is here knows this call; the kernel reads one structure of the size it is told"
)]
pub(crate) fn give_way() -> io::Result<()> {
    let attributes = Attributes {
        size: u32::try_from(size_of::<Attributes>()).map_err(io::Error::other)?,
        policy: libc::SCHED_OTHER.unsigned_abs(),
        flags: 0,
        nice: NICE,
        priority: 0,
        runtime: TURN_NS,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the structure lives until the call is over, and its size is in it.
    let told = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    match told {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
