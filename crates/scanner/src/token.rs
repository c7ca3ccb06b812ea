//! The bearer token, kept up with its file.

use crate::config::{ScannerSetupError, TokenSource};
use parking_lot::Mutex;
use reqwest::header::HeaderValue;
use scheduler_model::Timestamp;
use std::path::PathBuf;
use std::time::Duration;

/// How long a token that was read is taken as it is.
const REREAD_AFTER: Duration = Duration::from_secs(1);
/// Longer tokens fit no server's header limits.
const TOKEN_LEN_MAX: usize = 16 << 10;

pub(crate) struct BearerToken {
    file: Option<PathBuf>,
    current: Mutex<Current>,
}

struct Current {
    header: HeaderValue,
    read_at: Timestamp,
}

impl BearerToken {
    pub(crate) fn open(source: &TokenSource, now: Timestamp) -> Result<Self, ScannerSetupError> {
        let (file, text) = match source {
            TokenSource::Value(text) => (None, text.clone()),
            TokenSource::File(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| ScannerSetupError::File { path: path.clone(), source })?;
                (Some(path.clone()), text)
            }
        };
        let header = header_of(&text).ok_or(ScannerSetupError::Token)?;
        Ok(Self { file, current: Mutex::new(Current { header, read_at: now }) })
    }

    /// The header to send; the file is read again when the last time is more than a second ago.
    pub(crate) async fn header(&self, now: Timestamp) -> HeaderValue {
        let due = {
            let mut current = self.current.lock();
            let due = now < current.read_at || now.since(current.read_at) >= REREAD_AFTER;
            if due {
                // Set before the file is read, so that one of many callers at once reads it.
                current.read_at = now;
            }
            due
        };
        if due {
            self.reread().await;
        }
        self.current.lock().header.clone()
    }

    /// Whether the file holds another token than the one that was refused, so that the call is worth repeating.
    pub(crate) async fn has_other_than(&self, refused: &HeaderValue) -> bool {
        self.reread().await;
        self.current.lock().header != *refused
    }

    async fn reread(&self) {
        let Some(file) = &self.file else { return };
        // A file that is being replaced may be away or empty for a moment; the token at hand stays.
        match tokio::fs::read_to_string(file).await {
            Ok(text) => match header_of(&text) {
                Some(header) => self.current.lock().header = header,
                None => tracing::warn!(file = %file.display(), "the scanner's token file holds no token"),
            },
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "the scanner's token file cannot be read");
            }
        }
    }
}

fn header_of(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    let usable = (1..=TOKEN_LEN_MAX).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| usable)?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[tokio::test]
    async fn a_replaced_file_is_noticed_after_a_second() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "one\n").unwrap();
        let token = BearerToken::open(&TokenSource::File(file.clone()), at(0)).unwrap();
        std::fs::write(&file, "two\n").unwrap();
        assert_eq!(token.header(at(999)).await, "Bearer one");
        assert_eq!(token.header(at(1_000)).await, "Bearer two");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(token.header(at(2_000)).await, "Bearer two");
        std::fs::write(&file, "").unwrap();
        assert_eq!(token.header(at(3_000)).await, "Bearer two");
        std::fs::write(&file, "three").unwrap();
        assert_eq!(token.header(at(-5_000)).await, "Bearer three");
    }

    #[tokio::test]
    async fn a_refusal_reads_the_file_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "one").unwrap();
        let token = BearerToken::open(&TokenSource::File(file.clone()), at(0)).unwrap();
        let used = token.header(at(1)).await;
        assert!(!token.has_other_than(&used).await);
        std::fs::write(&file, "two").unwrap();
        assert!(token.has_other_than(&used).await);
    }

    #[test]
    fn a_token_is_one_word() {
        for bad in ["", "  \n", "two words", "line\nbreak", "töken"] {
            let got = BearerToken::open(&TokenSource::Value(bad.to_owned()), at(0));
            assert!(matches!(got, Err(ScannerSetupError::Token)), "{bad}");
        }
        assert!(header_of(&"x".repeat(TOKEN_LEN_MAX)).is_some());
        assert!(header_of(&"x".repeat(TOKEN_LEN_MAX + 1)).is_none());
        assert!(!format!("{:?}", header_of("hunter2")).contains("hunter2"));
    }
}
