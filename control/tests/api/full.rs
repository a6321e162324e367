//! A disk that is full for a while.

use std::{fs::File, io::Write as _, path::PathBuf, process::Command, time::Duration};

use serde_json::{Value, json};

use crate::server::{Server, read, write_config};

/// A small file system in memory, where a service keeps its data.
struct Small(PathBuf);

impl Small {
    /// None where this test may not mount one.
    #[expect(
        clippy::print_stderr,
        reason = "whoever runs the tests is told what was not tried"
    )]
    fn mounted(at: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs"])
            .arg(&at)
            .output();
        let mounted = mount.is_ok_and(|done| done.status.success());
        if !mounted {
            let required = std::env::var_os("BCD_TESTS_REQUIRE_EVERYTHING").is_some();
            assert!(!required, "expected to be let mount, and was not");
            eprintln!("passed over: nobody but root mounts");
            return None;
        }
        Some(Self(at))
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut file = File::create(self.0.join("fill")).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(unmounted.unwrap().success() || std::thread::panicking());
    }
}

async fn pool(server: &Server, name: &str) -> (u16, Value) {
    let body = json!({ "tenantId": "root", "name": name });
    server.call_as(&server.admin, "pools/create", body).await
}

/// What did not fit is refused, and what comes when there is room again is kept.
#[tokio::test]
async fn a_disk_that_was_full_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Small::mounted(dir.path().join("data")) else {
        return;
    };
    write_config(dir.path(), "");
    let server = Server::start_in(dir);
    for round in 0..3 {
        assert_eq!(pool(&server, &format!("before-{round}")).await.0, 200);
        disk.fill();
        let mut tries = 0..1000;
        let refused = loop {
            let name = format!("full-{round}-{}", tries.next().unwrap());
            let (status, answer) = pool(&server, &name).await;
            if status != 200 {
                break answer;
            }
        };
        assert_eq!(refused["error"]["code"], "INTERNAL", "{refused}");
        disk.make_room();
        let (status, answer) = pool(&server, &format!("after-{round}")).await;
        assert_eq!(status, 200, "{answer}");
    }
    let (status, ready) = read(server.get("/readyz").send().await.unwrap()).await;
    assert_eq!((status, &ready["writes"]), (200, &json!("ok")), "{ready}");
}

/// Nobody finds a service ready that keeps nothing.
#[tokio::test]
async fn who_cannot_write_is_not_ready() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Small::mounted(dir.path().join("data")) else {
        return;
    };
    write_config(dir.path(), "");
    let server = Server::start_in(dir);
    disk.fill();
    let patience = tokio::time::Instant::now() + Duration::from_secs(120);
    for number in 0.. {
        let answer = server.get("/readyz").send().await.unwrap();
        let status = answer.status();
        let ready: Value = answer.json().await.unwrap();
        if status == 503 {
            assert_eq!(ready["writes"], "failing", "{ready}");
            break;
        }
        assert!(tokio::time::Instant::now() < patience, "{ready}");
        // What fits into the log's own room is written still.
        pool(&server, &format!("p{number}")).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
