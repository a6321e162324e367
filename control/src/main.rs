//! `better-compute`: the control service and its command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    better_compute::cli::main()
}
