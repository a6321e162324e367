//! Walks over pages: every block that is to be run, in order, in one shell and one temporary folder.
//!
//! The shell and all that it starts are one group of processes, which ends with the walk.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use packaging::{
    build,
    guide::{Block, Page, Use, printed},
};
use tokio::process::Command;

/// Two agents are built in it, on a machine that others build on.
const PATIENCE: Duration = Duration::from_secs(900);

/// Pages that are walked over.
pub(crate) struct Walk {
    steps: Vec<Step>,
    dir: tempfile::TempDir,
    programs: PathBuf,
    given: BTreeMap<String, String>,
}

struct Step {
    place: String,
    what: Use,
    text: String,
    prints: Option<String>,
}

impl Walk {
    /// Over these, one after the other.
    pub(crate) async fn through(pages: &[&str]) -> Self {
        let pages = pages.iter().map(|name| Page::read(name).unwrap());
        let pages: Vec<Page> = pages.collect();
        let built = build::programs().await.unwrap();
        let dir = tempfile::Builder::new()
            .prefix("bcd-guide-")
            .tempdir()
            .unwrap();
        // What a package would have put there; nothing else of the target folder is found by name.
        let programs = dir.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        for program in [&built.control, &built.gateway] {
            let name = program.file_name().unwrap();
            std::os::unix::fs::symlink(program, programs.join(name)).unwrap();
        }
        let mut steps: Vec<Step> = Vec::new();
        let mut last: Vec<Step> = Vec::new();
        for page in &pages {
            for (block, printed) in page.with_printed() {
                match block.what {
                    Use::Run | Use::Source => steps.push(Step::of(page, block, printed)),
                    Use::Last => last.push(Step::of(page, block, printed)),
                    Use::Machine
                    | Use::Call
                    | Use::Printed
                    | Use::Json
                    | Use::Toml
                    | Use::Shown => {}
                }
            }
        }
        last.reverse();
        steps.append(&mut last);
        Self {
            steps,
            dir,
            programs,
            given: BTreeMap::new(),
        }
    }

    /// The same, with an agent that says it is of this version.
    pub(crate) async fn with_agent(self, version: &'static str) -> Self {
        let agent = build::AgentBuild {
            version,
            fault: None,
        };
        build::agent(agent, &self.programs.join("bcd"))
            .await
            .unwrap();
        self
    }

    /// The same, with another value where a page exports this variable.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.given.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Takes every step. The first that fails, or prints something else than the page says, is the test's end.
    pub(crate) async fn finish(self) {
        let root = self.dir.path();
        let script = self.script();
        std::fs::create_dir(root.join("steps")).unwrap();
        std::fs::create_dir(root.join("here")).unwrap();
        for (number, step) in self.steps.iter().enumerate() {
            let text = self.prepared(step);
            std::fs::write(root.join(format!("steps/{number}.sh")), text).unwrap();
        }
        std::fs::write(root.join("walk.sh"), script).unwrap();
        let status = self.run(&root.join("walk.sh")).await;
        for (number, step) in self.steps.iter().enumerate() {
            let place = &step.place;
            let read = |ending: &str| {
                std::fs::read_to_string(root.join(format!("steps/{number}.{ending}")))
            };
            let printed = read("out").unwrap_or_default();
            let was_done = read("done").is_ok();
            assert!(
                was_done,
                "{place}: the block failed ({status:?}):\n{}\nIt printed:\n{printed}\n{}",
                step.text,
                logs(&root.join("here"))
            );
            if let Some(said) = &step.prints
                && let Some(difference) = printed::differs(said, &printed)
            {
                panic!("{place}: {difference}");
            }
        }
    }

    fn script(&self) -> String {
        let root = self.dir.path().display();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut script = format!("set -eEuo pipefail\ncd '{root}/here'\n");
        for (number, step) in self.steps.iter().enumerate() {
            let base = format!("{root}/steps/{number}");
            let run = format!("source '{base}.sh' > '{base}.out' 2>&1");
            match step.what {
                // Whoever builds holds this file: every version is built to the same path.
                Use::Source => script.push_str(&format!(
                    "(\n cd '{source}'\n exec 9< packaging/Cargo.toml\n flock 9\n {run}\n)\n"
                )),
                Use::Run
                | Use::Last
                | Use::Machine
                | Use::Call
                | Use::Printed
                | Use::Json
                | Use::Toml
                | Use::Shown => script.push_str(&format!("{run}\n")),
            }
            script.push_str(&format!(": > '{base}.done'\n"));
        }
        script
    }

    /// The block, with ports that are free, and with what the test gives in place of what the page exports.
    fn prepared(&self, step: &Step) -> String {
        let mut text = String::new();
        for line in step.text.lines() {
            text.push_str(&self.exported(line).unwrap_or_else(|| line.to_owned()));
            text.push('\n');
        }
        match step.what {
            Use::Source => text.replace("target/debug/", &format!("{}/", target().display())),
            Use::Run
            | Use::Last
            | Use::Machine
            | Use::Call
            | Use::Printed
            | Use::Json
            | Use::Toml
            | Use::Shown => text,
        }
    }

    fn exported(&self, line: &str) -> Option<String> {
        let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
        if let Some(given) = self.given.get(name) {
            return Some(format!("export {name}='{given}'"));
        }
        value.strip_prefix("127.0.0.1:")?;
        let [port] = free_ports();
        Some(format!("export {name}=127.0.0.1:{port}"))
    }

    async fn run(&self, script: &Path) -> Option<ExitStatus> {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .arg(script)
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("HOME", self.dir.path())
            .stdin(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        without_cargos_own(|name| {
            command.env_remove(name);
        });
        keep_toolchain(&mut command);
        let mut shell = command.spawn().unwrap();
        let group = Pid::from_raw(shell.id().unwrap().try_into().unwrap());
        let ended = tokio::time::timeout(PATIENCE, shell.wait()).await;
        // Whatever was started in the background is of the same group. There may be nobody left.
        killpg(group, Signal::SIGKILL).ok();
        ended.ok().map(|status| status.unwrap())
    }
}

impl Step {
    fn of(page: &Page, block: &Block, prints: Option<&str>) -> Self {
        let place = format!("{}.md:{}", page.name, block.line);
        for line in block.text.lines() {
            assert!(
                !line.starts_with("! "),
                "{place}: a shell that stops at errors passes over this line's: say `|| echo \"status $?\"`"
            );
        }
        Self {
            place,
            what: block.what,
            text: block.text.clone(),
            prints: prints.map(str::to_owned),
        }
    }
}

/// Takes out of an environment what cargo told this process about its own package, which would have others built anew, and
/// what a person's own set-up says, which would be no newcomer's.
pub(crate) fn without_cargos_own(mut remove: impl FnMut(&str)) {
    let prefixes = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
        "BETTER_COMPUTE_",
        "BCD_",
    ];
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            remove(&name);
        }
    }
}

/// Rust's own tools look for themselves in the home folder.
fn keep_toolchain(command: &mut Command) {
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else {
        return;
    };
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if std::env::var_os(name).is_none() {
            command.env(name, home.join(folder));
        }
    }
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    // target/debug/deps/guides-…
    this.parent().and_then(Path::parent).unwrap().to_owned()
}

/// Ports that nobody listens on. All are held until all are known, so that they differ.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let held = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

/// What every program has logged: for the reader of a failed test.
fn logs(dir: &Path) -> String {
    let mut told = String::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder {
                folders.push(path);
            } else if path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().ends_with("log"))
            {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let tail = &lines[lines.len().saturating_sub(20)..];
                told.push_str(&format!("--- {}\n{}\n", path.display(), tail.join("\n")));
            }
        }
    }
    told
}
