//! Compiles the schemas under `proto/` with a compiler written in Rust, so that no `protoc` is needed.

use std::{env, io, path::PathBuf};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=proto");
    let schemas = [
        "bettercompute/node/v1/node.proto",
        "bettercompute/link/v1/link.proto",
    ];
    let descriptors = protox::compile(schemas, ["proto"]).map_err(io::Error::other)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    prost_build::Config::new()
        // Ordered maps, so that equal messages have equal bytes.
        .btree_map(["."])
        .bytes(["."])
        .out_dir(&out)
        .include_file("wire.rs")
        .compile_fds(descriptors)
}
