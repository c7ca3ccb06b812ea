//! Whether `serve` could listen where it is told to.

use super::service::{Service, shows_metrics};
use super::{Finding, fail, pass, warn};
use crate::config::Config;
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};

/// A port that cannot be had is well only when the service itself has it.
pub async fn check(config: &Config, service: &Service) -> Finding {
    let mut told = Vec::new();
    if service.is_running {
        told.push(format!("{} is the running service's", config.listen));
    } else {
        match bind(config.listen) {
            Ok(()) => told.push(format!("{} can be had", config.listen)),
            Err(error) => return refused(config.listen, &error, "listen"),
        }
    }
    if let Some(metrics) = config.metrics_listen {
        match bind(metrics) {
            Ok(()) => told.push(format!("{metrics} can be had")),
            Err(_) if service.is_running && shows_metrics(metrics).await => {
                told.push(format!("{metrics} is the running service's"));
            }
            Err(error) => return refused(metrics, &error, "telemetry.metricsListen"),
        }
    }
    pass(told.join("; "))
}

/// What is refused to this user may be allowed to the service's.
fn refused(address: SocketAddr, error: &Error, key: &str) -> Finding {
    if error.kind() == ErrorKind::PermissionDenied {
        return warn(format!(
            "this user may not listen on {address}; the service's has to be allowed to (configuration key {key})"
        ));
    }
    fail(format!("cannot listen on {address}: {error}; configuration key {key} names another address"))
}

/// Listens as `serve` would, and stops at once.
fn bind(address: SocketAddr) -> Result<(), Error> {
    TcpListener::bind(address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn what_only_this_user_may_not_is_a_warning() {
        let address = "127.0.0.1:443".parse().unwrap();
        for (kind, verdict) in [(ErrorKind::PermissionDenied, Verdict::Warn), (ErrorKind::AddrInUse, Verdict::Fail)] {
            let (found, said) = refused(address, &kind.into(), "listen");
            assert!(found == verdict && said.contains("127.0.0.1:443") && said.contains("key listen"), "{said}");
        }
    }
}
