//! tgt: iSCSI from user space, one file. fio has no iSCSI engine in most distributions, so QEMU's
//! initiator stands between: its processor time is counted, its latency is in the figures.

use std::time::Duration;

use crate::failure::Failure;
use crate::process::{self, command};
use crate::result::Family;
use crate::target::{Lab, Target, configuration, nbd, over_nbd};

/// One file, direct I/O.
pub fn set_up(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let file = lab.filled_file(0, "tgt")?;
    // It is a short integer in tgt: nothing above 32,767.
    let control = 10_000 + std::process::id() % 20_000;
    let port =
        free_port().map_err(|error| Failure::new("there is no free port on 127.0.0.1", error))?;
    let mut daemon = command(["tgtd", "--foreground", "--control-port"]);
    daemon.arg(control.to_string()).arg("--iscsi").arg(format!("portal=127.0.0.1:{port}"));
    let pid = lab.serve("tgtd", daemon)?;
    let admin = |words: &str| -> Vec<String> {
        let start = [
            "tgtadm".to_owned(),
            "--control-port".to_owned(),
            control.to_string(),
            "--lld".to_owned(),
            "iscsi".to_owned(),
        ];
        start.into_iter().chain(words.split(' ').map(str::to_owned)).collect()
    };
    lab.interrupt.poll("tgtd answers", Duration::from_secs(20), || {
        let words = admin("--op show --mode target");
        Ok(process::run(lab.interrupt, &mut command(words), Duration::from_secs(10)).ok())
    })?;
    let name = "iqn.2026-11.local:ekbench";
    lab.helper(admin(&format!("--op new --mode target --tid 1 -T {name}")))?;
    let add = format!(
        "--op new --mode logicalunit --tid 1 --lun 1 --bstype rdwr --bsoflags direct -b {}",
        file.display()
    );
    lab.helper(admin(&add))?;
    lab.helper(admin("--op bind --mode target --tid 1 -I ALL"))?;
    let options = format!(
        "driver=raw,file.driver=iscsi,file.transport=tcp,file.portal=127.0.0.1:{port},file.target={name},file.lun=1"
    );
    let (socket, bridge) = nbd::serve_image(lab, "tgt-bridge", &options)?;
    let mut configuration = configuration(
        "tgt iSCSI, one file",
        Family::SinglePeer,
        1,
        "iSCSI over TCP, through qemu-nbd as initiator",
    );
    configuration.note =
        "The initiator, qemu-nbd, takes part of the time and of the processor.".to_owned();
    Ok(over_nbd(configuration, &socket, "", vec![pid, bridge]))
}

/// A port that nobody uses at this moment.
fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
