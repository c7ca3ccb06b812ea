//! The service on this machine, as far as `doctor` needs it.

use crate::client::{Client, Global, Request};
use crate::config::Config;
use reqwest::tls::TlsInfo;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// How long a service that should be on this machine may take to show a sign of life.
const LOCAL_WAIT_MAX: Duration = Duration::from_secs(5);

/// The service on this machine, if it runs.
pub struct Service {
    /// Where it is reached from here.
    pub address: String,
    /// Whether it answers there; somebody else's answer is none.
    pub is_running: bool,
    /// The certificate that it shows, in DER.
    pub certificate: Option<Vec<u8>>,
    /// What it says of the time, in Unix seconds.
    pub time: Option<i64>,
    client: Option<Client>,
}

impl Service {
    /// Looks for it. It is asked at a loopback address, which its certificate need not name: what counts is that it shows the
    /// one that is configured. A token is sent to no other.
    pub async fn find(global: &Global, config: &Config, configured: Option<&[u8]>) -> Self {
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let address = format!("{scheme}://{}", reachable(config.listen));
        let http = local_client(&address);
        let answer = match &http {
            Some(http) => http.get(format!("{address}/healthz")).send().await.ok(),
            None => None,
        };
        let certificate = answer.as_ref().and_then(|answer| {
            answer.extensions().get::<TlsInfo>().and_then(|info| info.peer_certificate()).map(<[u8]>::to_vec)
        });
        let time = answer.as_ref().and_then(date);
        let is_running = match answer {
            Some(answer) => answer.json::<Value>().await.is_ok_and(|health| health.get("status") == Some(&json!("ok"))),
            None => false,
        };
        let is_ours = scheme == "http" || certificate.as_deref() == configured;
        let global = Global { server: address.clone(), ..global.clone() };
        let client = http.filter(|_| is_ours).and_then(|http| Client::over(&global, http).ok());
        Self { address, is_running, certificate, time: time.filter(|_| is_running), client }
    }

    /// What it says of its index; `None` when it does not say it.
    pub async fn index(&self) -> Option<Value> {
        let client = self.client.as_ref().filter(|_| self.is_running)?;
        client.call(Request::get(&["admin", "index"]), &["state", "images"]).await.ok()
    }
}

/// Whether a service's metrics are there.
pub async fn shows_metrics(listen: SocketAddr) -> bool {
    let address = format!("http://{}", reachable(listen));
    let Some(http) = local_client(&address) else { return false };
    let Ok(answer) = http.get(format!("{address}/metrics")).send().await else { return false };
    answer.text().await.is_ok_and(|text| text.contains("scheduler_"))
}

/// A client for this machine alone.
fn local_client(address: &str) -> Option<reqwest::Client> {
    let builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(LOCAL_WAIT_MAX)
        .tls_info(true);
    let builder = if address.starts_with("http:") {
        builder.tls_certs_only([])
    } else {
        builder.tls_danger_accept_invalid_certs(true)
    };
    builder.build().ok()
}

/// Where a listener on this machine is reached from this machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The `Date` of an answer, whatever its status, as Unix seconds.
fn date(answer: &reqwest::Response) -> Option<i64> {
    let date = answer.headers().get(reqwest::header::DATE)?.to_str().ok()?;
    let since = httpdate::parse_http_date(date).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// What somebody at a URL says of the time; `None` when there is no answer.
pub async fn time_at(url: &str) -> Option<i64> {
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(LOCAL_WAIT_MAX);
    let builder = if url.starts_with("http:") { builder.tls_certs_only([]) } else { builder };
    date(&builder.build().ok()?.get(url).send().await.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_asked_on_loopback() {
        for (listen, reached) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:2", "[::1]:2"), ("10.0.0.1:3", "10.0.0.1:3")] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), reached);
        }
    }
}
