//! Clients of exports, in text.

use std::path::Path;

use evenkeel_api::types::ClientCertificateAnswer;

use super::phrases::date;

/// What was made for a client, and how it is used.
pub fn certified(answer: &ClientCertificateAnswer, directory: &Path) -> String {
    let ClientCertificateAnswer { name, expires, .. } = answer;
    format!(
        "Client {name} has a certificate, valid until {}, in {}. Copy that directory to the client, and:\n\n  \
         evenkeel export nbd VOLUME --tcp --client {name}                    here\n  \
         nbdinfo 'nbds://NODE/VOLUME?tls-certificates=DIRECTORY'    there\n",
        date(*expires),
        directory.display(),
    )
}
