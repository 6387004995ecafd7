//! Arguments about clients of exports.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `evenkeel client …`
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Make a certificate by which a client uses the exports that name it
    #[command(after_help = "\
Examples:
  evenkeel client certificate vm1 /root/vm1
  evenkeel client certificate vm1 /root/vm1 --days 30     a new one in time, for the same key

Runs on the node where `evenkeel cluster init` was run. DIRECTORY gets ca-cert.pem, client-cert.pem and
client-key.pem, as QEMU and libnbd read them. Copy them to the client by a way that only you can read.")]
    Certificate(ClientCertificateArgs),
}

/// Arguments of `client certificate`.
#[derive(Debug, Args)]
pub struct ClientCertificateArgs {
    /// The client's name, as an export names it by `--client`
    pub name: String,
    /// Where the files are to be; a key that is there is used again
    pub directory: PathBuf,
    /// For how many days it is valid
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=3650))]
    pub days: u64,
}
