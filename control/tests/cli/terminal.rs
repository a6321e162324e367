//! The command line at a real terminal: bars, questions, Ctrl-C, and lines that fit.

use super::{
    screen::Terminal,
    stand::{Control, seen},
};

const WIDE: u16 = 100;

#[test]
fn a_watch_draws_a_bar_for_every_wave_and_ends_with_the_outcome() {
    let control = Control::start();
    let id = control.rollout();
    let mut watch = Terminal::start(control.command(&["rollouts", "watch", &id]), WIDE);
    watch.until("wave 3");
    watch.until("1.1.0 running: 3 pending");
    seen("terminal_watch_running", &watch.seen());
    control
        .run(&["rollouts", "pause", &id, "--reason", "lunch"])
        .done();
    let (code, screen, _) = watch.ended();
    assert_eq!(code, Some(3), "{screen}");
    seen("terminal_watch_paused", &screen);
}

#[test]
fn without_colours_the_bars_have_none() {
    let control = Control::start();
    let id = control.rollout();
    control.run(&["rollouts", "pause", &id]).done();
    for (name, coloured) in [("NO_COLOR", false), ("FORCE", true)] {
        let mut command = control.command(&["rollouts", "get", &id]);
        command.env(name, "1");
        let (code, screen, raw) = Terminal::start(command, WIDE).ended();
        assert_eq!(code, Some(0), "{screen}");
        let escapes = raw.contains(&0x1b);
        assert_eq!(escapes, coloured, "{name}: {screen}");
    }
}

#[test]
fn ctrl_c_leaves_the_bars_and_says_that_the_rollout_goes_on() {
    let control = Control::start();
    let id = control.rollout();
    let mut watch = Terminal::start(control.command(&["rollouts", "watch", &id]), WIDE);
    watch.until("running: 3 pending");
    watch.press("\u{3}");
    let (code, screen, _) = watch.ended();
    assert_eq!(code, Some(130), "{screen}");
    for words in ["wave 1", "the rollout goes on", "rollouts pause"] {
        assert!(screen.contains(words), "{screen}");
    }
    assert_eq!(control.json(&["rollouts", "get", &id])["state"], "running");
}

#[test]
fn a_pool_with_nodes_is_asked_about_before_it_is_archived() {
    let control = Control::start();
    control.ready_for_rollouts();
    let archive = ["pools", "archive", "edge"];
    let question = "Archive the pool edge with 3 nodes in it?";
    for (keys, code, state) in [("n", 1, "active"), ("y", 0, "archived")] {
        let mut asked = Terminal::start(control.command(&archive), WIDE);
        asked.until(question);
        asked.press(keys);
        let (ended, screen, _) = asked.ended();
        assert_eq!(ended, Some(code), "{screen}");
        let pools = control.run(&["pools", "list"]).done();
        assert!(pools.contains(state), "{pools}");
    }
}

#[test]
fn what_stops_or_locks_out_at_once_is_asked_about() {
    let control = Control::start();
    let line = "tokens create --subject ci --permission compute:pool:read --out ci.token";
    let token = control.id(&line.split(' ').collect::<Vec<_>>());
    for (args, question) in [
        (&["fleet", "freeze"][..], "Freeze tenant root?"),
        (
            &["tokens", "revoke", &token],
            "of ci? Whoever uses it is locked out",
        ),
    ] {
        for (keys, code) in [("n", 1), ("y", 0)] {
            let mut asked = Terminal::start(control.command(args), 200);
            asked.until(question);
            asked.press(keys);
            let (ended, screen, _) = asked.ended();
            assert_eq!(ended, Some(code), "{args:?}: {screen}");
        }
    }
    assert!(control.json(&["fleet", "summary"])["frozen"].is_object());
}

#[test]
fn an_abort_is_asked_about_and_only_yes_aborts() {
    let control = Control::start();
    let id = control.rollout();
    let question = "Abort the rollout of 1.1.0 (3 pending)?";
    for (keys, code, said) in [
        ("n", 1, "not confirmed; nothing was changed"),
        ("\r", 1, "--yes answers for you"),
        ("\u{3}", 130, "interrupted; nothing was changed"),
    ] {
        let mut abort = Terminal::start(control.command(&["rollouts", "abort", &id]), WIDE);
        abort.until(question);
        match keys {
            "\u{3}" => abort.interrupt(),
            _ => abort.press(keys),
        }
        let (ended, screen, _) = abort.ended();
        assert_eq!(ended, Some(code), "{keys:?}: {screen}");
        assert!(screen.contains(said), "{keys:?}: {screen}");
        assert_eq!(control.json(&["rollouts", "get", &id])["state"], "running");
    }
    let mut abort = Terminal::start(control.command(&["rollouts", "abort", &id]), WIDE);
    abort.until(question);
    abort.press("y");
    let (code, screen, _) = abort.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("aborted by an operator"), "{screen}");
}

#[test]
fn yes_beforehand_is_not_asked() {
    let control = Control::start();
    let id = control.rollout();
    let abort = control.command(&["rollouts", "abort", &id, "--yes"]);
    let (code, screen, _) = Terminal::start(abort, WIDE).ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("Abort the rollout"), "{screen}");
}

#[test]
fn a_first_wave_of_everything_is_asked_about() {
    let control = Control::start();
    control.ready_for_rollouts();
    let create = ["rollouts", "create", "--version", "1.1.0", "--waves", "100"];
    let mut asked = Terminal::start(control.command(&create), WIDE);
    asked.until("nothing is tried out before every node gets 1.1.0");
    asked.press("n");
    assert_eq!(asked.ended().0, Some(1));
    let none = control.json(&["rollouts", "list"]);
    assert_eq!(none["rollouts"].as_array().unwrap().len(), 0);
    let (code, screen, _) = Terminal::start(
        control.command(&[&create[..], &["--yes", "-o", "name"]].concat()),
        WIDE,
    )
    .ended();
    assert_eq!(code, Some(0), "{screen}");
}

#[test]
fn a_reason_of_500_characters_leaves_tables_whole() {
    let control = Control::start();
    let id = control.rollout();
    let reason = "the canary lost its disk ".repeat(20);
    control
        .run(&["rollouts", "pause", &id, "--reason", &reason])
        .done();
    for args in [
        &["rollouts", "list", "-o", "wide"][..],
        &["rollouts", "get", &id],
    ] {
        let mut shown = Terminal::start(control.command(args), 200);
        shown.drain();
        assert!(!shown.breaks_lines(), "{args:?}:\n{}", shown.seen());
        assert!(shown.seen().contains("the canary"), "{}", shown.seen());
    }
    let all = control.run(&["rollouts", "list", "-o", "wide"]).done();
    assert!(all.contains(reason.trim_end()), "off a terminal: {all}");
}
