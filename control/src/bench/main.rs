//! Measures the planner on one database, for `cargo xtask bench control`.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use better_compute::bench::{Order, run};

/// Takes the places of two databases, the number of nodes and of rounds, and perhaps what alone is measured; prints one figure
/// a line.
#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().context("expected SMALL LARGE NODES ROUNDS");
    let order = Order {
        small: word()?,
        large: word()?,
        nodes: word()?.parse()?,
        rounds: word()?.parse()?,
        only: word().ok(),
    };
    for (name, figure) in run(&order).await? {
        writeln!(std::io::stdout(), "{name}={figure:.3}")?;
    }
    Ok(())
}
