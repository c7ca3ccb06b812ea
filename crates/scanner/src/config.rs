//! What the client is made from.

use reqwest::Url;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How to reach the scanner.
#[derive(Clone)]
pub struct ScannerConfig {
    /// `http` or `https`, without query and fragment; calls go to `reports`, `resolve` and `scans` below it. A name and
    /// password in it are sent as basic authentication when there is no token.
    pub base_url: String,
    /// The longest that a call may take, from the connection to the last byte of the answer.
    pub timeout: Duration,
    /// The bearer token to send.
    pub token: Option<TokenSource>,
    /// A file of PEM certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The client certificate of the handshake.
    pub identity: Option<ClientIdentity>,
}

impl fmt::Debug for ScannerConfig {
    /// Leaves the URL out: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScannerConfig")
            .field("timeout", &self.timeout)
            .field("token", &self.token)
            .field("ca_file", &self.ca_file)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// A bearer token, or where it stands.
#[derive(Clone)]
pub enum TokenSource {
    /// The token itself.
    Value(String),
    /// A file that holds it, blanks around it aside, and may be replaced while the service runs.
    File(PathBuf),
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(***)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Files of a client certificate and its private key, both PEM.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    /// The certificate and those that lead to its authority.
    pub cert_file: PathBuf,
    /// The key, PKCS#8, PKCS#1 or SEC1.
    pub key_file: PathBuf,
}

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ScannerSetupError {
    /// Not an absolute http or https URL without query.
    #[error("the scanner's URL is no http or https URL without query and fragment")]
    Url,
    /// A file that cannot be read.
    #[error("cannot read {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file without any PEM certificate, or with a broken one.
    #[error("{} holds no readable PEM certificates", .path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; nothing when it is just empty.
        #[source]
        source: Option<reqwest::Error>,
    },
    /// A certificate and key that do not make an identity.
    #[error("{} and {} are no PEM certificate and key", .cert.display(), .key.display())]
    Identity {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong with them.
        #[source]
        source: reqwest::Error,
    },
    /// An empty token, a very long one, or one with characters that no header can hold.
    #[error("the scanner's token is empty, too long or has characters that a header cannot hold")]
    Token,
    /// The client refuses its settings.
    #[error("the scanner's client cannot be set up")]
    Client(#[source] reqwest::Error),
}

/// The calls' addresses.
pub(crate) struct Endpoints {
    base: Url,
}

impl Endpoints {
    pub(crate) fn parse(base_url: &str) -> Result<Self, ScannerSetupError> {
        let mut base = Url::parse(base_url.trim()).map_err(|_| ScannerSetupError::Url)?;
        let usable = matches!(base.scheme(), "http" | "https") && base.query().is_none() && base.fragment().is_none();
        if !usable {
            return Err(ScannerSetupError::Url);
        }
        let path = base.path().trim_end_matches('/').to_owned();
        base.set_path(&path);
        Ok(Self { base })
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// The address below the base, each segment escaped.
    pub(crate) fn join(&self, segments: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

/// An address for people: without name and password.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs without host, which `Endpoints` refuses.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_below_the_base() {
        let check = |base: &str, segments: &[&str], expected: &str| {
            assert_eq!(Endpoints::parse(base).unwrap().join(segments).as_str(), expected, "{base}");
        };
        check("http://scanner", &["reports"], "http://scanner/reports");
        check("http://scanner/", &["reports"], "http://scanner/reports");
        check("https://scanner:8443/api/v1/", &["scans", "a/b?c"], "https://scanner:8443/api/v1/scans/a%2Fb%3Fc");
    }

    #[test]
    fn other_urls_are_refused() {
        for base in ["", "scanner", "ftp://scanner", "http://", "http://scanner/?a=b", "http://scanner/#a", "unix:/x"] {
            assert!(matches!(Endpoints::parse(base), Err(ScannerSetupError::Url)), "{base}");
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let config = ScannerConfig {
            base_url: "http://user:hunter2@scanner/".to_owned(),
            timeout: Duration::from_secs(1),
            token: Some(TokenSource::Value("hunter2".to_owned())),
            ca_file: None,
            identity: None,
        };
        assert!(!format!("{config:?}").contains("hunter2"));
        let url = Endpoints::parse(&config.base_url).unwrap().join(&["reports"]);
        assert_eq!(shown(&url), "http://scanner/reports");
    }
}
