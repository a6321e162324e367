//! Small files, folders and names, on a real file system.

use super::{
    Mode, create_folder, folder_of, read_bounded, read_unlinked, replace_file, replace_link,
    sync_folder_of,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

#[test]
fn a_name_alone_is_in_this_processs_own_folder() {
    for (path, folder) in [("x", "."), ("./x", "."), ("a/x", "a"), ("/x", "/")] {
        assert_eq!(folder_of(Path::new(path)).unwrap(), Path::new(folder));
    }
    folder_of(Path::new("/")).unwrap_err();
    sync_folder_of(Path::new("Cargo.toml")).unwrap();
}

#[test]
fn a_file_is_replaced_whole_and_with_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    for (bytes, mode, bits) in [
        (&b"one"[..], Mode::Private, 0o600),
        (b"", Mode::Readable, 0o644),
        (b"three", Mode::Executable, 0o755),
    ] {
        replace_file(&path, bytes, mode).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        let found = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, bits);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_a_cut_left_behind_is_neither_kept_nor_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("record"), folder.path().join("victim"));
    fs::File::create(&victim).unwrap();
    symlink(&victim, folder.path().join(".record.new")).unwrap();
    replace_file(&path, b"new", Mode::Readable).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read(&victim).unwrap(), b"");
}

#[test]
fn a_folder_in_a_files_place_is_set_aside_and_only_one_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    for name in ["record", ".record.new", "record"] {
        fs::remove_file(&path).ok();
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::File::create(folder.path().join(name).join("theirs")).unwrap();
        replace_file(&path, b"bytes", Mode::Readable).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"bytes", "{name}");
    }
    assert!(folder.path().join(".record.aside/theirs").exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    fs::create_dir(folder.path().join("current")).unwrap();
    replace_link(&folder.path().join("current"), Path::new("slots/a")).unwrap();
    assert!(folder.path().join("current").is_symlink());
}

#[test]
fn a_new_folder_and_those_above_it_have_the_mode_whatever_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("one/two/three");
    create_folder(&deep, 0o777).unwrap();
    create_folder(&deep, 0o700).unwrap();
    for path in ["one", "one/two", "one/two/three"] {
        let path = folder.path().join(path);
        let found = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(found, 0o777, "{}", path.display());
    }
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    assert!(create_folder(&folder.path().join("dangling/four"), 0o777).is_err());
}

#[test]
fn a_link_is_replaced_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("current");
    for target in ["slots/a", "slots/b"] {
        replace_link(&link, Path::new(target)).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
    }
}

#[test]
fn a_link_is_no_file_where_others_may_write() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("file"), folder.path().join("link"));
    assert_eq!(read_unlinked(&path, 8).unwrap(), None);
    replace_file(&path, b"bytes", Mode::Private).unwrap();
    symlink(&path, &link).unwrap();
    assert_eq!(read_unlinked(&path, 8).unwrap().unwrap(), b"bytes");
    assert!(read_unlinked(&link, 8).is_err());
}

#[test]
fn a_giant_or_a_pipe_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let giant = folder.path().join("giant");
    fs::File::create(&giant).unwrap().set_len(1 << 40).unwrap();
    assert!(read_bounded(&giant, 1 << 20).is_err());
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(read_bounded(&pipe, 1 << 20).is_err());
    assert!(read_bounded(folder.path(), 1 << 20).is_err());
}
