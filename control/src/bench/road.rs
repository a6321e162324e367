//! From a report to the next start, and an operator's pause while reports pour in. Nodes are reports here: they go the way
//! that a gateway's batches go, from the intake's transaction to the spec that is computed for the next node.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use bc_protocol::id::{NodeId, RolloutId};
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    COMMITS, Count,
    fleet::{Fleet, NARROW, facts_of, gateway, obeyed, report},
    ms, percentile, timed,
};
use crate::{
    api::rollout::{OneRollout, PauseRollout},
    clock::Stopwatch,
    link::bench::take,
    rollout::{
        bench::spawn,
        service::{self, Services},
    },
    spec::store::changed_all,
};

/// No step takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reports a second, in batches a hundred times a second, while somebody pauses and resumes.
const REPORTS_PER_SECOND: usize = 5_000;
const BATCH: usize = 50;

/// How often somebody pauses.
const PAUSES: usize = 20;

/// One node after the other, each doing at once what it is told.
pub(super) async fn run(fleet: &Fleet) -> Result<Vec<(&'static str, f64)>> {
    let services = &fleet.services;
    let mut stale = services.stale.subscribe();
    let stop = CancellationToken::new();
    let controller = spawn(services.clone(), stop.clone());
    fleet.create(std::slice::from_ref(&fleet.narrow)).await?;
    let starts = usize::try_from(NARROW)? - 1;
    let mut waits = Vec::new();
    let mut reported: Option<Stopwatch> = None;
    let mut commits = Count::of(&COMMITS);
    while waits.len() < starts {
        let nodes = timeout(PATIENCE, stale.recv())
            .await
            .context("nobody was told anything for 30 s")??;
        let by = (&*services.trust, &*services.downloads_url);
        for (node, spec) in changed_all(&services.db, &nodes, by).await? {
            let Some(event) = obeyed(&node, &spec)? else {
                continue;
            };
            match reported {
                Some(watch) => waits.push(watch.elapsed()),
                None => commits = Count::of(&COMMITS),
            }
            reported = Some(Stopwatch::start());
            let (applied, _) = take(services, (&gateway(), fleet.link), &[event]).await?;
            ensure!(applied.changed.len() == 1, "a report that says nothing new");
            services.waker.wake_for_nodes(applied.changed);
        }
    }
    let commits = commits.per(waits.len());
    stop.cancel();
    controller.task.await?;
    Ok(vec![
        ("start_to_start_p50_ms", ms(percentile(&mut waits, 50))),
        ("start_to_start_p99_ms", ms(percentile(&mut waits, 99))),
        ("start_to_start_commits", commits),
    ])
}

/// Pauses and resumes the newest rollout while its nodes report.
pub(super) async fn pause(fleet: &Fleet) -> Result<Vec<(&'static str, f64)>> {
    let services = &fleet.services;
    let id = fleet.newest().await?;
    let nodes = fleet.flying(&id).await?;
    let stop = CancellationToken::new();
    let controller = spawn(services.clone(), stop.clone());
    let busy = Arc::new(AtomicBool::new(true));
    let mut running = JoinSet::new();
    let load = Load {
        services: services.clone(),
        link: fleet.link,
        nodes,
        busy: Arc::clone(&busy),
    };
    running.spawn(load.run());
    let mut waits = Vec::new();
    for _ in 0..PAUSES {
        tokio::time::sleep(Duration::from_millis(130)).await;
        waits.push(timed(pauses(fleet, &id)).await?.0);
        let request = OneRollout {
            tenant_id: fleet.tenant.clone(),
            rollout_id: id.clone(),
        };
        service::resume(services, "bench", request).await?;
    }
    busy.store(false, Ordering::Relaxed);
    let rate = running.join_next().await.context("the reports")???;
    stop.cancel();
    controller.task.await?;
    Ok(vec![
        ("pause_ms", ms(percentile(&mut waits, 100))),
        ("pause_p50_ms", ms(percentile(&mut waits, 50))),
        ("reports_per_s", rate),
    ])
}

async fn pauses(fleet: &Fleet, id: &RolloutId) -> Result<()> {
    let request = PauseRollout {
        tenant_id: fleet.tenant.clone(),
        rollout_id: id.clone(),
        reason: None,
    };
    service::pause(&fleet.services, "bench", request).await?;
    Ok(())
}

/// Reports that come all the time.
struct Load {
    services: Services,
    link: u64,
    nodes: Vec<NodeId>,
    busy: Arc<AtomicBool>,
}

impl Load {
    /// Gives how many a second were taken.
    async fn run(self) -> Result<f64> {
        let mut numbers: BTreeMap<&NodeId, u64> = BTreeMap::new();
        let mut nodes = self.nodes.iter().cycle();
        let pace =
            Duration::from_secs(1) * u32::try_from(BATCH)? / u32::try_from(REPORTS_PER_SECOND)?;
        let mut ticks = tokio::time::interval(pace);
        let watch = Stopwatch::start();
        let mut taken = 0_u32;
        while self.busy.load(Ordering::Relaxed) {
            ticks.tick().await;
            let mut events = Vec::with_capacity(BATCH);
            for node in nodes.by_ref().take(BATCH) {
                let number = numbers.entry(node).or_insert(1);
                *number += 1;
                events.push(report(node, *number, facts_of("1.0.0", 10)?));
            }
            let (applied, _) = take(&self.services, (&gateway(), self.link), &events).await?;
            taken += u32::try_from(events.len())?;
            self.services.waker.wake_for_nodes(applied.changed);
        }
        Ok(f64::from(taken) / watch.elapsed().as_secs_f64())
    }
}
