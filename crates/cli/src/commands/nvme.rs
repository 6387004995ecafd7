//! `evenkeel export nvme`: secrets from a file, and the command for each host that has got one.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use evenkeel_api::routes;
use evenkeel_api::types::{Export, ExportAnswer, ExportNvmeRequest, NvmeGenerate, NvmeSecrets};

use super::Context;
use crate::args::ExportNvmeArgs;
use crate::failure::Failure;
use crate::output;

/// Most bytes of a file with secrets: those of as many hosts as an export may have.
const MAX_FILE: u64 = 64 << 10;
const FORM: &str = "write one line for each host: its NQN, its secret (`nvme gen-dhchap-key` makes one) and, both ways, the node's secret, with blanks between them";

/// Exports a volume.
///
/// # Errors
/// If the file cannot be used, or the node refuses or cannot be reached.
pub fn export(context: &Context, args: &ExportNvmeArgs) -> Result<(), Failure> {
    let secrets = args.secrets.as_deref().map(read).transpose()?.unwrap_or_default();
    let mut hosts = args.hosts.clone();
    hosts.extend(secrets.iter().map(|of| of.host.clone()));
    let mut seen = std::collections::BTreeSet::new();
    hosts.retain(|host| seen.insert(host.clone()));
    let generate = match (args.generate_key, args.both_ways) {
        (false, _) => None,
        (true, false) => Some(NvmeGenerate::Host),
        (true, true) => Some(NvmeGenerate::Both),
    };
    let request = ExportNvmeRequest { hosts, read_only: args.read_only, secrets, generate };
    let path = routes::fill(routes::EXPORT_NVME, &[&args.name]);
    let answer = context.client.post(&path, &request)?;
    context.show(&answer, |answer: &ExportAnswer| reported(&args.name, answer))
}

fn reported(name: &str, answer: &ExportAnswer) -> String {
    let export = &answer.export;
    let mut text = format!("Exported volume {name}: {}\n", output::volume::export_line(export));
    for secrets in &answer.nvme_secrets {
        text.push_str(&format!(
            "\nTo be run on {}; what is secret in it is not shown again:\n  {}\n",
            secrets.host,
            command(export, secrets)
        ));
    }
    text
}

/// What connects a host.
fn command(export: &Export, secrets: &NvmeSecrets) -> String {
    let address = export.tcp.first().and_then(|address| address.rsplit_once(':'));
    let (host, port) = address.unwrap_or(("ADDRESS", "4420"));
    let host = match host.trim_matches(['[', ']']) {
        "0.0.0.0" | "::" => "ADDRESS",
        host => host,
    };
    let subsystem = export.nvme.as_ref().map_or("SUBSYSTEM", |nvme| &nvme.subsystem);
    let mut text = format!(
        "nvme connect -t tcp -a {host} -s {port} -n {subsystem} --hostnqn {} --dhchap-secret {}",
        secrets.host, secrets.secret
    );
    if let Some(secret) = &secrets.controller_secret {
        text.push_str(&format!(" --dhchap-ctrl-secret {secret}"));
    }
    text
}

/// Secrets of a file that nobody else may read.
fn read(path: &Path) -> Result<Vec<NvmeSecrets>, Failure> {
    let what = format!("cannot take secrets from {}", path.display());
    let failed = |error: std::io::Error| Failure::new(&what, error);
    let mut file = File::open(path).map_err(failed)?;
    let of = file.metadata().map_err(failed)?;
    if of.uid() != rustix::process::geteuid().as_raw() {
        let why = "it belongs to another user, who knows what is in it";
        return Err(Failure::new(what, why).advise("take a file of your own"));
    }
    let mode = of.mode();
    if mode & 0o077 != 0 {
        let why = format!("others may read or change it (its mode is {:04o})", mode & 0o7777);
        let advice = "take its mode to 0600; if somebody may have read it, make new secrets";
        return Err(Failure::new(what, why).advise(advice));
    }
    let mut text = String::new();
    file.by_ref().take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(Failure::new(what, "it is longer than 64 KiB").advise(FORM));
    }
    parse(&text).map_err(|why| Failure::new(what, why).advise(FORM))
}

/// The message names a line, and does not repeat what is secret.
fn parse(text: &str) -> Result<Vec<NvmeSecrets>, String> {
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (host, secret, controller) = match fields[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [host, secret] => (host, secret, None),
            [host, secret, controller] => (host, secret, Some(controller.to_owned())),
            _ => return Err(format!("line {number} has {} fields", fields.len())),
        };
        let (host, secret) = (host.to_owned(), secret.to_owned());
        all.push(NvmeSecrets { host, secret, controller_secret: controller });
    }
    match all.is_empty() {
        true => Err("it names no host".to_owned()),
        false => Ok(all),
    }
}

#[cfg(test)]
mod tests;
