//! Addresses that are called, or told to others.

use super::ConfigError;
use super::raw::Scheduler;
use axum::http::Uri;
use reqwest::Url;
use scheduler_telemetry::Collector;

/// Refuses what no call could be made to. The addresses themselves are not shown: they may have passwords.
pub fn check(file: &Scheduler) -> Result<(), ConfigError> {
    let traces = &file.telemetry.otlp_endpoint;
    for (path, url) in [
        ("publicUrl", &file.public_url),
        ("authority.issuer", &file.authority.issuer),
        ("authority.jwksUri", &file.authority.jwks_uri),
        ("integrates.scannerUrl", &file.integrates.scanner_url),
        ("telemetry.otlpEndpoint", traces),
    ] {
        if url.is_empty() {
            continue;
        }
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(ConfigError::at(path, "the URL begins with http:// or https://"));
        }
        Url::parse(url).map_err(|error| ConfigError::at(path, format!("this is no URL: {error}")))?;
    }
    // The exporter of traces knows no names but those of ASCII.
    if !traces.is_empty() && Collector::at(traces).address.parse::<Uri>().is_err() {
        return Err(ConfigError::at("telemetry.otlpEndpoint", "the exporter of traces takes no such URL"));
    }
    Ok(())
}
