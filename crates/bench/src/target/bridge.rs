//! A block device over what is reached over NBD: libnbd's FUSE file and a loop device over it. It
//! is the way in that every kernel has, and the same kind that evenkeel has where ublk is missing.

use crate::failure::Failure;
use crate::fio::{self, Reach};
use crate::process::command;
use crate::scratch::Undo;
use crate::target::{Lab, Servers, Target};
use crate::tools;

/// Gives a target a block device if devices are wanted and it has none but NBD.
///
/// # Errors
/// If nbdfuse is not installed or does not start, or there is no loop device.
pub fn give_device(lab: &mut Lab<'_>, target: &mut Target) -> Result<(), Failure> {
    if !lab.devices || target.device.is_some() || !matches!(target.reach, Reach::Nbd { .. }) {
        return Ok(());
    }
    tools::NBDFUSE.require()?;
    let name = format!("{}-nbdfuse", target.configuration.id);
    let point = lab.scratch.directory(&name)?;
    let file = point.join("nbd");
    lab.scratch.note(Undo::Mount { point })?;
    let server = command(["nbdfuse".as_ref(), file.as_os_str(), fio::uri(&target.reach).as_ref()]);
    let pid = lab.serve(&name, server)?;
    lab.await_path(&name, pid, &file)?;
    let device = lab.loop_over(&file)?;
    if let Servers::Processes(pids) = &mut target.servers {
        pids.push(pid);
    }
    let configuration = &mut target.configuration;
    configuration.access =
        format!("block device: a loop device over nbdfuse over {}", configuration.access);
    target.reach = Reach::File(device.clone());
    target.device = Some(device);
    Ok(())
}
