//! The deliberate mistakes, by name.

use std::{fmt, str::FromStr};

use bc_gateway::simulation::Planted as InGateway;
use bcd::simulation::Planted as InNode;
use better_compute::simulation::{PlannerPlanted, Planted as InControl};

/// One deliberate mistake, wherever it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// By control.
    Control(InControl),
    /// By gateways.
    Gateway(InGateway),
    /// By nodes.
    Node(InNode),
}

macro_rules! mistakes {
    ($(($name:literal, $mistake:expr),)+) => {
        impl Mistake {
            /// All of them.
            pub const ALL: &[Self] = &[$($mistake,)+];
            const NAMES: &[&str] = &[$($name,)+];
        }
    };
}

mistakes! {
    ("budget-miscounted", Mistake::Control(InControl::Planner(PlannerPlanted::BudgetMiscounted))),
    ("budget-for-rollouts-only", Mistake::Control(InControl::Planner(PlannerPlanted::BudgetForRolloutsOnly))),
    ("gate-open", Mistake::Control(InControl::Planner(PlannerPlanted::GateOpen))),
    ("gate-ignores-regressions", Mistake::Control(InControl::Planner(PlannerPlanted::GateIgnoresRegressions))),
    ("untried-advances", Mistake::Control(InControl::Planner(PlannerPlanted::UntriedAdvances))),
    ("pause-seen-at-start-only", Mistake::Control(InControl::Planner(PlannerPlanted::PauseSeenAtStartOnly))),
    ("any-attempt-settles", Mistake::Control(InControl::Planner(PlannerPlanted::AnyAttemptSettles))),
    ("late-beside-running", Mistake::Control(InControl::Planner(PlannerPlanted::LateBesideRunning))),
    ("no-soak", Mistake::Control(InControl::Planner(PlannerPlanted::NoSoak))),
    ("wave-unsettled", Mistake::Control(InControl::Planner(PlannerPlanted::WaveUnsettled))),
    ("freeze-ignored", Mistake::Control(InControl::Planner(PlannerPlanted::FreezeIgnored))),
    ("maintenance-ignored", Mistake::Control(InControl::Planner(PlannerPlanted::MaintenanceIgnored))),
    ("place-given-back-at-once", Mistake::Control(InControl::Planner(PlannerPlanted::PlaceGivenBackAtOnce))),
    ("time-without-links-counts", Mistake::Control(InControl::Planner(PlannerPlanted::TimeWithoutLinksCounts))),
    ("counts-drift", Mistake::Control(InControl::Planner(PlannerPlanted::CountsDrift))),
    ("succeeded-rolled-back", Mistake::Control(InControl::Planner(PlannerPlanted::SucceededRolledBack))),
    ("offline-started", Mistake::Control(InControl::Planner(PlannerPlanted::OfflineStarted))),
    ("superseded-counts", Mistake::Control(InControl::SupersededCounts)),
    ("older-report-counts", Mistake::Control(InControl::OlderReportCounts)),
    ("older-link-counts", Mistake::Control(InControl::OlderLinkCounts)),
    ("oldest-rollout-decides", Mistake::Control(InControl::OldestRolloutDecides)),
    ("completed-forgotten", Mistake::Control(InControl::CompletedForgotten)),
    ("lanes-ignored", Mistake::Control(InControl::LanesIgnored)),
    ("upgrade-only-gets-everything", Mistake::Control(InControl::UpgradeOnlyGetsEverything)),
    ("key-ignored", Mistake::Control(InControl::KeyIgnored)),
    ("older-sequence-registered", Mistake::Control(InControl::OlderSequenceRegistered)),
    ("removed-still-served", Mistake::Control(InControl::RemovedStillServed)),
    ("every-session-granted", Mistake::Gateway(InGateway::EverySessionGranted)),
    ("too-old-taken-for-any", Mistake::Gateway(InGateway::TooOldForSpecsTakenForAny)),
    ("floor-before-welcome", Mistake::Node(InNode::FloorBeforeWelcome)),
    ("confirmed-at-once", Mistake::Node(InNode::ConfirmedAtOnce)),
    ("starts-not-counted", Mistake::Node(InNode::StartsNotCounted)),
    ("no-watchdog", Mistake::Node(InNode::NoWatchdog)),
    ("ended-forgotten", Mistake::Node(InNode::EndedForgotten)),
    ("floor-forgotten", Mistake::Node(InNode::FloorForgotten)),
    ("wrong-slot", Mistake::Node(InNode::WrongSlot)),
    ("journal-forgotten", Mistake::Node(InNode::JournalForgotten)),
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::ALL
            .iter()
            .zip(Self::NAMES)
            .find(|(mistake, _)| *mistake == self);
        f.pad(known.map_or("unknown", |(_, name)| name))
    }
}

impl FromStr for Mistake {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL
            .iter()
            .zip(Self::NAMES)
            .find(|(_, name)| **name == text);
        known.map(|(mistake, _)| *mistake).ok_or_else(|| {
            anyhow::anyhow!(
                "expected one of {}, found \"{text}\"",
                Self::NAMES.join(", ")
            )
        })
    }
}

impl Mistake {
    pub(super) fn in_control(self) -> Option<InControl> {
        match self {
            Self::Control(planted) => Some(planted),
            Self::Gateway(_) | Self::Node(_) => None,
        }
    }

    pub(super) fn in_gateway(self) -> Option<InGateway> {
        match self {
            Self::Gateway(planted) => Some(planted),
            Self::Control(_) | Self::Node(_) => None,
        }
    }

    pub(super) fn in_node(self) -> Option<InNode> {
        match self {
            Self::Node(planted) => Some(planted),
            Self::Control(_) | Self::Gateway(_) => None,
        }
    }
}
