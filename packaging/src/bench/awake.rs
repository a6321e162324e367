//! Keeps the processors awake while something is measured.
//!
//! A processor with nothing to do falls asleep, and a virtual one takes longer to wake than a statement of a database takes:
//! figures would be of the machine, and a ratio of two of them of which hands over to another thread more often. Here each
//! processor has a loop that gives way to everything else. Where it cannot have one, nothing is kept awake, and that is said.

use std::{
    process::{Child, Command, Stdio},
    thread::available_parallelism,
};

/// A loop on each processor, until it is dropped.
#[derive(Debug)]
pub(super) struct Awake(Vec<Child>);

/// At the lowest priority there is, in a session of its own: the kernel shares processors among sessions first. It ends with
/// the process of the number that it is given, whatever becomes of that.
const LOOP: &str = r#"echo 19 > /proc/self/autogroup
while kill -0 "$0"; do i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done; done"#;

impl Awake {
    /// None where the machine does not have the programs for it.
    pub(super) fn begin() -> Option<Self> {
        let processors = available_parallelism().map_or(1, usize::from);
        let mut loops = Self(Vec::new());
        for processor in 0..processors {
            loops.0.push(spin(processor).ok()?);
        }
        let all_run = loops
            .0
            .iter_mut()
            .all(|one| matches!(one.try_wait(), Ok(None)));
        all_run.then_some(loops)
    }
}

fn spin(processor: usize) -> std::io::Result<Child> {
    Command::new("setsid")
        .args(["taskset", "--cpu-list", &processor.to_string()])
        .args(["chrt", "--idle", "0", "sh", "-c", LOOP])
        .arg(std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Drop for Awake {
    fn drop(&mut self) {
        for one in &mut self.0 {
            // One that has ended by itself needs no end.
            if one.kill().is_ok() {
                one.wait().ok();
            }
        }
    }
}
