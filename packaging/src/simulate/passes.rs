//! Passes of control's processes, and what leaves after their commits.

use std::{collections::BTreeSet, time::Duration};

use bc_protocol::id::NodeId;
use better_compute::simulation::Round;

use super::{parts::Event, world::World};

/// Between looks for what nobody has told.
const LOOK: Duration = Duration::from_secs(30);

impl World {
    /// News for the controllers: at once here, and as a hint that may be lost there.
    pub(super) fn wakes(&mut self, server: usize) {
        for other in 0..self.servers.len() {
            if other == server {
                self.pass_within(other, Duration::from_millis(2));
            } else if !self.mishap(0.1) {
                self.pass_within(other, Duration::from_millis(30));
            }
        }
    }

    pub(super) fn pass_within(&mut self, server: usize, wait: Duration) {
        let at = self.now + wait;
        if let Some(known) = self.servers.get_mut(server)
            && known.passes_at.is_none_or(|passes_at| at < passes_at)
        {
            known.passes_at = Some(at);
            self.at(at, Event::Passes(server));
        }
    }

    pub(super) fn passes(&mut self, server: usize) {
        let Some(known) = self.servers.get_mut(server) else {
            return;
        };
        if known.passes_at.is_some_and(|at| at > self.now) {
            return;
        }
        known.passes_at = None;
        if !known.up || known.frozen {
            return;
        }
        let process = self.process(server);
        if self.mishap(0.04)
            && let Some(rollout) = self.control.active().into_iter().next()
        {
            let stopped = self.control.plan(&rollout, process);
            let wait = self.span(1_000, 90_000);
            self.say(|| format!("process {server} stands still within a pass over {rollout}"));
            if let Some(known) = self.servers.get_mut(server) {
                known.stopped = stopped;
                known.frozen = true;
            }
            return self.after(wait, Event::GoesOn(server));
        }
        let round = self.control.pass_all(process);
        self.take(server, round);
    }

    pub(super) fn goes_on(&mut self, server: usize) {
        let Some(known) = self.servers.get_mut(server).filter(|known| known.frozen) else {
            return;
        };
        known.frozen = false;
        let stopped = known.stopped.take();
        self.say(|| format!("process {server} goes on"));
        if let Some(stopped) = stopped {
            let round = self.control.go_on(stopped, self.process(server));
            self.take(server, round);
        }
        self.pass_within(server, Duration::from_millis(5));
    }

    /// What leaves after a commit.
    pub(super) fn take(&mut self, server: usize, round: Round) {
        self.check();
        for node in round.stale {
            self.pushes(&node);
            self.commands(&node);
        }
        if let Some(next) = round.next_ms {
            let left = next.saturating_sub(self.process(server).now_ms);
            let wait = Duration::from_millis(u64::try_from(left).unwrap_or(0).clamp(1, 30_000));
            self.pass_within(server, wait);
        }
    }

    /// Every half minute: whatever a lost hint would have told.
    pub(super) fn looks(&mut self, server: usize) {
        self.after(LOOK, Event::Looks(server));
        if self
            .servers
            .get(server)
            .is_none_or(|known| !known.up || known.frozen)
        {
            return;
        }
        let at_ms = self.process(server).now_ms;
        let mut nodes: BTreeSet<NodeId> = self.control.commands_due(at_ms).into_iter().collect();
        nodes.extend(self.control.commands_waiting());
        for node in nodes {
            self.commands(&node);
        }
        for node in self.control.unread() {
            self.pushes(&node);
            self.commands(&node);
        }
        self.pass_within(server, Duration::from_millis(1));
    }
}
