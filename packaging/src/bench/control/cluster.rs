//! A PostgreSQL server of a measurement's own, which flushes what it commits: no port, no password, a socket in a temporary
//! folder. It ends with the value.

use std::{
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

/// The superuser inside.
const USER: &str = "bc";

/// The server.
#[derive(Debug)]
pub(super) struct Cluster {
    programs: PathBuf,
    dir: tempfile::TempDir,
    server: Child,
}

impl Cluster {
    /// Starts one, if one is installed.
    pub(super) fn start() -> Result<Option<Self>> {
        let Some(programs) = programs() else {
            return Ok(None);
        };
        let dir = tempfile::tempdir()?;
        let user = server_user()?;
        if let Some((uid, gid)) = user {
            chown(dir.path(), Some(uid), Some(gid))?;
        }
        let data = dir.path().join("data");
        let mut initdb = as_user(&programs.join("initdb"), user);
        initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8"]);
        initdb.args(["--locale=C.UTF-8", "--username", USER, "--pgdata"]);
        let made = initdb.arg(&data).stdout(Stdio::null()).status()?;
        ensure!(made.success(), "initdb ended with {made}");
        let log = std::fs::File::create(dir.path().join("log"))?;
        let mut server = as_user(&programs.join("postgres"), user);
        server.arg("-D").arg(&data).arg("-k").arg(dir.path());
        server.args(["-c", "listen_addresses=", "-c", "shared_buffers=512MB"]);
        let server = server.stdout(Stdio::null()).stderr(log).spawn()?;
        let cluster = Self {
            programs,
            dir,
            server,
        };
        cluster.wait()?;
        Ok(Some(cluster))
    }

    /// Makes an empty database, and gives its address.
    pub(super) fn create(&self, name: &str) -> Result<String> {
        let sql = format!("CREATE DATABASE {name}");
        let made = Command::new(self.programs.join("psql"))
            .args([
                "--no-psqlrc",
                "--quiet",
                "--username",
                USER,
                "--dbname",
                "postgres",
            ])
            .arg("--host")
            .arg(self.dir.path())
            .args(["--command", &sql])
            .status()?;
        ensure!(made.success(), "psql ended with {made}");
        let socket = self.dir.path().display();
        Ok(format!("postgres://{USER}@localhost/{name}?host={socket}"))
    }

    fn wait(&self) -> Result<()> {
        for _ in 0..1500 {
            let mut ready = Command::new(self.programs.join("pg_isready"));
            ready.arg("--quiet").arg("--host").arg(self.dir.path());
            if ready.status()?.success() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("expected a server within 30 s, found none")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let pid = i32::try_from(self.server.id()).map(nix::unistd::Pid::from_raw);
        if let Ok(pid) = pid {
            // It may have ended by itself.
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT).ok();
        }
        self.server.wait().ok();
    }
}

/// The newest installed that is new enough.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("bin/initdb").exists())
        .filter(|path| number(path).is_some_and(|version| version >= 15))
        .max_by_key(|path| number(path))
        .map(|path| path.join("bin"))
}

/// PostgreSQL refuses to be root: then it runs as the user that its package made.
fn server_user() -> Result<Option<(u32, u32)>> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    let user = nix::unistd::User::from_name("postgres")?;
    let user = user.context("a user named postgres, which the package makes")?;
    Ok(Some((user.uid.as_raw(), user.gid.as_raw())))
}

fn as_user(program: &Path, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new("setpriv");
    if let Some((uid, gid)) = user {
        let (uid, gid) = (uid.to_string(), gid.to_string());
        command.args(["--reuid", &uid, "--regid", &gid, "--clear-groups"]);
    }
    command.args(["--pdeathsig", "QUIT", "--"]).arg(program);
    command.current_dir("/");
    command
}
