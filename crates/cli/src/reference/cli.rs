//! The reference page of the command line, written from the commands themselves.

use crate::Cli;
use crate::golden::{golden, path};
use clap::error::ErrorKind;
use clap::{Command, CommandFactory};
use std::path::{Path, PathBuf};

/// Columns of the page's help texts.
const WIDTH: usize = 110;

const HEAD: &str = "# Command line

One binary, `stella-scheduler`. Commands that start with the service's own work (`serve`) read the configuration; the verbs talk to a
running service (`--server`), as the tenant `--tenant` or the one that the token of `--token-file` names.

- **Output.** Results go to stdout, remarks, progress and errors to stderr. For people: tables and short summaries; progress bars on a
  terminal only. `--json`: one document, or one line for each item of a list, each file of an import and each step of a watch.
  `--quiet`: ids only.
- **Exit codes.** 0: done. 1: the operation failed, with a sentence on stderr. 2: wrong usage, with nothing on stdout.
- **Errors** say what to do: an unreachable service is named with its address; a refusal shows the service's sentence, its status and
  code, and the places in the input that it is about.
- **Files.** Where a document is read, `-` is standard input.
- **https.** The system's certificates are trusted; `SSL_CERT_FILE` names others. Proxies of the environment (`HTTPS_PROXY`, `NO_PROXY`)
  are used, but never for this machine.
- **Completions.** `stella-scheduler completions bash`, and the same for zsh, fish, elvish and powershell.

Global options may stand before or after the command; they are shown once, here:

";

fn page() -> String {
    let mut root = Cli::command().term_width(WIDTH).help_expected(true);
    root.build();
    let mut out = HEAD.to_owned();
    out.push_str(&fenced(&mut root.clone()));
    for command in root.get_subcommands() {
        write(&mut out, command, "stella-scheduler", 2);
    }
    out
}

fn write(out: &mut String, command: &Command, parent: &str, level: usize) {
    if command.get_name() == "help" {
        return;
    }
    let name = format!("{parent} {}", command.get_name());
    out.push_str(&format!("\n{} {name}\n\n", "#".repeat(level)));
    let verbs: Vec<&Command> = command.get_subcommands().filter(|verb| verb.get_name() != "help").collect();
    if verbs.is_empty() {
        let hidden = ["config", "server", "tenant", "token_file", "json", "quiet", "help", "version"];
        let mut alone = command.clone().term_width(WIDTH);
        for id in hidden {
            if alone.get_arguments().any(|argument| argument.get_id() == id) {
                alone = alone.mut_arg(id, |argument| argument.hide(true));
            }
        }
        out.push_str(&fenced(&mut alone));
    } else if let Some(about) = command.get_about() {
        out.push_str(&format!("{about}\n"));
    }
    for verb in verbs {
        write(out, verb, &name, level + 1);
    }
}

fn fenced(command: &mut Command) -> String {
    let text = command.render_long_help().to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n").trim_end())
}

#[test]
fn the_reference_page_is_what_the_commands_say() {
    golden("docs/reference/cli.md", &page());
}

#[test]
fn the_commands_are_well_formed() {
    Cli::command().debug_assert();
}

/// Every command that does something, by its name.
fn leaves(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
    let verbs: Vec<&Command> = command.get_subcommands().filter(|verb| verb.get_name() != "help").collect();
    if verbs.is_empty() || !command.is_subcommand_required_set() {
        found.push((name.to_owned(), command.clone()));
    }
    for verb in verbs {
        leaves(verb, &format!("{name} {}", verb.get_name()), found);
    }
}

/// The words of a line of a shell, up to a pipe or a redirection.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | ';') => break,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_has_examples_and_they_are_commands() {
    let mut root = Cli::command();
    root.build();
    let mut found = Vec::new();
    leaves(&root, "stella-scheduler", &mut found);
    assert!(found.len() > 25, "{}", found.len());
    for (name, command) in found {
        let Some(help) = command.get_after_help().map(ToString::to_string).filter(|help| help.contains("Examples:"))
        else {
            panic!("`{name} --help` has no examples");
        };
        let mut examples = 0;
        assert!(help.lines().all(|line| line.len() <= 100 || !line.starts_with("  ")), "{help}");
        for line in help.replace("\\\n", "").lines() {
            let Some(at) = line.find("stella-scheduler ") else { continue };
            if !line.starts_with("  ") {
                continue;
            }
            let words = shell_words(&line[at..]);
            if let Err(error) = Cli::command().try_get_matches_from(&words) {
                panic!("an example of `{name}` is no command: {line}\n{error}");
            }
            examples += usize::from(line.contains(&name));
        }
        assert!(examples > 0, "no example of `{name}` is one of it");
    }
}

/// The pages below a folder.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn commands_in_the_prose_of_the_pages_are_commands() {
    let mut found = vec![path("README.md")];
    pages(&path("docs"), &mut found);
    let mut count = 0;
    for page in found {
        let text = std::fs::read_to_string(&page).unwrap();
        for command in text.split('`').filter(|span| span.starts_with("stella-scheduler ") && !span.contains('\n')) {
            count += 1;
            let Err(error) = Cli::command().try_get_matches_from(shell_words(command)) else { continue };
            // Prose may leave out what a command cannot do without; what it says has to be there.
            let is_short = matches!(
                error.kind(),
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::MissingSubcommand
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            assert!(is_short, "{}: `{command}`: {error}", page.display());
        }
    }
    assert!(count >= 8, "{count} commands");
}
