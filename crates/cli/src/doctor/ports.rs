//! Whether `serve` could listen where it is told to.

use super::service::{Service, shows_metrics};
use super::{Finding, fail, pass};
use crate::config::Config;
use std::net::{SocketAddr, TcpListener};

/// A port that cannot be had is well only when the service itself has it.
pub async fn check(config: &Config, service: &Service) -> Finding {
    let mut told = Vec::new();
    if service.is_running {
        told.push(format!("{} is the running service's", config.listen));
    } else if let Err(error) = bind(config.listen) {
        return fail(format!(
            "cannot listen on {}: {error}; configuration key listen names another address",
            config.listen
        ));
    } else {
        told.push(format!("{} can be had", config.listen));
    }
    if let Some(metrics) = config.metrics_listen {
        match bind(metrics) {
            Ok(()) => told.push(format!("{metrics} can be had")),
            Err(_) if service.is_running && shows_metrics(metrics).await => {
                told.push(format!("{metrics} is the running service's"));
            }
            Err(error) => {
                return fail(format!(
                    "cannot listen on {metrics} for metrics: {error}; configuration key telemetry.metricsListen names another \
                     address"
                ));
            }
        }
    }
    pass(told.join("; "))
}

/// Listens as `serve` would, and stops at once.
fn bind(address: SocketAddr) -> std::io::Result<()> {
    TcpListener::bind(address).map(drop)
}
