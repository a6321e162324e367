//! A node's folder with something in it that should not be there, or without something that should, and the start after
//! it: it begins from anything.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use anyhow::Result;

use super::{
    Figures,
    checker::look,
    explore::Walk,
    script::BOOT,
    yard::{Exit, Yard, copy},
};

/// What has happened to the folder.
#[derive(Clone, Copy, Debug)]
enum Scene {
    /// The link for people.
    Current(Thing),
    /// What every change locks.
    Lock(Thing),
    /// Both copies of the record.
    Record(Thing),
    /// One of them.
    Copy(Thing),
    /// The binary that is confirmed.
    Confirmed(Thing),
    /// The other slot's.
    Spare(Thing),
    /// Both.
    Binaries(Thing),
    /// The confirmed slot.
    ConfirmedSlot(Thing),
    /// The folder of both slots.
    Slots(Thing),
    /// The manifests of both slots.
    Manifests(Thing),
    /// Where a copy of the record is written before it has its name.
    Staging(Thing),
}

/// What lies there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Nothing,
    /// A folder with a file in it.
    Folder,
    /// A link to itself.
    Loop,
    Dangling,
    Pipe,
    Empty,
    Zeroed,
    Noise,
    Giant,
    /// What was there, with one bit changed.
    Flipped,
    /// What was there, and nobody may read, write or execute it.
    NoMode,
}

const THINGS: [Thing; 11] = [
    Thing::Nothing,
    Thing::Folder,
    Thing::Loop,
    Thing::Dangling,
    Thing::Pipe,
    Thing::Empty,
    Thing::Zeroed,
    Thing::Noise,
    Thing::Giant,
    Thing::Flipped,
    Thing::NoMode,
];

const SCENES: [fn(Thing) -> Scene; 11] = [
    Scene::Current,
    Scene::Lock,
    Scene::Record,
    Scene::Copy,
    Scene::Confirmed,
    Scene::Spare,
    Scene::Binaries,
    Scene::ConfirmedSlot,
    Scene::Slots,
    Scene::Manifests,
    Scene::Staging,
];

/// The confirmed slot, and the other one, where the script has ended.
const CONFIRMED: &str = "slots/a";
const SPARE: &str = "slots/b";

/// Plays every scene.
pub(super) fn run(yard: &Yard, walk: &Walk) -> Result<Figures> {
    let mut figures = Figures::default();
    let state = yard.folder.join("scene");
    for scene in SCENES {
        for thing in THINGS {
            let scene = scene(thing);
            copy(&walk.last, &state)?;
            let wrong = play(yard, &state, scene)?;
            let wrong = wrong
                .into_iter()
                .map(|problem| format!("{scene:?}: {problem}"));
            figures.count("scenes", wrong.collect());
        }
    }
    Ok(figures)
}

fn play(yard: &Yard, state: &Path, scene: Scene) -> Result<Vec<String>> {
    let before = look(state)?;
    let (paths, thing) = scene.of();
    for path in paths {
        thing.put(&state.join(path))?;
    }
    let exit = yard.run(state, &BOOT, &[])?;
    let mut wrong = Vec::new();
    if !scene.may_stop_it() && exit != Exit::Done {
        wrong.push("I12: bcd boot fails".to_owned());
    }
    // One that could not start has changed nothing that there is to look at.
    if exit != Exit::Done {
        return Ok(wrong);
    }
    let after = look(state)?;
    if after.floor() < before.floor() && !scene.loses_the_floor() {
        wrong.push(format!(
            "I2: the floor fell from {:?} to {:?}",
            before.floor(),
            after.floor()
        ));
    }
    if !after.runs_what_is_known(&yard.known) {
        wrong.push("I1: what runs is neither signed nor the package's own".to_owned());
    }
    if scene.is_harmless() && !after.stands_as(&before) {
        wrong.push("I2: the node stands otherwise than before".to_owned());
    }
    if yard.run(state, &BOOT, &[])? != Exit::Done {
        wrong.push("I12: the second bcd boot fails".to_owned());
    }
    Ok(wrong)
}

impl Scene {
    fn of(self) -> (Vec<String>, Thing) {
        let binary = |slot: &str| format!("{slot}/bcd");
        let manifest = |slot: &str| format!("{slot}/release.json");
        match self {
            Self::Current(thing) => (vec!["current".into()], thing),
            Self::Lock(thing) => (vec!["update.lock".into()], thing),
            Self::Record(thing) => (vec!["update.json".into(), "update.json.1".into()], thing),
            Self::Copy(thing) => (vec!["update.json".into()], thing),
            Self::Confirmed(thing) => (vec![binary(CONFIRMED)], thing),
            Self::Spare(thing) => (vec![binary(SPARE)], thing),
            Self::Binaries(thing) => (vec![binary(CONFIRMED), binary(SPARE)], thing),
            Self::ConfirmedSlot(thing) => (vec![CONFIRMED.into()], thing),
            Self::Slots(thing) => (vec!["slots".into()], thing),
            Self::Manifests(thing) => (vec![manifest(CONFIRMED), manifest(SPARE)], thing),
            Self::Staging(thing) => (
                vec![".update.json.new".into(), ".update.json.1.new".into()],
                thing,
            ),
        }
    }

    /// Whether a start may end with its documented code: nobody can lock what is no file, or make slots in one.
    fn may_stop_it(self) -> bool {
        match self {
            Self::Lock(thing) | Self::Slots(thing) | Self::ConfirmedSlot(thing) => {
                !matches!(thing, Thing::Nothing | Thing::NoMode | Thing::Folder)
            }
            Self::Current(_)
            | Self::Record(_)
            | Self::Copy(_)
            | Self::Confirmed(_)
            | Self::Spare(_)
            | Self::Binaries(_)
            | Self::Manifests(_)
            | Self::Staging(_) => false,
        }
    }

    /// Whether nothing is left that could prove a floor.
    fn loses_the_floor(self) -> bool {
        matches!(self, Self::Slots(_))
    }

    /// Whether it costs a node nothing.
    fn is_harmless(self) -> bool {
        match self {
            Self::Current(_)
            | Self::Copy(_)
            | Self::Spare(_)
            | Self::Manifests(_)
            | Self::Staging(_) => true,
            Self::Lock(_)
            | Self::Record(_)
            | Self::Confirmed(_)
            | Self::Binaries(_)
            | Self::ConfirmedSlot(_)
            | Self::Slots(_) => false,
        }
    }
}

impl Thing {
    /// Puts it where something else was.
    fn put(self, path: &Path) -> Result<()> {
        let was = fs::read(path).unwrap_or_default();
        match self {
            Self::NoMode if !path.exists() => return Ok(()),
            Self::NoMode => {
                return Ok(fs::set_permissions(
                    path,
                    fs::Permissions::from_mode(0o000),
                )?);
            }
            Self::Nothing
            | Self::Folder
            | Self::Loop
            | Self::Dangling
            | Self::Pipe
            | Self::Empty
            | Self::Zeroed
            | Self::Noise
            | Self::Giant
            | Self::Flipped => remove(path)?,
        }
        match self {
            Self::Nothing | Self::NoMode => Ok(()),
            Self::Folder => {
                fs::create_dir(path)?;
                fill(&path.join("file"), b"more")
            }
            Self::Loop => Ok(symlink(path.file_name().unwrap_or_default(), path)?),
            Self::Dangling => Ok(symlink("/nowhere/at/all", path)?),
            Self::Pipe => Ok(nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU)?),
            Self::Empty => fill(path, b""),
            Self::Zeroed => fill(path, &vec![0; was.len().max(64)]),
            Self::Noise => fill(path, &[0xff, 0x00, b'{', 0x80].repeat(64)),
            Self::Giant => Ok(File::create(path)?.set_len(1 << 30)?),
            Self::Flipped => {
                let mut bytes = was;
                let middle = bytes.len() / 2;
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 4;
                }
                fill(path, &bytes)
            }
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Ok(fs::remove_dir_all(path)?),
        Ok(_) => Ok(fs::remove_file(path)?),
        Err(_) => Ok(()),
    }
}

fn fill(path: &Path, bytes: &[u8]) -> Result<()> {
    Ok(File::create(path)?.write_all(bytes)?)
}
