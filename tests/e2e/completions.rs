//! What bash offers after Tab, with the script that the program prints.

use std::process::Command;

/// The words that bash offers for the last of these; `None` where there is no bash.
fn offered(script: &str, words: &[&str]) -> Option<Vec<String>> {
    let (last, before) = words.split_last().unwrap();
    let run = r#"
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        function=$(complete -p stella-scheduler | sed 's/.* -F \([^ ]*\) .*/\1/')
        "$function" stella-scheduler "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", run, "bash", script, "stella-scheduler"]).args(before).arg(last);
    let output = match bash.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("not checked: there is no bash ({error})");
            return None;
        }
    };
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.is_empty(), "{said}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn bash_completes_every_word_of_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("completions");
    let printed = Command::new(env!("CARGO_BIN_EXE_stella-scheduler")).args(["completions", "bash"]).output().unwrap();
    std::fs::write(&script, printed.stdout).unwrap();
    for (words, wanted) in [
        (&[""][..], &["schedule", "run", "doctor"][..]),
        (&["sch"], &["schedule"]),
        (&["schedule", ""], &["list", "get", "create", "pause"]),
        (&["schedule", "create", "--"], &["--cron", "--timezone"]),
        (&["run", "list", "--state", ""], &["planning", "queued", "running", "completed"]),
        (&["run", "images", "r", "--outcome", "del"], &["delta"]),
        (&["index", "re"], &["restore", "rebuild"]),
        (&["help", "keys", ""], &["generate"]),
    ] {
        let Some(offered) = offered(script.to_str().unwrap(), words) else { return };
        for word in wanted {
            assert!(offered.iter().any(|one| one == word), "{words:?}: {word} is not in {offered:?}");
        }
    }
}
