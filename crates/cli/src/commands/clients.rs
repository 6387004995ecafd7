//! `evenkeel client …`: certificates of clients of exports.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use evenkeel_api::routes;
use evenkeel_api::types::{ClientCertificateAnswer, ClientCertificateRequest};
use evenkeel_trust::authority::DAY;
use evenkeel_trust::{Key, pem};
use tempfile::NamedTempFile;

use super::Context;
use crate::args::{ClientCertificateArgs, ClientCommand};
use crate::failure::Failure;
use crate::output;

/// The names by which QEMU and libnbd know the files.
const AUTHORITY: &str = "ca-cert.pem";
const CERTIFICATE: &str = "client-cert.pem";
const KEY: &str = "client-key.pem";
const WHAT: &str = "no certificate was made";

/// Runs one of them.
///
/// # Errors
/// If the node refuses or cannot be reached, or a file cannot be written.
pub fn run(context: &Context, command: &ClientCommand) -> Result<(), Failure> {
    match command {
        ClientCommand::Certificate(args) => certificate(context, args),
    }
}

fn certificate(context: &Context, args: &ClientCertificateArgs) -> Result<(), Failure> {
    let key = key(&args.directory)?;
    let request = ClientCertificateRequest {
        name: args.name.clone(),
        public_key: key.public().pem(),
        seconds: args.days * DAY,
    };
    let answer = context.client.post(routes::CLIENT_CERTIFICATE, &request)?;
    let read: ClientCertificateAnswer = answer.parse()?;
    write(&args.directory, AUTHORITY, &read.authority)?;
    write(&args.directory, CERTIFICATE, &read.certificate)?;
    context.show(&answer, |answer: &ClientCertificateAnswer| {
        output::client::certified(answer, &args.directory)
    })
}

/// The client's private key: what is there, or a new one, in a directory that only its owner reads.
fn key(directory: &Path) -> Result<Key, Failure> {
    let made = DirBuilder::new().mode(0o700).create(directory);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(failed(directory, &error));
        }
        _ => {}
    }
    let path = directory.join(KEY);
    match std::fs::read_to_string(&path) {
        Ok(text) => Key::from_pem(&text).map_err(|error| failed(&path, &error)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = Key::generate().map_err(|error| failed(&path, &error))?;
            write(directory, KEY, &pem::encode(pem::PRIVATE_KEY, key.pkcs8()))?;
            Ok(key)
        }
        Err(error) => Err(failed(&path, &error)),
    }
}

/// Replaces a file that only its owner reads. If it is cut off the old one is there still.
fn write(directory: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = directory.join(name);
    let replace = || {
        let mut new = NamedTempFile::new_in(directory)?;
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        new.persist(&path).map(drop).map_err(std::io::Error::from)
    };
    replace().map_err(|error| failed(&path, &error))
}

fn failed(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(WHAT, format!("{}: {why}", path.display()))
        .advise("give another directory, or correct that, then try again".to_owned())
}
