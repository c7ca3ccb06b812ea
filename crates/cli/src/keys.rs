//! `keys generate`: webhook keys as files that only their owner reads, and the configuration that uses them.

use crate::client::{Global, Output, SourceArg};
use crate::system::secret_bytes;
use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use scheduler_auth::{Secret, generate_ed25519_pair, generate_hmac_secret, generate_text_secret};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Keys of webhooks.
#[derive(Subcommand, Debug)]
pub enum KeysCommand {
    /// Makes webhook keys and prints the configuration that uses them.
    ///
    /// Without options two are made, as the reference configuration has them: `feedser-1` (HMAC) and `vexer-1` (Ed25519).
    #[command(after_help = "Examples:
  stella-scheduler keys generate --out keys
  stella-scheduler keys generate --out keys > scheduler.yaml
  stella-scheduler keys generate --source vexer --algorithm ed25519 --id vexer-2 --out keys")]
    Generate {
        /// Make one key, for this source.
        #[arg(long)]
        source: Option<SourceArg>,
        /// Make one key, of this algorithm.
        #[arg(long)]
        algorithm: Option<KeyAlgorithm>,
        /// Its id, which signatures carry; default: the source and `-1`.
        #[arg(long, value_name = "ID", value_parser = key_id)]
        id: Option<String>,
        /// Write HMAC secrets as libraries of Standard Webhooks take them (`whsec_…`), instead of as a text that is the key itself.
        #[arg(long)]
        standard_webhooks: bool,
        /// The folder for the files; it is made when it is not there.
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
    },
}

/// How it signs.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum KeyAlgorithm {
    /// One secret that both sides have.
    HmacSha256,
    /// The sender's private key, and the public one for the service.
    Ed25519,
}

/// An id that can stand in a signature header and in a file's name.
fn key_id(text: &str) -> Result<String, String> {
    let valid = (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && !text.starts_with('.');
    if valid { Ok(text.to_owned()) } else { Err("1 to 64 letters, digits, `-`, `_` or `.`".to_owned()) }
}

/// A file to write.
struct KeyFile {
    path: PathBuf,
    mode: u32,
    content: Vec<u8>,
}

impl KeysCommand {
    /// Carries it out.
    pub fn run(self, global: &Global) -> anyhow::Result<()> {
        let Self::Generate { source, algorithm, id, standard_webhooks, out } = self;
        let secret = if standard_webhooks { generate_hmac_secret } else { generate_text_secret };
        let wanted = if source.is_none() && algorithm.is_none() && id.is_none() {
            vec![
                ("feedser", KeyAlgorithm::HmacSha256, "feedser-1".to_owned()),
                ("vexer", KeyAlgorithm::Ed25519, "vexer-1".to_owned()),
            ]
        } else {
            let source = source.unwrap_or(SourceArg::Feedser).as_str();
            let id = id.unwrap_or_else(|| format!("{source}-1"));
            vec![(source, algorithm.unwrap_or(KeyAlgorithm::HmacSha256), id)]
        };
        std::fs::create_dir_all(&out).with_context(|| format!("the folder {} cannot be made", out.display()))?;
        // The configuration may be read from elsewhere.
        let folder = std::fs::canonicalize(&out).with_context(|| format!("{}", out.display()))?;
        let (mut files, mut keys) = (Vec::new(), Vec::new());
        for (source, algorithm, id) in wanted {
            keys.push(make(&folder, source, algorithm, &id, secret, &mut files)?);
        }
        if let Some(taken) = files.iter().find(|file| file.path.exists()) {
            anyhow::bail!("{} is there already; give another --id or --out", taken.path.display());
        }
        files.iter().try_for_each(write)?;
        show(Output::new(global), &keys, &files)
    }
}

fn make(
    folder: &Path,
    source: &str,
    algorithm: KeyAlgorithm,
    id: &str,
    secret: fn([u8; 32]) -> Secret,
    files: &mut Vec<KeyFile>,
) -> anyhow::Result<Value> {
    let mut file = |ending: &str, mode: u32, content: &[u8]| {
        let path = folder.join(format!("{id}.{ending}"));
        files.push(KeyFile { path: path.clone(), mode, content: content.to_vec() });
        path.display().to_string()
    };
    Ok(match algorithm {
        KeyAlgorithm::HmacSha256 => {
            let secret = secret(secret_bytes()?);
            let path = file("secret", 0o600, secret.expose());
            json!({ "id": id, "source": source, "algorithm": "hmac-sha256", "secretFile": path })
        }
        KeyAlgorithm::Ed25519 => {
            let pair = generate_ed25519_pair(secret_bytes()?);
            file("private.pem", 0o600, pair.private_pem.expose());
            let path = file("public.pem", 0o644, pair.public_pem.as_bytes());
            json!({ "id": id, "source": source, "algorithm": "ed25519", "publicKeyFile": path })
        }
    })
}

/// Never over a file that is there, and with its mode from the first byte on.
fn write(file: &KeyFile) -> anyhow::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(file.mode).open(&file.path);
    let mut opened = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            anyhow::anyhow!("{} is there already; give another --id or --out", file.path.display())
        }
        _ => anyhow::Error::from(error).context(format!("{} cannot be written", file.path.display())),
    })?;
    opened.write_all(&file.content).and_then(|()| opened.sync_all()).with_context(|| format!("{}", file.path.display()))
}

fn show(out: Output, keys: &[Value], files: &[KeyFile]) -> anyhow::Result<()> {
    let paths: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
    if out.json {
        return out.document(&json!({ "files": paths, "keys": keys }));
    }
    if out.quiet {
        return paths.iter().try_for_each(|path| out.line(path));
    }
    for path in &paths {
        out.remark(&format!("wrote {path}"));
    }
    out.remark("the sender gets the .secret or .private.pem file; the service's configuration is:");
    out.line("scheduler:\n  webhooks:\n    keys:")?;
    for key in keys {
        // A JSON object is YAML too.
        let members = key.as_object().into_iter().flatten();
        let members: Vec<String> = ["id", "source", "algorithm", "secretFile", "publicKeyFile"]
            .iter()
            .filter_map(|name| members.clone().find(|(member, _)| member == name))
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        out.line(&format!("      - {{ {} }}", members.join(", ")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::load;
    use std::os::unix::fs::PermissionsExt;

    fn quiet() -> Global {
        Global { config: None, server: String::new(), tenant: None, token_file: None, json: false, quiet: true }
    }

    fn generate(out: &Path) -> anyhow::Result<()> {
        let (source, algorithm, id, out) = (None, None, None, out.to_path_buf());
        KeysCommand::Generate { source, algorithm, id, standard_webhooks: false, out }.run(&quiet())
    }

    #[test]
    fn p12_secret_halves_are_private_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        generate(folder.path()).unwrap();
        let mode = |name: &str| folder.path().join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("feedser-1.secret"), mode("vexer-1.private.pem")), (0o600, 0o600));
        let secret = std::fs::read(folder.path().join("feedser-1.secret")).unwrap();
        let said = generate(folder.path()).unwrap_err().to_string();
        assert!(said.contains("feedser-1.secret is there already"), "{said}");
        assert_eq!(std::fs::read(folder.path().join("feedser-1.secret")).unwrap(), secret);
    }

    #[test]
    fn the_configuration_that_is_printed_accepts_what_the_sender_signs() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        let text: fn([u8; 32]) -> Secret = generate_text_secret;
        let whsec: fn([u8; 32]) -> Secret = generate_hmac_secret;
        for (source, algorithm, id, secret) in [
            ("feedser", KeyAlgorithm::HmacSha256, "a", text),
            ("feedser", KeyAlgorithm::HmacSha256, "c", whsec),
            ("vexer", KeyAlgorithm::Ed25519, "b", text),
        ] {
            let key = make(folder.path(), source, algorithm, id, secret, &mut files).unwrap();
            let path = folder.path().join(format!("{id}.yaml"));
            std::fs::write(&path, json!({ "scheduler": { "webhooks": { "keys": [key] } } }).to_string()).unwrap();
            files.drain(..).for_each(|file| write(&file).unwrap());
            let config = crate::config::validate(load(Some(&path), std::iter::empty()).unwrap().scheduler).unwrap();
            assert_eq!(config.webhook_keys.len(), 1, "{id}");
        }
    }

    #[test]
    fn ids_cannot_lead_out_of_the_folder() {
        for id in ["", "../x", "a/b", ".x", "a b", "a,b"] {
            assert!(key_id(id).is_err(), "{id}");
        }
        assert!(key_id("feedser-1.b_2").is_ok());
    }
}
