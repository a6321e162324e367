//! A fleet's gateways: the first, and those that come later.
//!
//! Takes a running control, gives a gateway that has enrolled there, in a folder of its own.

use std::path::Path;

use anyhow::Result;

use super::{Fleet, Operator, Service, free_ports, replace, text};

impl Fleet {
    /// Enrols and starts one more gateway. It ends with the value.
    pub fn add_gateway(&self, name: &str) -> Result<Service> {
        let [port] = free_ports()?;
        let program = &self.programs.gateway;
        begin(&self.operator, program, self.dir.path(), (name, port))
    }
}

/// Enrols a gateway of this name, and starts it where it takes sessions at this port.
pub(super) fn begin(
    operator: &Operator,
    program: &Path,
    root: &Path,
    (name, port): (&str, u16),
) -> Result<Service> {
    let token = root.join(format!("{name}.token"));
    let url = format!("wss://127.0.0.1:{port}/session");
    let out = text(&token)?;
    operator.run(&["gateways", "enrol", name, "--url", &url, "--out", &out])?;
    let config = root.join(format!("{name}.toml"));
    let lines = format!(
        "listen = \"127.0.0.1:{port}\"\ncontrol = {control:?}\nstate_dir = {state:?}\nenrol_token_file = {token:?}\n\
         drain = \"1s\"\n",
        control = operator.url(),
        state = root.join(name),
    );
    replace(&config, &lines)?;
    let mut gateway = Service::new(name, program, &root.join("logs"));
    gateway.arg("--config").arg(&config);
    gateway.start()?;
    Ok(gateway)
}
