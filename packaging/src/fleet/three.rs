//! Three releases that shows and tests begin with: what nodes were installed with, a good one, and one that starts and
//! never connects.
//!
//! Takes nothing, builds the three agents, and gives fleets for which they are registered.

use std::path::PathBuf;

use anyhow::Result;
use tempfile::TempDir;

use super::{Fleet, Plan, Release};
use crate::build::{self, AgentBuild, Fault, Programs};

/// The three, built.
#[derive(Debug)]
pub struct Three {
    dir: TempDir,
}

impl Three {
    /// What nodes are installed with.
    pub const PACKAGED: AgentBuild = AgentBuild {
        version: "1.0.0",
        fault: None,
    };
    /// What they are to run.
    pub const GOOD: AgentBuild = AgentBuild {
        version: "1.1.0",
        fault: None,
    };
    /// What they do not keep.
    pub const BAD: AgentBuild = AgentBuild {
        version: "1.2.0",
        fault: Some(Fault::NeverConnects),
    };
    /// By their sequences, from 1.
    pub const ALL: [AgentBuild; 3] = [Self::PACKAGED, Self::GOOD, Self::BAD];

    /// Builds them, and tells of each.
    pub async fn build(tell: impl Fn(AgentBuild)) -> Result<Self> {
        let built = Self {
            dir: tempfile::Builder::new().prefix("bcd-builds-").tempdir()?,
        };
        // The last one stays where cargo puts it, and people find it there: not the bad one.
        for agent in Self::ALL.into_iter().rev() {
            build::agent(agent, &built.binary(agent)).await?;
            tell(agent);
        }
        Ok(built)
    }

    /// A fleet whose nodes are installed with the first of them. It keeps copies of all that it needs.
    pub async fn fleet(&self, programs: Programs, plan: &Plan) -> Result<Fleet> {
        let fleet = Fleet::start(programs, &self.binary(Self::PACKAGED), plan).await?;
        for (sequence, agent) in (1..).zip(Self::ALL) {
            fleet.publish(&Release {
                version: agent.version.to_owned(),
                sequence,
                binary: self.binary(agent),
            })?;
        }
        Ok(fleet)
    }

    fn binary(&self, agent: AgentBuild) -> PathBuf {
        self.dir.path().join(agent.version)
    }
}
