//! The machines that programs are shipped for, and what everybody calls them.

use bc_protocol::platform::Platform;

/// A kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// 64-bit machines of Intel and AMD.
    Amd64,
    /// 64-bit machines of ARM.
    Arm64,
}

impl Target {
    /// This machine's own.
    pub fn here() -> Self {
        if cfg!(target_arch = "aarch64") {
            Self::Arm64
        } else {
            Self::Amd64
        }
    }

    /// Its name among those who make compilers.
    pub fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Its name in Debian.
    pub fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Its name in Fedora.
    pub fn fedora(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// Its name in a release.
    pub fn platform(self) -> Option<Platform> {
        Platform::from_arch_label(self.fedora())
    }

    /// Who links for it, where this machine's own linker does not: a variable of cargo's, and the name that Debian's
    /// compilers for other machines have.
    pub(super) fn linker(self) -> Option<(&'static str, &'static str)> {
        match self {
            here if here == Self::here() => None,
            Self::Amd64 => Some((
                "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER",
                "x86_64-linux-gnu-gcc",
            )),
            Self::Arm64 => Some((
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
                "aarch64-linux-gnu-gcc",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Target;
    use bc_protocol::platform::Platform;

    #[test]
    fn this_machine_is_its_own_target_and_needs_no_other_linker() {
        let here = Target::here();
        assert_eq!(here.platform(), Some(Platform::host()));
        assert_eq!(here.linker(), None);
        let other = match here {
            Target::Amd64 => Target::Arm64,
            Target::Arm64 => Target::Amd64,
        };
        assert!(other.linker().is_some());
        assert!(other.triple().starts_with(other.fedora()));
    }
}
