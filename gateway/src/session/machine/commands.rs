//! What a session does about commands, and about terms that change while it lives.

use std::time::Instant;

use bc_protocol::{
    command::{Command, CommandResult, Unreadable},
    id::CommandId,
    link::CommandEnded,
    session::FromGateway,
};

use super::{Birth, Machine, Open, Output, State, Terms, tier};
use crate::session::dispatch::{Answer, Verdict};

impl Machine {
    /// Sends a command, if the session carries it. One that this build cannot read is answered in the node's place.
    pub(super) fn command(&mut self, command: Result<Command, Unreadable>) -> Vec<Output> {
        let State::Open(open) = &mut self.state else {
            return Vec::new();
        };
        let output = match command {
            Ok(command) => open.order(command),
            Err(unreadable) => open.refuse(&self.birth, unreadable),
        };
        vec![output]
    }

    /// Takes new terms. A session that has turned too old, or is not any more, stays and is good for something else:
    /// were it closed, a whole fleet would come back at once whenever the minimum is raised.
    pub(super) fn offer(&mut self, terms: Terms, now: Instant) -> Vec<Output> {
        let before = std::mem::replace(&mut self.terms, terms);
        let State::Open(open) = &mut self.state else {
            return Vec::new();
        };
        if terms.heartbeat != before.heartbeat {
            // By the new one it may have been silent for too long: it has yet to be asked.
            open.heard_at = now;
        }
        let tier = tier(open.protocol, &terms);
        if tier == open.dispatch.tier() {
            return Vec::new();
        }
        open.dispatch.turn(tier);
        vec![Output::Turned(tier)]
    }
}

impl Open {
    fn order(&mut self, command: Command) -> Output {
        let not_sent = |id: CommandId, why| Output::NotSent { id: Some(id), why };
        let id = command.id.clone();
        match self.dispatch.order(command) {
            Verdict::Send(command) => Output::Send(Box::new(FromGateway::Command(Ok(command)))),
            Verdict::UnderWay => not_sent(id, "the node works on it already"),
            Verdict::NotHere(id) => not_sent(id, "the session carries upgrades only"),
        }
    }

    fn refuse(&self, birth: &Birth, unreadable: Unreadable) -> Output {
        let Some(id) = unreadable.id.clone() else {
            let why = "it cannot be read";
            return Output::NotSent { id: None, why };
        };
        let result = CommandResult {
            id,
            succeeded: false,
            message: format!("its gateway cannot carry it: {unreadable}"),
            report: Vec::new(),
            code: unreadable.code().to_owned(),
        };
        self.ended(birth, result)
    }

    /// What the node answers is passed on once, and only if it was asked.
    pub(super) fn answered(&mut self, birth: &Birth, result: CommandResult) -> Option<Output> {
        match self.dispatch.answer(&result.id) {
            Answer::Wanted => Some(self.ended(birth, result)),
            Answer::Unasked => None,
        }
    }

    fn ended(&self, birth: &Birth, result: CommandResult) -> Output {
        Output::Ended(Box::new(CommandEnded {
            node: birth.node.clone(),
            session: birth.session.clone(),
            connect_seq: self.connect_seq,
            result,
        }))
    }
}
