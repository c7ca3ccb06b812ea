//! Certificates that are configured: how long they are good, and whether the service shows the one that it should.

use super::{Finding, Verdict, fail, pass, warn};
use crate::config::Config;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::PathBuf;

/// Certificates that end within so many days are to be renewed.
const DAYS_LEFT_WARN: u64 = 14;

const DAY_SECONDS: u64 = 86_400;

/// Every file with certificates, by the key that names it.
fn files(config: &Config) -> Vec<(&'static str, PathBuf)> {
    let mut files = Vec::new();
    if let Some(tls) = &config.tls {
        files.push(("tls.certFile", tls.certificate.clone()));
        files.extend(tls.client_ca.clone().map(|file| ("tls.clientCaFile", file)));
    }
    let auth = &config.scanner_auth;
    for (key, file) in
        [("integrates.auth.caFile", &auth.ca_file), ("integrates.auth.clientCertFile", &auth.client_cert_file)]
    {
        if !file.is_empty() {
            files.push((key, PathBuf::from(file)));
        }
    }
    files
}

/// The certificate that the service should show, in DER.
pub fn configured(config: &Config) -> Option<Vec<u8>> {
    let pem = std::fs::read(&config.tls.as_ref()?.certificate).ok()?;
    CertificateDer::pem_slice_iter(&pem).next()?.ok().map(|der| der.to_vec())
}

/// How the certificates stand at `now`, in Unix seconds; `shown` is what the running service shows.
pub fn check(config: &Config, shown: Option<&[u8]>, now: u64) -> Finding {
    let files = files(config);
    if files.is_empty() {
        return pass("none: the listener is plain HTTP, and the scanner is asked without any");
    }
    let mut worst = Verdict::Pass;
    let mut told = Vec::new();
    for (key, file) in files {
        let (verdict, text) = match std::fs::read(&file).map_err(|error| error.to_string()).and_then(|pem| ends(&pem)) {
            Ok((begins, _)) if begins > now => fail("not valid yet"),
            Ok((_, ends)) if ends < now => fail(format!("expired {} days ago; renew it", (now - ends) / DAY_SECONDS)),
            Ok((_, ends)) => {
                let days = (ends - now) / DAY_SECONDS;
                let text = format!("good for {days} days");
                if days < DAYS_LEFT_WARN { warn(format!("{text}; renew it")) } else { pass(text) }
            }
            Err(error) => fail(error),
        };
        worst = worst.max(verdict);
        told.push(format!("{key}: {text}"));
    }
    if shown.is_some() && shown != configured(config).as_deref() {
        worst = worst.max(Verdict::Warn);
        told.push("the running service shows another certificate; it takes a new file within a minute".to_owned());
    }
    (worst, told.join("; "))
}

/// The time in which all certificates of a file are valid, in Unix seconds.
fn ends(pem: &[u8]) -> Result<(u64, u64), String> {
    let mut span: Option<(u64, u64)> = None;
    for der in CertificateDer::pem_slice_iter(pem) {
        let der = der.map_err(|error| format!("it is no PEM: {error}"))?;
        let (begins, ends) = scheduler_auth::validity(&der).map_err(|error| error.to_string())?;
        span = Some(span.map_or((begins, ends), |(latest, earliest)| (latest.max(begins), earliest.min(ends))));
    }
    span.ok_or_else(|| "it holds no certificate".to_owned())
}
