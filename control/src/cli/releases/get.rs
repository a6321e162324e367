//! `releases get`.

use bc_protocol::version::Version;
use clap::Args;

use crate::{
    api::release::{GetRelease, Release},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// Show one release: who signed it and which files it has
#[derive(Debug, Args)]
pub(in crate::cli) struct Get {
    /// Its version, such as 1.4.0
    #[arg(value_name = "VERSION")]
    version: Version,
}

impl Get {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = GetRelease {
            tenant_id: online.client.tenant.clone(),
            version: self.version,
        };
        online.show::<Release>("releases/get", &request).await
    }
}
