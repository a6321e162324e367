//! A PostgreSQL server of one's own, which flushes what it commits: no port, no password, a socket in a temporary folder.
//!
//! Takes the programs that are installed, gives a server that ends with the value, and with the thread that made it.

use std::{
    ffi::OsStr,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The superuser inside.
const USER: &str = "bc";

/// The server.
#[derive(Debug)]
pub struct Cluster {
    programs: PathBuf,
    server: Child,
    // Last: it is written to until the server has ended.
    dir: tempfile::TempDir,
}

impl Cluster {
    /// Starts one, if one is installed.
    pub fn start() -> Result<Option<Self>> {
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
        let server = serve(&programs, dir.path())?;
        let cluster = Self {
            programs,
            server,
            dir,
        };
        cluster.wait()?;
        Ok(Some(cluster))
    }

    /// The folder of its socket.
    pub fn socket(&self) -> &Path {
        self.dir.path()
    }

    /// Makes an empty database, and gives its address.
    pub fn create(&self, name: &str) -> Result<String> {
        let sql = format!("CREATE DATABASE {name}");
        let made = self.psql("postgres").args(["--command", &sql]).status()?;
        ensure!(made.success(), "psql ended with {made}");
        let socket = self.dir.path().display();
        Ok(format!("postgres://{USER}@localhost/{name}?host={socket}"))
    }

    /// The address of a database on it for whoever comes by a port of this machine that leads to its socket.
    pub fn url_by(port: u16, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{port}/{database}?sslmode=disable")
    }

    /// Says statements, and gives what they answer, without frills.
    pub async fn sql(&self, database: &str, statements: &str) -> Result<String> {
        let mut psql = tokio::process::Command::from(self.psql(database));
        psql.args(["--tuples-only", "--no-align", "--command", statements]);
        let output = psql.kill_on_drop(true).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "psql {statements}: {said}");
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// The rows of a query, as a JSON list of objects.
    pub async fn rows(&self, database: &str, query: &str) -> Result<Vec<Value>> {
        let sql = format!("SELECT coalesce(json_agg(t), '[]') FROM ({query}) t");
        let rows = self.sql(database, &sql).await?;
        serde_json::from_str(&rows).with_context(|| format!("what {query} gives"))
    }

    /// Ends the server as a crash would, and starts it again on what it left.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        self.server = serve(&self.programs, self.dir.path())?;
        self.wait()
    }

    fn psql(&self, database: &str) -> Command {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]);
        psql.args(["--username", USER, "--dbname", database, "--host"]);
        psql.arg(self.dir.path());
        psql
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

    fn stop(&mut self) {
        let pid = i32::try_from(self.server.id()).map(nix::unistd::Pid::from_raw);
        if let Ok(pid) = pid {
            // At once: whoever is connected loses his connection. It may have ended by itself.
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT).ok();
        }
        self.server.wait().ok();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(programs: &Path, dir: &Path) -> Result<Child> {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("log"))?;
    let mut server = as_user(&programs.join("postgres"), server_user()?);
    server.arg("-D").arg(dir.join("data")).arg("-k").arg(dir);
    server.args(["-c", "listen_addresses=", "-c", "shared_buffers=512MB"]);
    Ok(server.stdout(Stdio::null()).stderr(log).spawn()?)
}

/// The newest installed that is new enough.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let number = |path: &Path| {
        path.file_name()
            .and_then(OsStr::to_str)?
            .parse::<u32>()
            .ok()
    };
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
