use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// Where the certificates are, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and behind it those between it and the root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The roots of client certificates; `None`: clients are not asked for one.
    pub client_ca: Option<PathBuf>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file.
    #[error("{}: {reason}", .file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The key file.
    #[error("{}: {reason}", .file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file of the clients' roots.
    #[error("{}: {reason}", .file.display())]
    ClientCa {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// What the files hold.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// The certificates in use.
pub struct Certificates {
    files: TlsFiles,
    /// As they were tried last, good or not.
    tried: Contents,
    config: watch::Sender<Arc<ServerConfig>>,
}

impl Certificates {
    /// Reads and checks the files.
    ///
    /// # Errors
    /// [`TlsError`] for a file that cannot be read or holds nothing usable, and for a key of another certificate.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let tried = read(&files)?;
        let config = watch::Sender::new(Arc::new(server_config(&files, &tried)?));
        Ok(Self { files, tried, config })
    }

    /// Reads the files again. `true` when other certificates are in use now, for connections that are made from now on.
    /// What was tried before is not tried again.
    ///
    /// # Errors
    /// As [`Certificates::load`]; the certificates in use stay.
    pub fn reload(&mut self) -> Result<bool, TlsError> {
        let contents = read(&self.files)?;
        if contents == self.tried {
            return Ok(false);
        }
        let config = server_config(&self.files, &contents);
        self.tried = contents;
        self.config.send_replace(Arc::new(config?));
        Ok(true)
    }

    /// The certificates in use, as they change.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.config.subscribe()
    }
}

fn read(files: &TlsFiles) -> Result<Contents, TlsError> {
    let cannot = |error: std::io::Error| format!("it cannot be read: {error}");
    Ok(Contents {
        certificate: std::fs::read(&files.certificate).map_err(|e| certificate(files, cannot(e)))?,
        key: std::fs::read(&files.key).map_err(|e| key(files, cannot(e)))?,
        client_ca: match &files.client_ca {
            Some(file) => Some(std::fs::read(file).map_err(|e| client_ca(file, cannot(e)))?),
            None => None,
        },
    })
}

fn certificate(files: &TlsFiles, reason: impl ToString) -> TlsError {
    TlsError::Certificate { file: files.certificate.clone(), reason: reason.to_string() }
}

fn key(files: &TlsFiles, reason: impl ToString) -> TlsError {
    TlsError::Key { file: files.key.clone(), reason: reason.to_string() }
}

fn client_ca(file: &Path, reason: impl ToString) -> TlsError {
    TlsError::ClientCa { file: file.to_path_buf(), reason: reason.to_string() }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("it is no PEM: {error}"))?;
    if all.is_empty() { Err("it holds no certificate in PEM".to_owned()) } else { Ok(all) }
}

fn server_config(files: &TlsFiles, contents: &Contents) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(&contents.certificate).map_err(|reason| certificate(files, reason))?;
    let private = PrivateKeyDer::from_pem_slice(&contents.key)
        .map_err(|error| key(files, format!("it holds no private key in PEM: {error}")))?;
    let signer = provider
        .key_provider
        .load_private_key(private)
        .map_err(|error| key(files, format!("the key cannot be used: {error}")))?;
    let certified = CertifiedKey::new(chain, signer);
    match certified.keys_match() {
        // Unknown: a kind of key that does not tell its public half.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(rustls::Error::InconsistentKeys(_)) => {
            return Err(key(
                files,
                format!("the key belongs to another certificate than {}", files.certificate.display()),
            ));
        }
        Err(error) => return Err(certificate(files, error)),
    }
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| certificate(files, error))?;
    let builder = match (&files.client_ca, &contents.client_ca) {
        (Some(file), Some(pem)) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(pem).map_err(|reason| client_ca(file, reason))? {
                roots.add(root).map_err(|error| client_ca(file, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| client_ca(file, error))?;
            builder.with_client_cert_verifier(verifier)
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
