//! `rollouts plan`.

use clap::Args;

use super::wanted::Wanted;
use crate::{
    api::rollout::{PlannedPool, PlannedWave, RolloutPlan},
    cli::{
        exit::Exit,
        failure::Failure,
        online::Online,
        print::{Detail, View},
        sheet::{Cell, Sheet, Tone},
        span::human_seconds,
    },
};

/// Show what `rollouts create` with the same flags would begin; nothing is stored
///
/// The waves, how many nodes of each pool go at once, how long it takes, and what is worth a second look. Which node
/// stands in which wave depends on the rollout's id, and so on --key.
#[derive(Debug, Args)]
pub(in crate::cli) struct Plan {
    #[command(flatten)]
    wanted: Wanted,
}

impl Plan {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        show_plan(online, self.wanted).await
    }
}

/// Asks what would begin, and shows it.
pub(super) async fn show_plan(online: &Online, wanted: Wanted) -> Result<Exit, Failure> {
    let request = wanted.request(online, || None).await?;
    online.show::<RolloutPlan>("rollouts/plan", &request).await
}

impl View for RolloutPlan {
    const SCHEMA: Option<&'static str> = Some("RolloutPlan");

    fn sheet(&self, _detail: Detail) -> Sheet {
        let mut fields = vec![
            ("version", Cell::new(&self.version)),
            ("nodes", Cell::new(self.nodes)),
            ("have it already", Cell::new(self.already)),
            ("takes about", Cell::new(about(self.estimated_seconds))),
            ("a node takes", Cell::new(about(self.seconds_per_node))),
        ];
        for warning in &self.warnings {
            fields.push(("warning", Cell::toned(&warning.message, Tone::Bad)));
        }
        Sheet::fields(fields)
            .above(waves(&self.waves))
            .above(pools(&self.pools))
    }

    fn names(&self) -> Vec<String> {
        vec![self.version.to_string()]
    }
}

fn waves(waves: &[PlannedWave]) -> Sheet {
    let rows = (1_u32..)
        .zip(waves)
        .map(|(number, wave)| {
            vec![
                Cell::new(number),
                Cell::new(wave.percent),
                Cell::new(wave.nodes),
                Cell::new(wave.pools.len()),
                Cell::new(about(wave.estimated_seconds)),
            ]
        })
        .collect();
    Sheet::rows(&["WAVE", "PERCENT", "NODES", "POOLS", "TAKES"], rows)
}

fn pools(pools: &[PlannedPool]) -> Sheet {
    let rows = pools
        .iter()
        .map(|pool| {
            let online = if pool.online == 0 {
                Tone::Bad
            } else {
                Tone::Plain
            };
            vec![
                Cell::pool(&pool.pool_id),
                Cell::new(pool.nodes),
                Cell::toned(pool.online, online),
                Cell::new(pool.concurrency),
                Cell::new(pool.disrupted),
            ]
        })
        .collect();
    Sheet::rows(&["POOL", "NODES", "ONLINE", "AT ONCE", "DISRUPTED"], rows)
}

/// An estimate knows no fractions of a second.
fn about(seconds: f64) -> String {
    human_seconds(seconds.ceil())
}
