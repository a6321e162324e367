//! `events watch`.

use std::time::Duration;

use clap::Args;
use serde::Deserialize as _;

use crate::{
    api::event::{Event, WatchEvents},
    cli::{
        client::{CallError, Told},
        exit::Exit,
        failure::Failure,
        limits::{POLL_EVERY, WATCH_PATIENCE},
        online::Online,
        print::{Output, note, write_out},
        sheet::{printable, second},
        span,
    },
    clock::Stopwatch,
};

/// Follow what happens until you stop it
///
/// A line for every event; with --output json, every event as one line of JSON. A connection that breaks is made again,
/// and goes on behind the last event: none is missed, none comes twice.
#[derive(Debug, Args)]
pub(in crate::cli) struct Watch {
    /// Only of this type, such as rollout.paused, or of this kind, such as 'node.*'; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only about this, such as rollout/ID
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// From behind this position on, instead of from now on
    #[arg(long, value_name = "POSITION")]
    after: Option<u64>,
    /// How long to watch; then end with 5
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = span::patience)]
    timeout: Option<Duration>,
}

impl Watch {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = WatchEvents {
            tenant_id: online.client.tenant.clone(),
            after: self.after,
            types: self.types,
            subject: self.subject,
        };
        let watched = watch(online, request);
        let Some(patience) = self.timeout else {
            return watched.await;
        };
        match tokio::time::timeout(patience, watched).await {
            Ok(ended) => ended,
            Err(_) => Err(Failure::TimedOut {
                what: "events".to_owned(),
                waited: patience,
            }),
        }
    }
}

async fn watch(online: &Online, request: WatchEvents) -> Result<Exit, Failure> {
    let mut alone = Stopwatch::start();
    let mut last = None;
    loop {
        match connection(online, &request, (&mut last, &mut alone)).await {
            Err(Failure::Call(error)) if error.is_passing() && alone.elapsed() < WATCH_PATIENCE => {
                if !online.printer.is_for_programs() {
                    note(&format!("{}; trying again", printable(&error.to_string())));
                }
            }
            Err(failure) => return Err(failure),
            // The service is about to stop, or the watch is full: whoever comes again is told.
            Ok(()) => {}
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

async fn connection(
    online: &Online,
    request: &WatchEvents,
    (last, alone): (&mut Option<u64>, &mut Stopwatch),
) -> Result<(), Failure> {
    let mut stream = online.client.watch(request, *last).await?;
    *alone = Stopwatch::start();
    while let Some(told) = stream.next().await? {
        show(online, &told)?;
        *last = stream.last();
        *alone = Stopwatch::start();
    }
    Ok(())
}

fn show(online: &Online, told: &Told) -> Result<(), Failure> {
    if online.printer.is_for_programs() {
        online.printer.show_next(&told.data, "Event")?;
        return Ok(());
    }
    let event = Event::deserialize(&told.data).map_err(|source| {
        Failure::Call(CallError::Misunderstood {
            base: online.client.base().clone(),
            source,
        })
    })?;
    let text = match online.printer.output {
        Output::Name => event.id.to_string(),
        Output::Wide => format!(
            "{} {} {} by {} {}",
            second(event.at),
            event.kind,
            event.subject,
            event.actor,
            event.data
        ),
        Output::Table | Output::Json | Output::Yaml => format!(
            "{} {} {} by {}",
            second(event.at),
            event.kind,
            event.subject,
            event.actor
        ),
    };
    Ok(write_out(&format!("{}\n", printable(&text)))?)
}
