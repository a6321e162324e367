//! Rollouts as people see them.

use super::progress::{self, Phase, frozen_in_words, settled, total, until_when};
use crate::{
    api::rollout::{Rollout, RolloutNode, RolloutState, Rollouts, RowState},
    cli::{
        print::{Detail, View},
        sheet::{Cell, Sheet, Tone, second},
        span::human_seconds,
    },
    rollout::waves,
};

impl View for Rollout {
    const SCHEMA: Option<&'static str> = Some("Rollout");

    fn sheet(&self, detail: Detail) -> Sheet {
        Sheet::fields(fields(self))
            .above(waves_table(self))
            .above(nodes_table(self, detail))
            .above(late_table(self))
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }
}

impl View for Rollouts {
    const SCHEMA: Option<&'static str> = Some("Rollouts");

    fn sheet(&self, detail: Detail) -> Sheet {
        let brief = [
            "ID", "VERSION", "STATE", "WAVE", "SETTLED", "FAILED", "CREATED",
        ];
        let wide = ["BY", "WAVES", "REASON"];
        let rows = self
            .rollouts
            .iter()
            .map(|rollout| {
                let mut row = vec![
                    Cell::id(&rollout.id),
                    Cell::new(&rollout.version),
                    state(rollout.state),
                    Cell::new(wave(rollout)),
                    Cell::new(format!(
                        "{}/{}",
                        settled(&rollout.nodes),
                        total(&rollout.nodes)
                    )),
                    failed(rollout.nodes.failed),
                    Cell::new(second(rollout.created_at)),
                ];
                if detail == Detail::Wide {
                    row.extend([
                        Cell::new(&rollout.created_by),
                        Cell::new(percentages(rollout)),
                        Cell::optional_prose(rollout.reason.as_ref()),
                    ]);
                }
                row
            })
            .collect();
        Sheet::rows(&detail.columns(&brief, &wide), rows)
    }

    fn names(&self) -> Vec<String> {
        self.rollouts
            .iter()
            .map(|rollout| rollout.id.to_string())
            .collect()
    }
}

fn fields(rollout: &Rollout) -> Vec<(&'static str, Cell)> {
    let mut fields = vec![
        ("id", Cell::new(&rollout.id)),
        ("version", Cell::new(&rollout.version)),
        ("state", state(rollout.state)),
    ];
    if let Some(reason) = &rollout.reason {
        fields.push(("reason", Cell::new(reason)));
    }
    if let Some(reason) = &rollout.paused_reason {
        fields.push(("had paused", Cell::new(reason)));
    }
    if let Some(frozen) = &rollout.frozen {
        fields.push(("frozen", Cell::toned(frozen_in_words(frozen), Tone::Bad)));
    }
    if let Some(until) = rollout.soaks_until {
        fields.push((
            "soaks until",
            Cell::toned(until_when(rollout.state, until), Tone::Busy),
        ));
    }
    fields.extend([
        ("wave", Cell::new(wave_and_others(rollout))),
        (
            "settled",
            Cell::new(format!(
                "{} of {}",
                settled(&rollout.nodes),
                total(&rollout.nodes)
            )),
        ),
        ("failed", failed(rollout.nodes.failed)),
        ("waves", Cell::new(percentages(rollout))),
        ("may fail", Cell::new(rollout.max_failure_ratio)),
        ("soak", Cell::new(human_seconds(rollout.soak_seconds))),
        (
            "upgrade timeout",
            Cell::new(human_seconds(rollout.upgrade_timeout_seconds)),
        ),
        (
            "created",
            Cell::new(format!(
                "{} by {}",
                second(rollout.created_at),
                rollout.created_by
            )),
        ),
        ("updated", Cell::new(second(rollout.updated_at))),
    ]);
    if let Some(at) = rollout.finished_at {
        fields.push(("finished", Cell::new(second(at))));
    }
    fields
}

fn waves_table(rollout: &Rollout) -> Sheet {
    let header = [
        "WAVE",
        "PHASE",
        "NODES",
        "PENDING",
        "UPGRADING",
        "SUCCEEDED",
        "FAILED",
        "SKIPPED",
        "BACK",
    ];
    let rows = progress::waves(rollout)
        .into_iter()
        .map(|wave| {
            let counts = wave.counts;
            vec![
                Cell::new(wave.number),
                phase(wave.phase),
                Cell::new(total(&counts)),
                Cell::new(counts.pending),
                Cell::new(counts.upgrading),
                Cell::new(counts.succeeded),
                failed(counts.failed),
                Cell::new(counts.skipped),
                Cell::new(counts.rolling_back.saturating_add(counts.rolled_back)),
            ]
        })
        .collect();
    Sheet::rows(&header, rows)
}

/// Those that somebody should look at; all of them where there is room.
fn nodes_table(rollout: &Rollout, detail: Detail) -> Sheet {
    let header = ["NODE", "POOL", "WAVE", "STATE", "FROM", "FINISHED", "ERROR"];
    let rows = rollout
        .node_list
        .iter()
        .flatten()
        .filter(|node| detail == Detail::Wide || node.error.is_some())
        .map(node_row)
        .collect();
    Sheet::rows(&header, rows)
}

/// Late nodes are few, or news.
fn late_table(rollout: &Rollout) -> Sheet {
    let header = ["LATE NODE", "POOL", "STATE", "FROM", "FINISHED", "ERROR"];
    let rows = rollout
        .late_nodes
        .iter()
        .flatten()
        .map(|node| {
            vec![
                Cell::id(&node.node_id),
                Cell::pool(&node.pool_id),
                row_state(node.state),
                Cell::optional(node.from_version.as_ref()),
                Cell::optional(node.finished_at.map(second)),
                Cell::optional_prose(node.error.as_ref()),
            ]
        })
        .collect();
    Sheet::rows(&header, rows)
}

fn node_row(node: &RolloutNode) -> Vec<Cell> {
    vec![
        Cell::id(&node.node_id),
        Cell::pool(&node.pool_id),
        Cell::new(node.wave.saturating_add(1)),
        row_state(node.state),
        Cell::optional(node.from_version.as_ref()),
        Cell::optional(node.finished_at.map(second)),
        Cell::optional_prose(node.error.as_ref()),
    ]
}

/// People count from 1, and those that have nodes.
fn wave(rollout: &Rollout) -> String {
    let waves = waves::taken(total(&rollout.nodes), &rollout.waves);
    format!("{} of {waves}", rollout.wave.saturating_add(1))
}

/// The same, and where the others are.
fn wave_and_others(rollout: &Rollout) -> String {
    let waves = waves::taken(total(&rollout.nodes), &rollout.waves);
    let text = wave(rollout);
    match rollout.waves.len().saturating_sub(waves) {
        0 => text,
        1 => format!("{text}; the last percentage has no node of its own"),
        empty => format!("{text}; the last {empty} percentages have no node of their own"),
    }
}

fn percentages(rollout: &Rollout) -> String {
    let waves: Vec<String> = rollout.waves.iter().map(ToString::to_string).collect();
    waves.join(",")
}

fn failed(count: u32) -> Cell {
    let tone = if count > 0 { Tone::Bad } else { Tone::Plain };
    Cell::toned(count, tone)
}

fn state(state: RolloutState) -> Cell {
    match state {
        RolloutState::Running => Cell::toned("running", Tone::Busy),
        RolloutState::Paused => Cell::toned("paused", Tone::Bad),
        RolloutState::Completed => Cell::toned("completed", Tone::Good),
        RolloutState::Aborted => Cell::toned("aborted", Tone::Bad),
    }
}

fn phase(phase: Phase) -> Cell {
    match phase {
        Phase::Waiting => Cell::new("waiting"),
        Phase::Open => Cell::toned("open", Tone::Busy),
        Phase::Soaking => Cell::toned("soaking", Tone::Busy),
        Phase::Settled => Cell::toned("settled", Tone::Busy),
        Phase::Over => Cell::new("over"),
    }
}

fn row_state(state: RowState) -> Cell {
    match state {
        RowState::Pending => Cell::new("pending"),
        RowState::Upgrading => Cell::toned("upgrading", Tone::Busy),
        RowState::Succeeded => Cell::toned("succeeded", Tone::Good),
        RowState::Failed => Cell::toned("failed", Tone::Bad),
        RowState::Skipped => Cell::toned("skipped", Tone::Busy),
        RowState::RollingBack => Cell::toned("rolling-back", Tone::Busy),
        RowState::RolledBack => Cell::toned("rolled-back", Tone::Bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{
        rollouts::sample::rollout,
        sheet::{Headers, Room},
    };

    #[test]
    fn people_see_the_waves_and_the_nodes_in_trouble() {
        let rollout = rollout(
            "paused",
            1,
            &[
                (0, "succeeded", None),
                (
                    1,
                    "failed",
                    Some("no-welcome: no gateway welcomed 1.4.0 within 2m"),
                ),
                (1, "succeeded", None),
                (2, "pending", None),
            ],
        );
        insta::assert_snapshot!(
            anstream::adapter::strip_str(&rollout.sheet(Detail::Brief).text(Headers::Shown, Room::Unbounded)).to_string(),
            @r"
        id:               rollout_00000000000000000000000007
        version:          1.4.0
        state:            paused
        reason:           wave 1: 1 of 1 failed, more than 0.05
        wave:             2 of 3
        settled:          3 of 4
        failed:           1
        waves:            10,50,100
        may fail:         0.05
        soak:             10m
        upgrade timeout:  15m
        created:          2026-11-29T21:00:00Z by alice
        updated:          2026-11-29T21:00:00Z

        WAVE  PHASE    NODES  PENDING  UPGRADING  SUCCEEDED  FAILED  SKIPPED  BACK
        1     over     1      0        0          1          0       0        0
        2     settled  2      0        0          1          1       0        0
        3     waiting  1      1        0          0          0       0        0

        NODE                             POOL                             WAVE  STATE   FROM  FINISHED  ERROR
        node_00000000000000000000000001  pool_00000000000000000000000001  2     failed  -     -         no-welcome: no gateway welcomed 1.4.0 within 2m
        "
        );
    }

    #[test]
    fn a_list_has_a_line_a_rollout() {
        let rollouts = Rollouts {
            rollouts: vec![rollout(
                "paused",
                1,
                &[(0, "succeeded", None), (1, "failed", None)],
            )],
        };
        insta::assert_snapshot!(
            anstream::adapter::strip_str(&rollouts.sheet(Detail::Wide).text(Headers::Shown, Room::Unbounded)).to_string(),
            @r"
        ID                                  VERSION  STATE   WAVE    SETTLED  FAILED  CREATED               BY     WAVES      REASON
        rollout_00000000000000000000000007  1.4.0    paused  2 of 2  2/2      1       2026-11-29T21:00:00Z  alice  10,50,100  wave 1: 1 of 1 failed, more than 0.05
        "
        );
    }
}
