//! A swarm, or a stand-in for control, in a process of its own.
//!
//! The first line of its standard input says what it is, each further line is an order; each order has one line of
//! answer, JSON all of them. It ends with its input, so it never outlives who started it.

use std::{
    io::Write as _,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use bc_protocol::{
    digest::Sha256,
    id::AttemptId,
    link::{FromControl, SpecPush},
    spec::{DaemonSection, NodeSpec},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    time::sleep,
};

use super::{
    Plan, Status, Swarm,
    authority::{Authority, Pair, node_id},
    bare::Bare,
    link::{Pushes, StandIn},
    monotonic,
};
use crate::fleet::now;

/// What a worker is.
#[derive(Debug, Serialize, Deserialize)]
pub enum Role {
    /// Nodes.
    Nodes(Box<Plan>),
    /// A bare server: it takes connections, and sends the same bytes to each of them in one loop.
    Raw {
        /// How many bytes a message has.
        bytes: usize,
    },
    /// The other end of one gateway's link.
    StandIn {
        /// Who vouches for both.
        authority: Pair,
        /// What sessions are to beat at.
        heartbeat_ms: u32,
    },
}

/// What a worker is told.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// How many nodes there are to be.
    Want(usize),
    /// How do things stand?
    Status,
    /// Begin the spreads anew.
    Forget,
    /// Push a new spec to each of these minted nodes; a bare server pushes to whoever is connected.
    Push {
        /// The first node's number.
        first: usize,
        /// How many.
        nodes: usize,
        /// The spec's generation.
        generation: u64,
    },
    /// Where does the stand-in, or the bare server, listen?
    Url,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is done, or under way.
    Done,
    /// How things stand.
    Status(Box<Status>),
    /// When the first push left, by [`monotonic`].
    Pushed {
        /// In nanoseconds.
        began_ns: u64,
    },
    /// Where it listens.
    Url(String),
    /// It cannot, or is not for that.
    Failed(String),
}

/// A worker that runs. It is killed when it is dropped.
pub struct Worker {
    // Its input is what it lives by; it is closed first.
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Worker {
    /// Starts `program`, an `xtask`, as a worker.
    pub async fn start(program: &Path, role: &Role) -> Result<Self> {
        let mut child = Command::new(program)
            .arg("load-worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let mut input = child.stdin.take().context("a worker without input")?;
        let output = child.stdout.take().context("a worker without output")?;
        input.write_all(&line(role)?).await?;
        Ok(Self {
            input,
            output: BufReader::new(output).lines(),
            child,
        })
    }

    /// Where it listens, if it does.
    pub async fn url(&mut self) -> Result<String> {
        match self.ask(&Order::Url).await? {
            Answer::Url(url) => Ok(url),
            other @ (Answer::Done
            | Answer::Status(_)
            | Answer::Pushed { .. }
            | Answer::Failed(_)) => bail!("expected an address, found {other:?}"),
        }
    }

    /// Pushes; gives when it began, by [`monotonic`].
    pub async fn push(&mut self, nodes: usize, generation: u64) -> Result<Duration> {
        let order = Order::Push {
            first: 0,
            nodes,
            generation,
        };
        match self.ask(&order).await? {
            Answer::Pushed { began_ns } => Ok(Duration::from_nanos(began_ns)),
            other @ (Answer::Done | Answer::Status(_) | Answer::Url(_) | Answer::Failed(_)) => {
                bail!("expected a push, found {other:?}")
            }
        }
    }

    /// Its process.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Gives an order and waits for the answer.
    pub async fn ask(&mut self, order: &Order) -> Result<Answer> {
        self.input.write_all(&line(order)?).await?;
        let answer = self.output.next_line().await?;
        match serde_json::from_str(&answer.context("the worker has ended")?)? {
            Answer::Failed(why) => bail!("the worker cannot: {why}"),
            answer
            @ (Answer::Done | Answer::Status(_) | Answer::Pushed { .. } | Answer::Url(_)) => {
                Ok(answer)
            }
        }
    }

    /// How things stand.
    pub async fn status(&mut self) -> Result<Status> {
        match self.ask(&Order::Status).await? {
            Answer::Status(status) => Ok(*status),
            other @ (Answer::Done | Answer::Pushed { .. } | Answer::Url(_) | Answer::Failed(_)) => {
                bail!("expected a status, found {other:?}")
            }
        }
    }

    /// Wants that many nodes, and waits until they are all there or all gone; gives how things stand then.
    pub async fn reach(&mut self, nodes: usize, patience: Duration) -> Result<Status> {
        self.ask(&Order::Want(nodes)).await?;
        self.until(patience, |status| status.live == nodes).await
    }

    /// Waits for something to be so.
    pub async fn until(
        &mut self,
        patience: Duration,
        is: impl Fn(&Status) -> bool,
    ) -> Result<Status> {
        let deadline: Instant = now() + patience;
        loop {
            let status = self.status().await?;
            if is(&status) {
                return Ok(status);
            }
            if now() > deadline {
                bail!("not within {patience:?}: {status:?}");
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

fn line(what: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Ok(line)
}

/// Is a worker until the input ends.
pub async fn serve() -> Result<()> {
    let mut input = input();
    let role = input.recv().await.context("expected a role")?;
    match serde_json::from_str(&role)? {
        Role::Nodes(plan) => nodes(*plan, &mut input).await,
        Role::Raw { bytes } => bare(bytes, &mut input).await,
        Role::StandIn {
            authority,
            heartbeat_ms,
        } => stand_in(authority, heartbeat_ms, &mut input).await,
    }
}

/// The lines of standard input, read by a thread: it waits there and nowhere else.
fn input() -> mpsc::Receiver<String> {
    let (lines, read) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                break;
            }
        }
    });
    read
}

async fn nodes(plan: Plan, input: &mut mpsc::Receiver<String>) -> Result<()> {
    let swarm = Swarm::new(plan)?;
    while let Some(order) = input.recv().await {
        let answer = match serde_json::from_str(&order)? {
            Order::Want(nodes) => {
                swarm.want(nodes);
                Answer::Done
            }
            Order::Status => Answer::Status(Box::new(swarm.status())),
            Order::Forget => {
                swarm.forget();
                Answer::Done
            }
            other @ (Order::Push { .. } | Order::Url) => misplaced(&other),
        };
        say(&answer)?;
    }
    Ok(())
}

async fn stand_in(
    authority: Pair,
    heartbeat_ms: u32,
    input: &mut mpsc::Receiver<String>,
) -> Result<()> {
    let authority = Authority::from_pair(authority)?;
    let (stand_in, pushes) = StandIn::new(&authority, heartbeat_ms).await?;
    let url = stand_in.url()?;
    let taking = tokio::spawn(stand_in.run());
    while let Some(order) = input.recv().await {
        let answer = match serde_json::from_str(&order)? {
            Order::Url => Answer::Url(url.clone()),
            Order::Push {
                first,
                nodes,
                generation,
            } => push(&pushes, first..first + nodes, generation).await?,
            other @ (Order::Want(_) | Order::Status | Order::Forget) => misplaced(&other),
        };
        say(&answer)?;
    }
    taking.abort();
    Ok(())
}

async fn bare(bytes: usize, input: &mut mpsc::Receiver<String>) -> Result<()> {
    let server = Bare::new(bytes)?;
    while let Some(order) = input.recv().await {
        let answer = match serde_json::from_str(&order)? {
            Order::Url => Answer::Url(server.address()?.to_string()),
            Order::Push { .. } => Answer::Pushed {
                began_ns: u64::try_from(server.push()?.as_nanos())?,
            },
            other @ (Order::Want(_) | Order::Status | Order::Forget) => misplaced(&other),
        };
        say(&answer)?;
    }
    Ok(())
}

fn misplaced(order: &Order) -> Answer {
    Answer::Failed(format!("{order:?} is not for this worker"))
}

fn say(answer: &Answer) -> Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(&line(answer)?)?;
    Ok(output.flush()?)
}

async fn push(pushes: &Pushes, nodes: std::ops::Range<usize>, generation: u64) -> Result<Answer> {
    let spec = spec(generation)?;
    let nodes: Vec<_> = nodes.map(node_id).collect();
    let began_ns = u64::try_from(monotonic().as_nanos())?;
    for node in nodes {
        let spec = spec.clone();
        let push = FromControl::Spec(SpecPush { node, spec });
        pushes.send(push).await.context("the stand-in has ended")?;
    }
    Ok(Answer::Pushed { began_ns })
}

/// A spec of the usual size, with a version that every node says it runs already: nobody answers.
pub fn spec(generation: u64) -> Result<NodeSpec> {
    Ok(NodeSpec {
        generation,
        daemon: Some(DaemonSection {
            version: "1.0.0".parse()?,
            url: "https://control.example/api/compute/downloads/bcd/1.0.0/linux-amd64".to_owned(),
            sha256: Sha256::of(b"simulated"),
            signature: vec![b'm'; MANIFEST_BYTES],
            attempt: AttemptId::derived(&[b"load", &generation.to_be_bytes()]),
        }),
    })
}

/// Bytes of a published manifest with two signatures and two platforms.
const MANIFEST_BYTES: usize = 1900;
