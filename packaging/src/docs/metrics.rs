//! The metrics of control and of a gateway, as they show them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result};

use super::cell;
use crate::{
    build::Programs,
    fleet::{Keys, Operator, Service, free_ports, replace, text},
};

/// A family of series.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    about: String,
    labels: Vec<String>,
}

/// The list of all families: what a control and a gateway show that have just been started.
pub async fn metrics(programs: &Programs) -> Result<String> {
    let [control, gateway] = scraped(programs).await?;
    let mut list = String::new();
    for (title, text) in [("Control", control), ("Gateway", gateway)] {
        list.push_str(&format!("## {title}\n\n"));
        list.push_str("| metric | kind | labels | about |\n| --- | --- | --- | --- |\n");
        for (name, family) in families(&text) {
            let labels: Vec<String> = family
                .labels
                .iter()
                .map(|label| format!("`{label}`"))
                .collect();
            let (kind, labels, about) = (&family.kind, labels.join(", "), cell(&family.about));
            list.push_str(&format!("| `{name}` | {kind} | {labels} | {about} |\n"));
        }
        list.push('\n');
    }
    Ok(list.trim_end().to_owned() + "\n")
}

async fn scraped(programs: &Programs) -> Result<[String; 2]> {
    let dir = tempfile::Builder::new().prefix("bcd-docs-").tempdir()?;
    let root = dir.path();
    let keys = Keys::make(&programs.control, &root.join("keys"))?;
    let [api, link, session, ours, theirs] = free_ports()?;
    let config = root.join("control.toml");
    replace(
        &config,
        &format!(
            "data_dir = {:?}\nlisten = \"127.0.0.1:{api}\"\nlink_listen = \"127.0.0.1:{link}\"\n\
             metrics_listen = \"127.0.0.1:{ours}\"\ndownloads_url = \"http://127.0.0.1:9\"\n\n\
             [release]\npins = {:?}\nthreshold = 2\n",
            root.join("data"),
            keys.pins(),
        ),
    )?;
    let mut control = Service::new("control", &programs.control, &root.join("logs"));
    control.args(["serve", "--config"]).arg(&config).start()?;
    let url = format!("http://127.0.0.1:{api}");
    let operator = Operator::new(&programs.control, &url, &root.join("data/admin.token"));
    operator.ready(&mut control).await?;
    let token = root.join("gateway.token");
    let name = format!("wss://127.0.0.1:{session}/session");
    operator.run(&[
        "gateways",
        "enrol",
        "one",
        "--url",
        &name,
        "--out",
        &text(&token)?,
    ])?;
    let config = root.join("gateway.toml");
    replace(
        &config,
        &format!(
            "listen = \"127.0.0.1:{session}\"\nmetrics_listen = \"127.0.0.1:{theirs}\"\ncontrol = {url:?}\n\
             state_dir = {:?}\nenrol_token_file = {token:?}\ndrain = \"1s\"\n",
            root.join("gateway"),
        ),
    )?;
    let mut gateway = Service::new("gateway", &programs.gateway, &root.join("logs"));
    gateway.arg("--config").arg(&config).start()?;
    let linked = |operator: &Operator| -> Result<Option<()>> {
        let list = operator.run(&[
            "gateways", "list", "--output", "json", "--query", "gateways",
        ])?;
        let list: serde_json::Value = serde_json::from_slice(&list.stdout)?;
        Ok((list.pointer("/0/linked") == Some(&true.into())).then_some(()))
    };
    operator
        .until("the gateway is linked", Duration::from_secs(60), linked)
        .await?;
    Ok([shown(ours).await?, shown(theirs).await?])
}

async fn shown(port: u16) -> Result<String> {
    // Nothing here speaks TLS, so nobody is trusted.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .timeout(Duration::from_secs(30))
        .build()?;
    let answer = client
        .get(format!("http://127.0.0.1:{port}/metrics"))
        .send()
        .await?;
    answer
        .error_for_status()?
        .text()
        .await
        .context("read the metrics")
}

fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    for line in text.lines() {
        if let Some((name, about)) = line
            .strip_prefix("# HELP ")
            .and_then(|rest| rest.split_once(' '))
        {
            families.entry(name.to_owned()).or_default().about = about.to_owned();
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((series, rest)) = line.split_once('{') {
            // A series' name is its family's, with an ending that says which part it is.
            let found = families
                .iter_mut()
                .rev()
                .find(|(name, _)| series.starts_with(name.as_str()));
            let labels = rest.split('}').next().unwrap_or_default();
            if let Some((_, family)) = found {
                family.take(labels);
            }
        }
    }
    families
}

impl Family {
    fn take(&mut self, labels: &str) {
        for name in labels
            .split("\",")
            .filter_map(|label| label.split('=').next())
        {
            let of_buckets = name == "le";
            if !name.is_empty() && !of_buckets && !self.labels.iter().any(|known| known == name) {
                self.labels.push(name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Family, families};

    #[test]
    fn a_text_of_metrics_comes_apart() {
        let text = "# HELP a Of a.\n# TYPE a counter\na_total{x=\"1\",y=\"2,3\"} 4\n# HELP a_b Of b.\n# TYPE a_b histogram\n\
                    a_b_bucket{le=\"0.1\",x=\"1\"} 5\n# EOF\n";
        let found: Vec<_> = families(text).into_iter().collect();
        let family = |kind: &str, about: &str, labels: &[&str]| Family {
            kind: kind.to_owned(),
            about: about.to_owned(),
            labels: labels.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(
            found,
            [
                ("a".to_owned(), family("counter", "Of a.", &["x", "y"])),
                ("a_b".to_owned(), family("histogram", "Of b.", &["x"])),
            ]
        );
    }
}
