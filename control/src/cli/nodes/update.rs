//! `nodes update`.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args, ValueEnum};

use crate::{
    api::fleet::{Node, UpdateNode},
    cli::{
        exit::Exit,
        failure::Failure,
        online::{NodeName, Online},
    },
};

/// Change what operators say about a node: its labels, and whether rollouts leave it out
///
/// A label that is set here wins over one that the node says itself.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").args(["label", "unlabel", "maintenance"]).required(true).multiple(true)))]
pub(in crate::cli) struct Update {
    /// Its id, the beginning or end of it, or its hostname
    #[arg(value_name = "NODE")]
    node: NodeName,
    /// Set a label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::pair)]
    label: Vec<(String, String)>,
    /// Take back a label that was set here; may be repeated
    #[arg(long, value_name = "NAME")]
    unlabel: Vec<String>,
    /// Whether rollouts leave it out
    #[arg(long, value_enum)]
    maintenance: Option<Switch>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Update {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let set = self
            .label
            .into_iter()
            .map(|(name, value)| (name, Some(value)));
        let mut labels: BTreeMap<_, _> = set.collect();
        labels.extend(self.unlabel.into_iter().map(|name| (name, None)));
        let request = UpdateNode {
            tenant_id: online.client.tenant.clone(),
            node_id: online.node(&self.node).await?,
            labels,
            maintenance: self.maintenance.map(|switch| match switch {
                Switch::On => true,
                Switch::Off => false,
            }),
        };
        online.show::<Node>("nodes/update", &request).await
    }
}
