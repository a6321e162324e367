//! A database server that speaks TLS only.

use std::{net::TcpListener, path::Path};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::cluster::{Cluster, USER};
use crate::server::{Server, serve, write_config};

/// An authority, and what it signs.
struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), pem)
    }

    /// Certificate and key of a server, as files.
    fn sign(&self, name: &str, dir: &Path) {
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(dir.join("server.pem"), signed.pem()).unwrap();
        let file = dir.join("server.key");
        std::fs::write(&file, key.serialize_pem()).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(file, mode).unwrap();
    }
}

/// A server that takes connections by TLS alone, under a certificate for a name.
fn cluster(authority: &Authority, name: &str, port: u16) -> Option<Cluster> {
    Cluster::start_with(port, |dir| {
        authority.sign(name, dir);
        let rules = "local all all trust\nhostssl all all 127.0.0.1/32 trust\n";
        std::fs::write(dir.join("hba"), rules).unwrap();
        let file = |name: &str| dir.join(name).display().to_string();
        vec![
            "listen_addresses=127.0.0.1".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("server.pem")),
            format!("ssl_key_file={}", file("server.key")),
            format!("hba_file={}", file("hba")),
        ]
    })
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn refused(dir: &Path, url: &str) {
    write_config(dir, &format!("database_url = {url:?}\n"));
    let output = serve(dir, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("cannot be opened"),
        "{url}: {said}"
    );
}

#[tokio::test]
async fn a_server_far_away_has_to_prove_who_it_is() {
    let (ours, other) = (Authority::new(), Authority::new());
    let port = free_port();
    let Some(cluster) = cluster(&ours, "localhost", port) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, pem: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let (ca, wrong) = (file("ca.pem", &ours.1), file("other.pem", &other.1));
    let url =
        |host: &str, options: &str| format!("postgres://{USER}@{host}:{port}/postgres?{options}");
    refused(dir.path(), &url("localhost", "sslmode=disable"));
    let strict = |host: &str, ca: &str| url(host, &format!("sslmode=verify-full&sslrootcert={ca}"));
    refused(dir.path(), &strict("localhost", &wrong));
    // The certificate is for a name, and this is none.
    refused(dir.path(), &strict("127.0.0.1", &ca));

    write_config(
        dir.path(),
        &format!("database_url = {:?}\n", strict("localhost", &ca)),
    );
    let server = Server::start_in(dir);
    server.pool("edge").await;
    let plain = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
                 WHERE a.application_name = 'better-compute' AND s.version IS DISTINCT FROM 'TLSv1.3'";
    assert_eq!(cluster.sql("postgres", plain), "0");
    let all = "SELECT count(*) > 1 FROM pg_stat_activity WHERE application_name = 'better-compute'";
    assert_eq!(cluster.sql("postgres", all), "t");
    assert!(server.stop().success());
}
