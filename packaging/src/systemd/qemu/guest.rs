//! One machine with a kernel and a disk of its own: an emulator, or a hypervisor where this machine has one that works.
//!
//! It boots, loses its power, and runs commands. Dropped, it is gone, with its disk.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use tempfile::TempDir;

use super::{
    super::{done, node::Commands},
    image::{Image, PORT},
};
use crate::fleet::now;

/// How long a boot may take: every instruction of it may be emulated, beside other work.
const BOOT: Duration = Duration::from_secs(300);

/// How long a command may take.
const COMMAND: Duration = Duration::from_secs(180);

/// How long a kernel may take to its first line, where the machine's own processor runs it.
const FIRST_LINE: Duration = Duration::from_secs(8);

/// Who runs a machine's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accelerator {
    /// The processor.
    Kvm,
    /// The emulator.
    Tcg,
}

impl Accelerator {
    /// The processor, where a kernel gets as far as its first line by it: `/dev/kvm` alone says little on a machine that is
    /// a virtual one itself.
    pub(super) fn found(image: &Image) -> Result<Self> {
        if !Path::new("/dev/kvm").exists() {
            return Ok(Self::Tcg);
        }
        let dir = tempfile::Builder::new().prefix("bcd-kvm-").tempdir()?;
        let console = dir.path().join("console");
        let mut qemu = Self::Kvm.qemu(&console);
        qemu.args(["-append", "console=ttyS0 earlyprintk=serial panic=-1"]);
        let mut qemu = qemu.arg("-kernel").arg(&image.kernel).spawn()?;
        let deadline = now() + FIRST_LINE;
        let mut found = Self::Tcg;
        while found == Self::Tcg && now() < deadline && qemu.try_wait()?.is_none() {
            let said = std::fs::read(&console).unwrap_or_default();
            if String::from_utf8_lossy(&said).contains("Linux version") {
                found = Self::Kvm;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        qemu.kill()?;
        qemu.wait()?;
        Ok(found)
    }

    /// What is the same for every start.
    fn qemu(self, console: &Path) -> Command {
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        qemu.args(["-display", "none", "-m", "512", "-smp", "1"]);
        match self {
            Self::Kvm => qemu.args(["-accel", "kvm", "-cpu", "host"]),
            Self::Tcg => qemu.args(["-accel", "tcg", "-cpu", "max"]),
        };
        qemu.arg("-serial")
            .arg(format!("file:{}", console.display()));
        qemu.stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        qemu
    }
}

/// A machine, on or off.
#[derive(Debug)]
pub(super) struct Guest {
    image: Image,
    accelerator: Accelerator,
    /// How big the package on its second disk is.
    package_bytes: u64,
    qemu: Option<Child>,
    line: Mutex<Line>,
    dir: TempDir,
}

/// The way to the shell of a machine that is on.
#[derive(Debug, Default)]
struct Line {
    socket: Option<BufReader<UnixStream>>,
    /// Questions so far, over all sockets: an answer to somebody who has hung up may still come.
    asked: u64,
}

impl Guest {
    /// One with a disk of its own, and the node's package on a second one.
    pub(super) fn new(
        number: usize,
        (image, accelerator): (&Image, Accelerator),
        package: &Path,
    ) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(&format!("bcd-guest-{number}-"))
            .tempdir()?;
        let mut copy = Command::new("cp");
        copy.args(["--sparse=always", "--reflink=auto"]);
        done(copy.arg(&image.disk).arg(dir.path().join("disk")))?;
        std::fs::copy(package, dir.path().join("package"))?;
        Ok(Self {
            image: image.clone(),
            accelerator,
            package_bytes: std::fs::metadata(package)?.len(),
            qemu: None,
            line: Mutex::default(),
            dir,
        })
    }

    /// A line of shell that lays the package out as a file.
    pub(super) fn take_package(&self, to: &str) -> String {
        format!("head -c {} /dev/vdb >{to}", self.package_bytes)
    }

    /// Boots it, and waits until it is up.
    pub(super) async fn boot(&mut self) -> Result<()> {
        self.start()?;
        self.up().await
    }

    /// Switches it on.
    pub(super) fn start(&mut self) -> Result<()> {
        let [disk, package, socket, console] =
            ["disk", "package", "commands", "console"].map(|name| self.dir.path().join(name));
        if socket.exists() {
            std::fs::remove_file(&socket)?;
        }
        let mut qemu = self.accelerator.qemu(&console);
        qemu.arg("-kernel").arg(&self.image.kernel);
        qemu.arg("-initrd").arg(&self.image.initrd);
        qemu.args([
            "-append",
            "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0",
        ]);
        let drive = |file: &Path, more: &str| {
            let file = file.display();
            format!("file={file},if=virtio,format=raw,{more}")
        };
        qemu.args(["-drive", &drive(&disk, "cache=writeback")]);
        qemu.args(["-drive", &drive(&package, "readonly=on")]);
        qemu.args(["-netdev", "user,id=net0,ipv6=off"]);
        qemu.args(["-device", "virtio-net-pci,netdev=net0,romfile="]);
        qemu.args(["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]);
        let socket = socket.display();
        qemu.args([
            "-chardev",
            &format!("socket,id=port0,path={socket},server=on,wait=off"),
        ]);
        qemu.args([
            "-device",
            &format!("virtserialport,chardev=port0,name={PORT}"),
        ]);
        self.qemu = Some(qemu.spawn().context("start qemu-system-x86_64")?);
        Ok(())
    }

    /// Waits until it is up.
    pub(super) async fn up(&mut self) -> Result<()> {
        let deadline = now() + BOOT;
        while now() < deadline {
            if let Some(qemu) = &mut self.qemu
                && let Some(status) = qemu.try_wait()?
            {
                bail!("the emulator ended with {status}");
            }
            let patience = Duration::from_secs(20);
            if let Ok((_, said, _)) = self.asked("systemctl is-system-running", patience)
                && matches!(said.trim(), "running" | "degraded")
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        bail!("a machine is not up after {BOOT:?}")
    }

    /// The power goes.
    pub(super) fn pull_the_plug(&mut self) -> Result<()> {
        if let Ok(line) = self.line.get_mut() {
            line.socket = None;
        }
        if let Some(mut qemu) = self.qemu.take() {
            qemu.kill()?;
            qemu.wait()?;
        }
        Ok(())
    }

    /// Runs lines of shell that must succeed; gives what they say.
    pub(super) fn shell(&self, lines: &str) -> Result<String> {
        let (code, said, complained) = self.asked(lines, COMMAND)?;
        ensure!(code == 0, "{lines} ended with {code}: {said}{complained}");
        Ok(said)
    }

    /// The last lines of its console.
    pub(super) fn console(&self) -> String {
        let said = std::fs::read(self.dir.path().join("console")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        let lines: Vec<&str> = said.lines().rev().take(40).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Runs a script; gives how it ended, what it said, and what it complained of.
    fn asked(&self, script: &str, patience: Duration) -> Result<(i32, String, String)> {
        let Ok(mut line) = self.line.lock() else {
            bail!("somebody who asked this machine has panicked");
        };
        let socket = match line.socket.take() {
            Some(socket) => socket,
            None => BufReader::new(UnixStream::connect(self.dir.path().join("commands"))?),
        };
        line.ask(socket, script, patience)
    }
}

impl Line {
    /// The socket is kept for the next question only if this one was answered.
    fn ask(
        &mut self,
        mut socket: BufReader<UnixStream>,
        script: &str,
        patience: Duration,
    ) -> Result<(i32, String, String)> {
        self.asked += 1;
        let number = format!("{} ", self.asked);
        let question = format!("{number}{}\n", STANDARD.encode(script));
        socket.get_mut().set_read_timeout(Some(patience))?;
        socket.get_mut().write_all(question.as_bytes())?;
        loop {
            let mut answer = String::new();
            let read = socket.read_line(&mut answer)?;
            ensure!(read > 0, "the machine is off");
            if let Some(answer) = answer.trim_end().strip_prefix(&number) {
                self.socket = Some(socket);
                let parsed = parsed(answer);
                return parsed.with_context(|| format!("expected an answer, found {answer}"));
            }
        }
    }
}

fn parsed(answer: &str) -> Option<(i32, String, String)> {
    let (code, texts) = answer.split_once(' ')?;
    let (said, complained) = texts.split_once('.')?;
    let text = |encoded: &str| {
        let bytes = STANDARD.decode(encoded).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    Some((code.parse().ok()?, text(said)?, text(complained)?))
}

impl Commands for Guest {
    fn run(&self, words: &[&str]) -> Result<String> {
        let quoted = |word: &&str| format!("'{}'", word.replace('\'', r"'\''"));
        let words: Vec<String> = words.iter().map(quoted).collect();
        self.shell(&words.join(" "))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // What cannot be ended has ended by itself.
        drop(self.pull_the_plug());
    }
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn an_answer_is_how_it_ended_and_two_texts() {
        let expected = (3, "one\n".to_owned(), String::new());
        assert_eq!(parsed("3 b25lCg==."), Some(expected));
        assert_eq!(parsed("3 b25lCg=="), None);
        assert_eq!(parsed("x ."), None);
    }
}
