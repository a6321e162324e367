//! The authority of a data folder, which has to be the one that the database's fleet believes.
//!
//! Takes a database and a folder, gives the authority, which is made where there was never one. It never makes another:
//! every node and gateway would be locked out, and whoever comes next would be given what nobody believes.

use bc_protocol::digest::Sha256;

use super::ServeError;
use crate::{
    clock::Moment,
    config::Config,
    db::Db,
    fleet::{authority::Authority, process},
};

/// What all processes of one database have in common under this name.
const AGREED: &str = "authority";

/// Opens it.
pub(super) async fn open(db: &Db, config: &Config, now: Moment) -> Result<Authority, ServeError> {
    let other = |found| ServeError::OtherAuthority {
        found,
        data_dir: config.data_dir.clone(),
        mend: if db.is_shared() {
            "copy authority.pem and authority.key of another process of it there"
        } else {
            "take authority.pem and authority.key from a backup of this folder"
        },
    };
    let believed = process::agreed(db, AGREED).await?;
    if believed.is_some() && !Authority::is_in(&config.data_dir) {
        return Err(other("none"));
    }
    let authority = Authority::open(&config.data_dir, config.lifetimes, now)?;
    let ours = Sha256::of(authority.root()).to_string();
    if process::agree(db, AGREED, &ours).await? != ours {
        return Err(other("another one"));
    }
    Ok(authority)
}
