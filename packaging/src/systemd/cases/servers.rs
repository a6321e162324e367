//! A whole fleet on one machine, out of its packages: control, a gateway that enrols, and a node that joins.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    super::{
        machine::Machine,
        node::{Node, Rights},
        yard::Yard,
    },
    script::nothing_is_left,
};
use crate::fleet::{free_ports, replace};

const UNITS: [&str; 2] = ["better-compute.service", "bc-gateway.service"];

/// How long a node may take to have its session back.
const BACK: Duration = Duration::from_secs(60);

/// Installed, configured, enrolled, joined; killed, restarted, upgraded; removed, installed again, purged.
pub(super) async fn packaged(yard: &mut Yard) -> Result<()> {
    let machine = yard.machine("servers").await?;
    yard.put_everything(&machine, &yard.packaged())?;
    for unit in UNITS {
        let state = machine.state_of(unit)?;
        ensure!(
            state == "inactive",
            "{unit} has no configuration, and is {state}"
        );
    }
    nothing_failed(&machine)?;
    configure(yard, &machine).with_context(|| said(&machine))?;
    let mut node = Node {
        id: joined(&machine)?,
        machine,
        rights: Rights::Root,
    };
    connected(&node).await?;
    for unit in UNITS {
        let kill = ["systemctl", "kill", "--signal=KILL", unit];
        node.machine.run(&kill)?;
        until_active(&node, unit).await?;
        connected(&node).await?;
        node.machine.run(&["systemctl", "restart", unit])?;
        connected(&node).await?;
    }
    journal_knows(&node)?;
    let before = processes(&node.machine)?;
    yard.put_everything(&node.machine, &yard.stock.newer()?)?;
    for (unit, before) in UNITS.iter().zip(before) {
        until_active(&node, unit).await?;
        let after = node.machine.main_process(unit)?;
        ensure!(
            before != after,
            "{unit} was upgraded, and goes on as it was"
        );
    }
    connected(&node).await?;
    node.machine.reboot().await?;
    connected(&node).await?;
    removed(yard, &node).await
}

async fn removed(yard: &Yard, node: &Node) -> Result<()> {
    let remove = ["apt-get", "remove", "--yes", "--quiet"];
    let packages = ["bcd", "bc-gateway", "better-compute"];
    node.machine.run(&[remove.as_slice(), &packages].concat())?;
    let left = node.machine.shell(
        "ps -e -o comm= | grep -x -e bcd -e bc-gateway -e better-compute || true\n\
         test -e /var/lib/better-compute/authority.key; test -e /etc/bc-gateway/gateway.toml",
    )?;
    ensure!(left.trim().is_empty(), "removed, and still runs: {left}");
    nothing_failed(&node.machine)?;
    yard.put_everything(&node.machine, &yard.packaged())?;
    // The gateway is enrolled and the node has joined already.
    connected(node).await?;
    let enabled = ["systemctl", "is-enabled", "bcd.service"];
    node.machine
        .run(&[enabled.as_slice(), UNITS.as_slice()].concat())?;
    let purge = ["apt-get", "purge", "--yes", "--quiet"];
    node.machine.run(&[purge.as_slice(), &packages].concat())?;
    nothing_is_left(&node.machine)?;
    let left = node.machine.shell(
        "for left in /var/lib/better-compute /etc/better-compute /var/lib/bc-gateway /etc/bc-gateway \
         /usr/bin/better-compute /usr/bin/bc-gateway; do if [ -e $left ]; then echo $left; fi; done",
    )?;
    ensure!(left.trim().is_empty(), "left behind: {left}");
    Ok(())
}

/// Writes what an administrator would, starts control, enrols the gateway, and starts it.
fn configure(yard: &Yard, machine: &Machine) -> Result<()> {
    let [api, link, session] = free_ports()?;
    let pins = yard.fleet.keys.pins();
    let root = machine.root();
    let control = format!(
        "data_dir = \"/var/lib/better-compute\"\nlisten = \"127.0.0.1:{api}\"\n\
         base_url = \"http://127.0.0.1:{api}\"\nlink_listen = \"127.0.0.1:{link}\"\n\
         link_url = \"wss://127.0.0.1:{link}/link\"\n\n[release]\npins = {pins:?}\nthreshold = 2\n\n\
         [downloads]\ndir = \"/var/lib/better-compute/downloads\"\n"
    );
    replace(&root.join("etc/better-compute/control.toml"), &control)?;
    let gateway = format!(
        "listen = \"127.0.0.1:{session}\"\ncontrol = \"http://127.0.0.1:{api}\"\nstate_dir = \"/var/lib/bc-gateway\"\n\
         enrol_token_file = \"/etc/bc-gateway/enrol.token\"\ndrain = \"1s\"\n"
    );
    replace(&root.join("etc/bc-gateway/gateway.toml"), &gateway)?;
    let node = yard.node_config(&format!("http://127.0.0.1:{api}"));
    replace(&root.join("etc/bcd/bcd.toml"), &node)?;
    machine.shell(&format!(
        "chgrp better-compute /etc/better-compute/control.toml; chmod 0640 /etc/better-compute/control.toml\n\
         systemctl start better-compute.service\n\
         export BETTER_COMPUTE_URL=http://127.0.0.1:{api} BETTER_COMPUTE_TENANT=root\n\
         export BETTER_COMPUTE_TOKEN_FILE=/var/lib/better-compute/admin.token HOME=/root\n\
         better-compute gateways enrol local --url wss://127.0.0.1:{session}/session --out /etc/bc-gateway/enrol.token\n\
         chown bc-gateway /etc/bc-gateway/enrol.token\n\
         systemctl start bc-gateway.service\n\
         better-compute pools create machines --budget 1 --output json >/root/pool.json\n\
         pool=$(sed -n 's/.*\"id\": *\"\\(pool_[a-z0-9]*\\)\".*/\\1/p' /root/pool.json)\n\
         better-compute join-tokens create --pool $pool --uses 1 --expires 1h --out /root/join.token"
    ))?;
    Ok(())
}

/// Who asks the journal for one node, or for what went wrong alone, gets that.
fn journal_knows(node: &Node) -> Result<()> {
    let asked = |words: String| {
        let lines = node.machine.shell(&format!(
            "journalctl --no-pager --output cat --lines 200 {words}"
        ));
        lines.with_context(|| words)
    };
    for (unit, said) in [
        ("bc-gateway.service", "session="),
        ("better-compute.service", "a node has joined"),
    ] {
        let lines = asked(format!("-u {unit} BC_NODE={}", node.id))?;
        ensure!(
            lines.contains(said) && lines.lines().all(|line| line.contains(&node.id)),
            "the journal of {unit} about {}: {lines}",
            node.id
        );
    }
    // Its gateway was killed.
    let lines = asked("-u bcd.service -p warning --identifier bcd".to_owned())?;
    ensure!(
        lines.contains(" WARN ") && !lines.contains(" INFO "),
        "what went wrong, by the journal of bcd.service: {lines}"
    );
    Ok(())
}

/// The last that control and gateway have said.
fn said(machine: &Machine) -> String {
    let words = "journalctl --no-pager --lines 30 --output short-precise -u better-compute.service -u bc-gateway.service";
    machine.shell(words).unwrap_or_default()
}

fn joined(machine: &Machine) -> Result<String> {
    machine.shell("bcd join --token-file /root/join.token; systemctl start bcd.service")?;
    let said = machine.run(&["bcd", "status", "--output", "json"])?;
    let status: Value = serde_json::from_str(&said)?;
    let id = status.get("nodeId").and_then(Value::as_str);
    Ok(id.context("the node has no id")?.to_owned())
}

async fn connected(node: &Node) -> Result<()> {
    let connected = |status: &Value| {
        status
            .pointer("/session/connected")
            .and_then(Value::as_bool)
            == Some(true)
            && status.pointer("/nodeId").and_then(Value::as_str) == Some(&node.id)
    };
    let connected = node.until("it is connected", BACK, connected).await;
    connected.with_context(|| said(&node.machine))?;
    nothing_failed(&node.machine)
}

/// It rests a second before it starts again.
async fn until_active(node: &Node, unit: &str) -> Result<()> {
    let active = |_: &Value| {
        let state = node.machine.state_of(unit);
        state.is_ok_and(|state| state == "active")
    };
    let what = format!("{unit} runs");
    node.until(&what, BACK, active).await.map(drop)
}

fn nothing_failed(machine: &Machine) -> Result<()> {
    let failed = machine.run(&["systemctl", "--failed", "--no-legend", "--plain"])?;
    ensure!(failed.trim().is_empty(), "failed units: {failed}");
    Ok(())
}

fn processes(machine: &Machine) -> Result<Vec<String>> {
    let each = UNITS.iter().map(|unit| machine.main_process(unit));
    each.collect()
}
