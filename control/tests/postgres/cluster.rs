//! A PostgreSQL server of a test's own.
//!
//! Takes the programs that are installed, gives a server on a socket in a temporary folder: no port, no password, no
//! flush. It ends with the value, and with the thread that made it. Where nothing is installed there is none, which is
//! told; where tests have to run all the same, that is a failure.
#![allow(
    dead_code,
    reason = "not every test that shares this file needs all of it"
)]
#![allow(
    clippy::print_stderr,
    reason = "a test that passes itself over says so"
)]

use std::{
    ffi::OsStr,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

/// A server that runs until the value goes.
#[derive(Debug)]
pub(crate) struct Cluster {
    programs: PathBuf,
    dir: tempfile::TempDir,
    server: Child,
    settings: Vec<String>,
    port: u16,
}

/// What PostgreSQL takes where nobody says otherwise.
const PORT: u16 = 5432;

/// The superuser inside, who needs no password.
pub(crate) const USER: &str = "bc";

impl Cluster {
    /// Starts one, if there is anything to start.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(PORT, |_| Vec::new())
    }

    /// Starts one with further settings, which `prepared` gives once the cluster's folder is there: what it puts in, the
    /// server's user owns. The port is in its socket's name, whether it listens there or not.
    pub(crate) fn start_with(
        port: u16,
        prepared: impl FnOnce(&Path) -> Vec<String>,
    ) -> Option<Self> {
        let Some(programs) = programs() else {
            let required = std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_some();
            assert!(
                !required,
                "expected PostgreSQL's server under /usr/lib/postgresql, found none"
            );
            eprintln!("passed over: there is no PostgreSQL server under /usr/lib/postgresql");
            return None;
        };
        // In memory where there is such a place: a cluster is thousands of small files.
        let parent = [Path::new("/dev/shm"), Path::new("/tmp")].into_iter();
        let parent = parent.clone().find(|path| path.is_dir()).unwrap();
        let dir = tempfile::Builder::new()
            .prefix("pg")
            .tempdir_in(parent)
            .unwrap();
        if let Some((uid, gid)) = other_user() {
            chown(dir.path(), Some(uid), Some(gid)).unwrap();
        }
        let data = dir.path().join("data");
        // A collation that is not that of bytes: what is ordered or compared must not depend on it.
        let mut initdb = as_user(&programs.join("initdb"));
        initdb.args([
            "--no-sync",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]);
        initdb.args([
            "--locale-provider=icu",
            "--icu-locale=en-US",
            "--username",
            USER,
        ]);
        done(initdb.arg("--pgdata").arg(&data));
        let mut settings = prepared(dir.path());
        settings.push(format!("port={port}"));
        if let Some((uid, gid)) = other_user() {
            for entry in std::fs::read_dir(dir.path()).unwrap() {
                chown(entry.unwrap().path(), Some(uid), Some(gid)).unwrap();
            }
        }
        let server = serve(&programs, &data, dir.path(), &settings);
        let cluster = Self {
            programs,
            dir,
            server,
            settings,
            port,
        };
        cluster.wait();
        Some(cluster)
    }

    /// The folder of its socket.
    pub(crate) fn socket(&self) -> &Path {
        self.dir.path()
    }

    /// The address of a database on it.
    pub(crate) fn url(&self, database: &str) -> String {
        url(self.socket(), database)
    }

    /// Makes a database, as a copy of another one.
    pub(crate) fn create(&self, database: &str, template: &str) {
        let sql = format!("CREATE DATABASE {database} TEMPLATE {template}");
        self.sql("postgres", &sql);
    }

    /// Says a statement, and gives what it answers.
    pub(crate) fn sql(&self, database: &str, statement: &str) -> String {
        say(self.socket(), self.port, (database, statement))
    }

    /// Ends the server as a crash would, and starts it again on what it left.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.server = serve(
            &self.programs,
            &self.dir.path().join("data"),
            self.dir.path(),
            &self.settings,
        );
        self.wait();
    }

    /// Waits until it answers.
    fn wait(&self) {
        for _ in 0..1500 {
            let mut ready = Command::new(self.programs.join("pg_isready"));
            ready.arg("--quiet").arg("--host").arg(self.socket());
            ready.arg("--port").arg(self.port.to_string());
            if ready.status().unwrap().success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("expected a server within 30 s, found none");
    }

    fn stop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.server.id().try_into().unwrap());
        // At once: whoever is connected loses his connection.
        let ended = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT);
        // It may have ended by itself.
        ended.ok();
        self.server.wait().ok();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Says a statement to the server behind a socket, and gives what it answers.
pub(crate) fn sql(socket: &Path, database: &str, statement: &str) -> String {
    say(socket, PORT, (database, statement))
}

fn say(socket: &Path, port: u16, (database, statement): (&str, &str)) -> String {
    let programs = programs().expect("the programs of a server that runs");
    let mut psql = Command::new(programs.join("psql"));
    psql.args([
        "--no-psqlrc",
        "--tuples-only",
        "--no-align",
        "--set=ON_ERROR_STOP=1",
    ]);
    psql.arg("--host").arg(socket).args(["--username", USER]);
    psql.arg("--port").arg(port.to_string());
    let output = done(psql.args(["--dbname", database, "--command", statement]));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The address of a database behind a socket.
pub(crate) fn url(socket: &Path, database: &str) -> String {
    format!(
        "postgres://{USER}@localhost/{database}?host={}",
        socket.display()
    )
}

fn serve(programs: &Path, data: &Path, socket: &Path, settings: &[String]) -> Child {
    let log = std::fs::File::create(socket.join("log")).unwrap();
    let mut server = as_user(&programs.join("postgres"));
    server.arg("-D").arg(data).arg("-k").arg(socket);
    for setting in [
        "listen_addresses=",
        "fsync=off",
        "full_page_writes=off",
        "synchronous_commit=off",
        "max_connections=400",
        "shared_buffers=64MB",
        "autovacuum=off",
    ] {
        server.args(["-c", setting]);
    }
    // The last word on a setting counts.
    for setting in settings {
        server.args(["-c", setting]);
    }
    server
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    server.spawn().unwrap()
}

/// The newest installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let version = |path: &Path| {
        path.file_name()
            .and_then(OsStr::to_str)?
            .parse::<u32>()
            .ok()
    };
    versions
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("bin/initdb").exists())
        .filter(|path| version(path).is_some_and(|version| version >= 15))
        .max_by_key(|path| version(path))
        .map(|path| path.join("bin"))
}

/// PostgreSQL refuses to be root: then it runs as the user that its package made.
fn other_user() -> Option<(u32, u32)> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let user = nix::unistd::User::from_name("postgres").unwrap();
    let user = user.expect("a user named postgres, which the package makes");
    Some((user.uid.as_raw(), user.gid.as_raw()))
}

/// A program of the server's user, which ends with whoever started it.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if let Some((uid, gid)) = other_user() {
        command.args([
            "--reuid",
            &uid.to_string(),
            "--regid",
            &gid.to_string(),
            "--clear-groups",
        ]);
    }
    command
        .args(["--pdeathsig", "QUIT", "--"])
        .arg(program)
        .current_dir("/");
    command
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}
