//! `rollouts list`.

use clap::Args;

use super::progress::frozen_in_words;
use crate::{
    api::rollout::{ListRollouts, Rollouts},
    cli::{exit::Exit, failure::Failure, online::Online, print::note, sheet::printable},
};

/// List the 100 newest rollouts, newest first
///
/// Ids are shown as far as it takes to tell them apart, which is enough for every command; with --output wide, json or
/// name, whole.
#[derive(Debug, Args)]
pub(in crate::cli) struct List {}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let method = "rollouts/list";
        let request = ListRollouts {
            tenant_id: online.client.tenant.clone(),
        };
        let answer = online.client.call::<Rollouts>(method, &request).await?;
        online.show_answer(&answer).await?;
        online.tell_if_empty(method, &answer);
        let mut rollouts = answer.value.rollouts.iter();
        if let Some(frozen) = rollouts.find_map(|rollout| rollout.frozen.as_ref())
            && online.printer.sheet(&answer).is_some()
        {
            note(&format!("note: {}", printable(&frozen_in_words(frozen))));
        }
        Ok(Exit::Done)
    }
}
