//! The control plane's planner on either database, against the least that its writes could cost.
//!
//! Builds control's own program for it, which measures from inside, and runs it on a new SQLite file and on a PostgreSQL of
//! its own, where one is installed. Gives figures; the worse database counts. What is a ratio is measured on processors that do
//! not fall asleep.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::awake::Awake;
use crate::{
    build::{self, Speed},
    cluster::Cluster,
};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    nodes: u32,
    rounds: u32,
    speed: Speed,
}

impl Extent {
    /// A million nodes, by an optimised program: some minutes, and as long to build it the first time.
    pub const FULL: Self = Self {
        nodes: 1_000_000,
        rounds: 5,
        speed: Speed::Optimised,
    };

    /// A hundred thousand, and each thing once, by what is built every day: about a minute.
    pub const SHORT: Self = Self {
        nodes: 100_000,
        rounds: 1,
        speed: Speed::Daily,
    };
}

/// What is compared with a goal: its name, the goal, and how many times that is a failure rather than a noisy machine. A
/// pass that settles and starts many is our code for the most part, which daily builds do not optimise, over statements of
/// the database, which are.
const GOALS: [(&str, f64, f64); 8] = [
    ("create_100k_over_bulk", 2.0, 4.0),
    ("idle_pass_growth", 1.2, 2.5),
    ("idle_rows_growth", 1.2, 1.0),
    ("settle_over_updates", 3.0, 4.0),
    ("start_to_start_p50_ms", 5.0, 5.0),
    ("start_to_start_commits", 4.0, 1.0),
    ("pause_ms", 100.0, 4.0),
    ("plan_100k_ms", 1_000.0, 4.0),
];

/// What was measured, on each database.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    databases: BTreeMap<&'static str, BTreeMap<String, f64>>,
}

impl Figures {
    fn worst(&self, name: &str) -> f64 {
        let all = self.databases.values().filter_map(|all| all.get(name));
        all.copied().fold(0.0, f64::max)
    }

    /// Adds figures, in place of older ones.
    fn add(&mut self, database: &'static str, measured: BTreeMap<String, f64>) {
        self.databases.entry(database).or_default().extend(measured);
    }

    /// What is worse than its goal by a wide margin.
    pub fn missed(&self) -> Vec<String> {
        let missed = GOALS.iter().filter_map(|(name, goal, margin)| {
            let found = self.worst(name);
            (found > goal * margin)
                .then(|| format!("{name}: expected {goal}, or {margin} times that on a noisy machine, found {found:.2}"))
        });
        missed.collect()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, ..)) in GOALS.iter().enumerate() {
            let gap = if number == 0 { "" } else { " " };
            write!(f, "{gap}{name}={:.2}", self.worst(name))?;
        }
        for (database, figures) in &self.databases {
            for (name, figure) in figures {
                write!(f, " {database}_{name}={figure:.2}")?;
            }
        }
        Ok(())
    }
}

/// Measures both databases.
pub async fn run(extent: Extent, tell: impl Fn(&str)) -> Result<Figures> {
    tell(match extent.speed {
        Speed::Daily => "control's code is built for developers, without optimisation",
        Speed::Optimised => "control's code is optimised",
    });
    let program = build::control_bench(extent.speed).await?;
    let mut figures = Figures::default();
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    tell("SQLite");
    let places = [path("small.db"), path("large.db")];
    let measured = measure(&program, &places, (extent, AS_IT_IS))?;
    figures.add("sqlite", measured);
    let awake = keep_awake(&tell);
    let places = [path("small-awake.db"), path("large-awake.db")];
    let measured = measure(&program, &places, (extent, AWAKE))?;
    drop(awake);
    figures.add("sqlite", measured);
    match Cluster::start()? {
        Some(cluster) => {
            tell("PostgreSQL");
            let places = [cluster.create("small")?, cluster.create("large")?];
            let measured = measure(&program, &places, (extent, AS_IT_IS))?;
            figures.add("postgres", measured);
            let awake = keep_awake(&tell);
            let places = [
                cluster.create("small_awake")?,
                cluster.create("large_awake")?,
            ];
            let measured = measure(&program, &places, (extent, AWAKE))?;
            drop(awake);
            figures.add("postgres", measured);
        }
        None => tell("there is no PostgreSQL under /usr/lib/postgresql, so that is not measured"),
    }
    Ok(figures)
}

/// What waits for others, and is told in milliseconds: on the machine as it is. A pause needs a rollout in the middle, which is
/// what idle passes are made over.
const AS_IT_IS: &str = "road,idle,pause";

/// What is compared with something else: where no processor falls asleep in between.
const AWAKE: &str = "create,plan,settle,idle";

fn keep_awake(tell: &impl Fn(&str)) -> Option<Awake> {
    let awake = Awake::begin();
    if awake.is_none() {
        tell("the processors may fall asleep: setsid, taskset or chrt is missing");
    }
    awake
}

fn measure(
    program: &Path,
    places: &[String],
    (extent, parts): (Extent, &str),
) -> Result<BTreeMap<String, f64>> {
    let output = Command::new(program)
        .args(places)
        .args([extent.nodes.to_string(), extent.rounds.to_string()])
        .arg(parts)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run {}", program.display()))?;
    ensure!(
        output.status.success(),
        "the measurement ended with {}",
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    text.lines()
        .map(|line| {
            let (name, figure) = line.split_once('=').context("a figure without a name")?;
            Ok((name.to_owned(), figure.parse()?))
        })
        .collect()
}
