//! What was measured, as one line.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{look::Look, server::Subject};

/// What was seen in all rounds.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub(super) rounds: Vec<Round>,
    /// Resident memory of a gateway that holds all it may, at first and at most.
    pub(super) soak_kib: Option<(u64, u64)>,
}

/// What was seen in one round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) bare_handshake: Duration,
    pub(super) bare_push: Duration,
    pub(super) looks: BTreeMap<Subject, Look>,
}

impl Figures {
    /// The median of what each round says, or nothing if none does.
    fn median(&self, of: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        let mut all: Vec<f64> = self.rounds.iter().filter_map(of).collect();
        all.sort_unstable_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }

    fn of(&self, subject: Subject, what: impl Fn(&Look) -> f64) -> Option<f64> {
        self.median(|round| round.looks.get(&subject).map(&what))
    }

    /// Ours over a peer's, round by round.
    fn over(&self, subject: Subject, what: impl Fn(&Look) -> f64) -> Option<f64> {
        self.median(|round| {
            let ours = round.looks.get(&Subject::Ours).map(&what)?;
            Some(ours / round.looks.get(&subject).map(&what)?)
        })
    }

    fn over_raw(&self, subject: Subject) -> Option<f64> {
        self.median(|round| {
            let push = round.looks.get(&subject)?.push;
            Some(push.as_secs_f64() / round.bare_push.as_secs_f64())
        })
    }

    fn over_bare(&self, subject: Subject) -> Option<f64> {
        self.median(|round| {
            let handshake = round.looks.get(&subject)?.handshake;
            Some(handshake.as_secs_f64() / round.bare_handshake.as_secs_f64())
        })
    }
}

fn kib(look: &Look) -> f64 {
    whole(look.session_bytes) / 1024.0
}

fn handshake(look: &Look) -> f64 {
    look.handshake.as_secs_f64() * 1000.0
}

fn storm(look: &Look) -> f64 {
    look.storm.as_secs_f64()
}

fn storm_shared(look: &Look) -> f64 {
    look.storm_shared.as_secs_f64()
}

fn heartbeat(look: &Look) -> f64 {
    look.heartbeat.as_secs_f64() * 1e6
}

fn push(look: &Look) -> f64 {
    look.push.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn whole(count: u64) -> f64 {
    count as f64
}

/// A figure, or a word for none.
struct Shown(Option<f64>, usize);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(figure) => write!(f, "{figure:.*}", self.1),
            None => f.write_str("na"),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ours = Subject::Ours;
        write!(
            f,
            "session_kib={} handshake_cpu_over_nats={} storm_over_nats={} push_over_raw={} heartbeat_us={}",
            Shown(self.of(ours, kib), 2),
            Shown(self.over(Subject::Nats, handshake), 2),
            Shown(self.over(Subject::Nats, storm), 2),
            Shown(self.over_raw(ours), 2),
            Shown(self.of(ours, heartbeat), 1),
        )?;
        write!(
            f,
            " kernel_kib={} handshake_cpu_ms={} handshake_cpu_over_bare={} storm_s={} storm_shared_s={} \
             storm_shared_over_nats={} storm_errors={} storm_peak_kib={} left_kib={} push_ms={} raw_push_ms={} bare_handshake_ms={}",
            Shown(self.of(ours, |look| whole(look.kernel_bytes) / 1024.0), 1),
            Shown(self.of(ours, handshake), 3),
            Shown(self.over_bare(ours), 2),
            Shown(self.of(ours, storm), 2),
            Shown(self.of(ours, storm_shared), 2),
            Shown(self.over(Subject::Nats, storm_shared), 2),
            Shown(self.of(ours, |look| whole(look.storm_errors)), 0),
            Shown(
                self.of(ours, |look| whole(look.storm_peak_bytes) / 1024.0),
                0
            ),
            Shown(self.of(ours, |look| whole(look.left_bytes) / 1024.0), 2),
            Shown(self.of(ours, push), 0),
            Shown(
                self.median(|round| Some(round.bare_push.as_secs_f64() * 1000.0)),
                0
            ),
            Shown(
                self.median(|round| Some(round.bare_handshake.as_secs_f64() * 1000.0)),
                3
            ),
        )?;
        for peer in [Subject::Nats, Subject::Mosquitto] {
            let Some(session) = self.of(peer, kib) else {
                continue;
            };
            let name = peer.name();
            write!(
                f,
                " {name}_session_kib={session:.1} {name}_handshake_cpu_ms={} {name}_storm_s={} {name}_storm_shared_s={} {name}_storm_errors={} \
                 {name}_push_over_raw={} {name}_heartbeat_us={}",
                Shown(self.of(peer, handshake), 3),
                Shown(self.of(peer, storm), 2),
                Shown(self.of(peer, storm_shared), 2),
                Shown(self.of(peer, |look| whole(look.storm_errors)), 0),
                Shown(self.over_raw(peer), 2),
                Shown(self.of(peer, heartbeat), 1),
            )?;
        }
        if let Some((first, most)) = self.soak_kib {
            write!(f, " soak_first_kib={first} soak_most_kib={most}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(scale: u32) -> Look {
        Look {
            session_bytes: 1024 * u64::from(scale),
            kernel_bytes: 4096,
            handshake: Duration::from_millis(scale.into()),
            push: Duration::from_millis(100) * scale,
            storm: Duration::from_secs(scale.into()),
            storm_shared: Duration::from_secs(scale.into()),
            storm_errors: 0,
            storm_peak_bytes: 0,
            left_bytes: 0,
            heartbeat: Duration::from_micros(10) * scale,
        }
    }

    fn round(looks: &[(Subject, u32)]) -> Round {
        let looks = looks
            .iter()
            .map(|(subject, scale)| (*subject, look(*scale)));
        Round {
            bare_handshake: Duration::from_millis(1),
            bare_push: Duration::from_millis(100),
            looks: looks.collect(),
        }
    }

    #[test]
    fn ratios_are_medians_of_each_rounds_own() {
        let rounds = [(1, 2), (3, 4), (5, 20)]
            .map(|(ours, nats)| round(&[(Subject::Ours, ours), (Subject::Nats, nats)]));
        let shown = Figures {
            rounds: rounds.to_vec(),
            soak_kib: None,
        }
        .to_string();
        assert!(
            shown.starts_with(
                "session_kib=3.00 handshake_cpu_over_nats=0.50 storm_over_nats=0.50 push_over_raw=3.00 heartbeat_us=30.0 "
            ),
            "{shown}"
        );
        assert!(shown.contains(" nats_session_kib=4.0 "), "{shown}");
        assert!(!shown.contains("mosquitto"), "{shown}");
    }

    #[test]
    fn without_peers_what_is_over_them_is_left_open() {
        let figures = Figures {
            rounds: vec![round(&[(Subject::Ours, 2)])],
            soak_kib: Some((10, 11)),
        };
        let shown = figures.to_string();
        assert!(
            shown.starts_with("session_kib=2.00 handshake_cpu_over_nats=na storm_over_nats=na "),
            "{shown}"
        );
        assert!(
            shown.ends_with(" soak_first_kib=10 soak_most_kib=11"),
            "{shown}"
        );
    }
}
