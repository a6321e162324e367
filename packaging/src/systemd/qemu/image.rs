//! The disk that every machine starts with: the Debian of the other machines, with a kernel, a network, and a root shell
//! behind a port of the emulator.
//!
//! Made once, kept below `target`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::super::{cases, done, image::base, tell};
use crate::fleet::replace;

/// Debian's kernel for virtual machines, and what lets it find its disk.
const PACKAGES: [&str; 2] = ["initramfs-tools", "linux-image-cloud-amd64"];

/// How big the disk is; what is empty takes no room.
const SIZE: &str = "1536M";

/// All that the kernel needs until it has its disk.
const MODULES: &str = "virtio_pci\nvirtio_blk\nvirtio_console\nvirtio_net\n";

/// The port that commands come through.
pub(super) const PORT: &str = "yard.commands";

/// Reads a number and a script in base64, runs it, answers with the number, how it ended, and what it said. As long as
/// nobody listens at the other end, every read finds the end at once.
const SHELL: &str = r#"#!/bin/sh
modprobe -q virtio_console || true
port=/dev/virtio-ports/yard.commands
until [ -e $port ]; do sleep 0.1; done
exec 3<>$port
while :; do
  if ! read -r number script <&3; then
    sleep 0.2
    continue
  fi
  printf %s "$script" | base64 -d >/run/yard.script
  sh -e /run/yard.script >/run/yard.out 2>/run/yard.err </dev/null 3<&-
  code=$?
  printf '%s %s %s.%s\n' "$number" "$code" "$(base64 -w0 </run/yard.out)" "$(base64 -w0 </run/yard.err)" >&3
done
"#;

const SHELL_UNIT: &str = "[Unit]\nDescription=Commands from the yard\nStartLimitIntervalSec=0\n\n[Service]\n\
     Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
     Environment=DEBIAN_FRONTEND=noninteractive LC_ALL=C\nExecStart=/usr/local/sbin/yard-commands\n\
     Restart=always\n\n[Install]\nWantedBy=multi-user.target\n";

/// The emulator is the machine's whole network: it answers as 10.0.2.2 for this machine's loopback.
const NETWORK: &str = "[Match]\nType=ether\n\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n";

/// What a machine starts from.
#[derive(Clone, Debug)]
pub(super) struct Image {
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
    pub(super) disk: PathBuf,
}

/// Where it lies; made now if it is not there yet.
pub(super) fn made() -> Result<Image> {
    let base = base()?;
    let folder = base.parent().context("the Debian has no folder")?;
    let image = |folder: &Path| Image {
        kernel: folder.join("vmlinuz"),
        initrd: folder.join("initrd.img"),
        disk: folder.join("disk.ext4"),
    };
    let whole = folder.join("qemu");
    if whole.is_dir() {
        return Ok(image(&whole));
    }
    tell("making a disk with a kernel: a minute or two, once");
    // Under another name until it is whole.
    let half = folder.join("qemu.half");
    if half.is_dir() {
        std::fs::remove_dir_all(&half)?;
    }
    std::fs::create_dir_all(&half)?;
    let root = half.join("root");
    done(Command::new("cp").arg("-a").arg(&base).arg(&root))?;
    furnish(&root)?;
    let made = image(&half);
    for (link, to) in [("vmlinuz", &made.kernel), ("initrd.img", &made.initrd)] {
        let file = std::fs::read_link(root.join(link)).context("no kernel was installed")?;
        std::fs::copy(root.join(file), to)?;
    }
    let mut format = Command::new("mkfs.ext4");
    format.args(["-q", "-F", "-E", "root_owner=0:0", "-d"]);
    done(format.arg(&root).arg(&made.disk).arg(SIZE))?;
    std::fs::remove_dir_all(&root)?;
    std::fs::rename(&half, &whole)?;
    Ok(image(&whole))
}

/// Kernel, network, and the shell for us.
fn furnish(root: &Path) -> Result<()> {
    cases::provide(root, &PACKAGES)?;
    let files = [
        (
            "etc/initramfs-tools/conf.d/yard",
            "MODULES=list\nCOMPRESS=gzip\n",
        ),
        ("etc/initramfs-tools/modules", MODULES),
        ("etc/fstab", "/dev/vda / ext4 defaults 0 1\n"),
        ("etc/systemd/network/yard.network", NETWORK),
        ("etc/systemd/system/yard-commands.service", SHELL_UNIT),
        ("usr/local/sbin/yard-commands", SHELL),
    ];
    for (at, text) in files {
        replace(&root.join(at), text)?;
    }
    // What was said before the power went is read after the next boot.
    std::fs::create_dir_all(root.join("var/log/journal"))?;
    let script = "chmod 0755 /usr/local/sbin/yard-commands\n\
         systemctl enable systemd-networkd.service yard-commands.service\n\
         systemctl disable systemd-networkd-wait-online.service\n\
         systemctl mask getty@tty1.service serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer \
         e2scrub_all.timer e2scrub_reap.service dpkg-db-backup.timer\n\
         update-initramfs -u -k all\napt-get clean\nrm -rf /var/lib/apt/lists/*";
    done(
        Command::new("chroot")
            .arg(root)
            .args(["sh", "-ec", script])
            .env("LC_ALL", "C")
            .env_remove("TMPDIR"),
    )
    .map(drop)
}
