//! `tls` and `webhooks.clients`: checked by loading what they name.

use super::{ConfigError, raw, secrets};
use scheduler_auth::WebhookClient;
use scheduler_web::tls::{Certificates, TlsError, TlsFiles};
use std::path::PathBuf;

/// The files of `tls`; `None` for a listener without TLS. They are loaded once here, so that what is wrong stops the start.
pub fn files(tls: &raw::Tls) -> Result<Option<TlsFiles>, ConfigError> {
    match (tls.cert_file.is_empty(), tls.key_file.is_empty()) {
        (true, true) if tls.client_ca_file.is_empty() => return Ok(None),
        (false, false) => {}
        (true, _) => return Err(ConfigError::at("tls.certFile", "TLS needs a certificate; give certFile and keyFile")),
        (false, true) => return Err(ConfigError::at("tls.keyFile", "TLS needs the certificate's private key")),
    }
    secrets::private("tls.keyFile", &tls.key_file)?;
    let files = TlsFiles {
        certificate: PathBuf::from(&tls.cert_file),
        key: PathBuf::from(&tls.key_file),
        client_ca: Some(PathBuf::from(&tls.client_ca_file)).filter(|path| !path.as_os_str().is_empty()),
    };
    Certificates::load(files.clone()).map_err(|error| {
        let path = match error {
            TlsError::Certificate { .. } => "tls.certFile",
            TlsError::Key { .. } => "tls.keyFile",
            TlsError::ClientCa { .. } => "tls.clientCaFile",
        };
        ConfigError::at(path, error)
    })?;
    Ok(Some(files))
}

/// The clients of `webhooks.clients`, which only a listener that asks for certificates can know.
pub fn clients(webhooks: &raw::Webhooks, tls: Option<&TlsFiles>) -> Result<Vec<WebhookClient>, ConfigError> {
    if !webhooks.clients.is_empty() && tls.is_none_or(|files| files.client_ca.is_none()) {
        return Err(ConfigError::at(
            "webhooks.clients",
            "clients are known by their certificates, which need tls.clientCaFile (and certFile and keyFile)",
        ));
    }
    let mut clients = Vec::with_capacity(webhooks.clients.len());
    for (number, client) in webhooks.clients.iter().enumerate() {
        let path = format!("webhooks.clients[{number}]");
        let source = super::validate::source(&path, &client.source)?;
        let tenants = super::validate::tenants(&format!("{path}.tenants"), &client.tenants)?;
        let client = WebhookClient::new(&client.subject, source, tenants)
            .map_err(|error| ConfigError::at(format!("{path}.subject"), error))?;
        clients.push(client);
    }
    Ok(clients)
}
