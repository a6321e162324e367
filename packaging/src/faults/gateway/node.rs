//! A node that behaves: it keeps its session at the pace of a real one, counts its reports up, and does a command once.
//!
//! What it knows survives its sessions, as a real node's state does: the counter of connections, the newest generation,
//! and the journal of commands.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use bc_protocol::{
    command::{Command, CommandResult},
    id::CommandId,
    session::{FromGateway, FromNode, Goodbye, GoodbyeReason, Pace, StatusReport},
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, sleep_until},
};

use super::raw::{Credential, Raw, facts, hello};
use crate::fleet::now;

/// What nodes of one crowd share.
pub(super) struct Crowd {
    pub(super) lives: Vec<Arc<Life>>,
    /// How often each reports; not at all once this is nothing.
    report_every: watch::Sender<Option<Duration>>,
    _tasks: JoinSet<()>,
}

/// What one node knows.
pub(super) struct Life {
    pub(super) who: Credential,
    from: IpAddr,
    state: Mutex<State>,
}

/// It survives sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    connect_seq: u64,
    /// The newest that it has said, or was about to say.
    pub(super) generation: u64,
    /// What it has done, and how often.
    pub(super) done: BTreeMap<CommandId, u32>,
    /// While it has a session.
    pub(super) live: bool,
    /// When it tried to connect.
    pub(super) tries: Vec<Instant>,
    /// When its last session was opened.
    pub(super) opened: Option<Instant>,
    /// Reports that it made.
    pub(super) reports: u64,
}

impl Crowd {
    /// Lets these nodes live; each goes to `gateway` from an address of its own hundreds.
    pub(super) fn gather(
        gateway: SocketAddr,
        who: Vec<Credential>,
        report_every: Duration,
    ) -> Self {
        let (sender, every) = watch::channel(Some(report_every));
        let mut tasks = JoinSet::new();
        let mut lives = Vec::new();
        for (number, who) in who.into_iter().enumerate() {
            // An address has room for 28,000 connections to another; the gateway counts strangers by address.
            let host = u8::try_from(number / 1000 + 2).unwrap_or(u8::MAX);
            let life = Arc::new(Life {
                who,
                from: IpAddr::from([127, 0, 0, host]),
                state: Mutex::default(),
            });
            tasks.spawn(live(Arc::clone(&life), gateway, every.clone()));
            lives.push(life);
        }
        Self {
            lives,
            report_every: sender,
            _tasks: tasks,
        }
    }

    /// How many have a session.
    pub(super) fn live(&self) -> usize {
        let lives = self.lives.iter();
        lives.filter(|life| life.state().live).count()
    }

    /// Nobody reports any more.
    pub(super) fn hush(&self) {
        self.report_every.send_replace(None);
    }
}

impl Life {
    /// What it knows now.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn live(life: Arc<Life>, gateway: SocketAddr, every: watch::Receiver<Option<Duration>>) {
    let mut pace = Pace::default();
    loop {
        let ended = session(&life, gateway, every.clone()).await;
        let welcomed = std::mem::take(&mut life.state().live);
        if welcomed {
            pace = Pace::default();
        } else {
            pace.grow();
        }
        let goodbye = ended.ok();
        if let Some(GoodbyeReason::Superseded { connect_seq }) =
            goodbye.as_ref().map(|goodbye| goodbye.reason)
        {
            let mut state = life.state();
            state.connect_seq = state.connect_seq.max(connect_seq);
        }
        sleep(pace.after(goodbye.as_ref(), rand::random())).await;
    }
}

async fn session(
    life: &Life,
    gateway: SocketAddr,
    mut every: watch::Receiver<Option<Duration>>,
) -> Result<Goodbye> {
    let (connect_seq, generation) = {
        let mut state = life.state();
        state.connect_seq += 1;
        state.tries.push(now());
        (state.connect_seq, state.generation)
    };
    let mut raw = Raw::upgraded(gateway, life.from, &life.who.tls).await?;
    raw.greet(hello(connect_seq, generation)?).await?;
    {
        let mut state = life.state();
        state.live = true;
        state.opened = Some(now());
    }
    let mut number = 0;
    let mut report_at = due(*every.borrow(), rand::random());
    loop {
        tokio::select! {
            frame = raw.frame() => {
                let (first, payload) = frame?;
                match first & 0x0f {
                    0x2 => if let Some(goodbye) = heard(life, &mut raw, &payload).await? {
                        return Ok(goodbye);
                    },
                    0x9 => raw.send(&super::raw::masked(0x8a, &payload)).await?,
                    0xa => {}
                    _ => bail!("the gateway closes"),
                }
            }
            () = at(report_at) => {
                number += 1;
                report(life, &mut raw, number).await?;
                report_at = due(*every.borrow(), 0.5);
            }
            changed = every.changed() => {
                changed?;
                report_at = due(*every.borrow(), rand::random());
            }
        }
    }
}

fn due(every: Option<Duration>, share: f64) -> Option<Instant> {
    every.map(|every| now() + every.mul_f64(0.5 + share))
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

async fn report(life: &Life, raw: &mut Raw, number: u64) -> Result<()> {
    let generation = {
        let mut state = life.state();
        state.generation += 1;
        state.reports += 1;
        state.generation
    };
    let facts = facts(generation)?;
    raw.say(FromNode::Report(StatusReport { number, facts }))
        .await
}

async fn heard(life: &Life, raw: &mut Raw, payload: &[u8]) -> Result<Option<Goodbye>> {
    match FromGateway::decode(payload)? {
        FromGateway::Goodbye(goodbye) => return Ok(Some(goodbye)),
        FromGateway::Command(Ok(command)) => {
            let result = done(life, &command);
            raw.say(FromNode::CommandResult(result)).await?;
        }
        FromGateway::Command(Err(unreadable)) => bail!("{unreadable}"),
        FromGateway::Welcome(_) | FromGateway::Spec(_) | FromGateway::Certificate(_) => {}
    }
    Ok(None)
}

/// Does it once; what comes again is answered from the journal.
fn done(life: &Life, command: &Command) -> CommandResult {
    let mut state = life.state();
    let count = u32::try_from(state.done.len()).unwrap_or(u32::MAX);
    state.done.entry(command.id.clone()).or_insert(count + 1);
    CommandResult {
        id: command.id.clone(),
        succeeded: true,
        message: "done once".to_owned(),
        report: Vec::new(),
        code: String::new(),
    }
}
