//! The shells' completion scripts.

use clap_complete::Shell;

/// The name that is completed.
const NAME: &str = "stella-scheduler";

/// How the script for bash spells the name where it walks over the words, and where it looks up what comes next.
const WALKED: &str = "stella__scheduler";
const LOOKED_UP: &str = "stella__subcmd__scheduler";

/// The script for a shell.
///
/// `clap_complete` 4.6 writes for bash a script that knows nothing below the first word when the program's name has a dash: it
/// takes the dash for the boundary of a subcommand in the labels, and not in the words that are compared with them
/// (<https://github.com/clap-rs/clap/issues/6421>). Both are made the same here, which changes nothing once that is mended.
pub fn script(shell: Shell, command: &mut clap::Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, NAME, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script.replace(LOOKED_UP, WALKED),
        _ => script,
    }
}
