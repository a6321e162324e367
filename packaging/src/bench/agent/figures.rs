//! The figures of one run, and how many samples become one.

use std::fmt;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Figures {
    pub(super) binary_bytes: u64,
    pub(super) idle: Idle,
    /// Only root can have a helper.
    pub(super) helped: Option<Helped>,
    pub(super) watchdog_kib: u64,
    pub(super) ten: Ratios,
    pub(super) hundred: Ratios,
    /// On a file system of its own, and where the rounds were, which others use too.
    pub(super) written_ratio: f64,
    pub(super) shared_written_ratio: f64,
    pub(super) extra_mib: f64,
    pub(super) syncs: usize,
    pub(super) gap_ms: f64,
    /// From a trial's deadline to the old binary's Welcome.
    pub(super) back_ms: f64,
    pub(super) back_most_ms: f64,
    pub(super) preflight_ms: f64,
}

/// What the programs cost while they have nothing to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) node_kib: u64,
    pub(super) supervisor_kib: u64,
    pub(super) wakeups_per_second: f64,
    pub(super) cpu_ms_per_minute: f64,
}

/// A node without rights and its helper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Helped {
    pub(super) helper_kib: u64,
    pub(super) written_ratio: f64,
}

/// How an update compares, and what it was compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratios {
    pub(super) over_floor: f64,
    pub(super) over_curl: f64,
    pub(super) ours_ms: f64,
    pub(super) floor_ms: f64,
    pub(super) curl_ms: f64,
}

impl fmt::Display for Figures {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |kib: u64| kib as f64 / 1024.0;
        write!(
            f,
            "binary_mb={:.2} rss_mib={:.2} supervisor_mib={:.2} {}watchdog_mib={:.2} wakeups_per_s={:.3} cpu_ms_per_min={:.2} ",
            self.binary_bytes as f64 / 1e6,
            mib(self.idle.node_kib),
            mib(self.idle.supervisor_kib),
            self.helped.map_or(String::new(), |helped| format!(
                "helper_mib={:.2} helper_written_ratio={:.4} ",
                mib(helped.helper_kib),
                helped.written_ratio
            )),
            mib(self.watchdog_kib),
            self.idle.wakeups_per_second,
            self.idle.cpu_ms_per_minute,
        )?;
        write!(
            f,
            "update_10mb_over_floor={:.2} update_100mb_over_floor={:.2} update_10mb_over_curl={:.2} update_100mb_over_curl={:.2} ",
            self.ten.over_floor,
            self.hundred.over_floor,
            self.ten.over_curl,
            self.hundred.over_curl,
        )?;
        write!(
            f,
            "update_10mb_ms={:.1} update_100mb_ms={:.1} floor_10mb_ms={:.1} floor_100mb_ms={:.1} curl_10mb_ms={:.1} curl_100mb_ms={:.1} ",
            self.ten.ours_ms,
            self.hundred.ours_ms,
            self.ten.floor_ms,
            self.hundred.floor_ms,
            self.ten.curl_ms,
            self.hundred.curl_ms,
        )?;
        write!(
            f,
            "extra_rss_mib={:.2} preflight_ms={:.1} written_ratio={:.4} shared_written_ratio={:.4} fsyncs={} gap_ms={:.1} ",
            self.extra_mib,
            self.preflight_ms,
            self.written_ratio,
            self.shared_written_ratio,
            self.syncs,
            self.gap_ms,
        )?;
        write!(
            f,
            "back_ms={:.1} back_most_ms={:.1}",
            self.back_ms, self.back_most_ms
        )
    }
}

/// How updates compare with those of another program.
#[derive(Clone, Copy, Debug)]
pub struct PeerFigures {
    ten: f64,
    hundred: f64,
    ten_ms: (f64, f64),
    hundred_ms: (f64, f64),
}

impl PeerFigures {
    /// Of pairs, ours first, in milliseconds.
    pub(super) fn of(tens: &[(f64, f64)], hundreds: &[(f64, f64)]) -> Self {
        let ratio = |pairs: &[(f64, f64)]| {
            median(pairs.iter().map(|(ours, theirs)| ours / theirs).collect())
        };
        let middle = |pairs: &[(f64, f64)]| {
            let (ours, theirs) = pairs.iter().copied().unzip();
            (median(ours), median(theirs))
        };
        Self {
            ten: ratio(tens),
            hundred: ratio(hundreds),
            ten_ms: middle(tens),
            hundred_ms: middle(hundreds),
        }
    }
}

impl fmt::Display for PeerFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "update_10mb_over_sysupdate={:.2} update_100mb_over_sysupdate={:.2} update_10mb_ms={:.1} \
             sysupdate_10mb_ms={:.1} update_100mb_ms={:.1} sysupdate_100mb_ms={:.1}",
            self.ten,
            self.hundred,
            self.ten_ms.0,
            self.ten_ms.1,
            self.hundred_ms.0,
            self.hundred_ms.1,
        )
    }
}

/// The sample in the middle.
pub(super) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}
