//! Block devices over FUSE and a loop device. First, over what is reached over NBD: libnbd's FUSE
//! file and a loop device over it. It is the way in that every kernel has, and the same kind that
//! evenkeel has where ublk is missing.

use crate::failure::Failure;
use crate::fio::{self, Reach};
use crate::process::command;
use crate::result::Family;
use crate::scratch::Undo;
use crate::target::{Lab, START_PATIENCE, Servers, Target, configuration};
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

/// One file, exported over FUSE by QEMU's storage daemon, past the page cache, and a loop device
/// over that: what the way in costs where nothing is replicated.
pub fn qemu_fuse(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let file = lab.filled_file(0, "qemu-fuse")?;
    let point = lab.scratch.directory("qemu-fuse-export")?.join("device");
    std::fs::write(&point, [])
        .map_err(|error| Failure::new("cannot make a file to mount over", error))?;
    lab.scratch.note(Undo::Mount { point: point.clone() })?;
    let mut server = command(["qemu-storage-daemon"]);
    let file = format!(
        "driver=file,node-name=file,filename={},cache.direct=on,aio=io_uring",
        file.display()
    );
    let export =
        format!("type=fuse,id=fuse,node-name=raw,mountpoint={},writable=on", point.display());
    server.args(["--blockdev", &file, "--blockdev", "driver=raw,node-name=raw,file=file"]);
    server.args(["--export", &export]);
    let pid = lab.serve("qemu-fuse", server)?;
    lab.interrupt.poll("the exported file has its size", START_PATIENCE, || {
        let length = std::fs::metadata(&point).map_or(0, |found| found.len());
        Ok((length == lab.size).then_some(()))
    })?;
    let device = lab.loop_over(&point)?;
    let access = "block device: a loop device over FUSE";
    let mut configuration = configuration("one file over FUSE", Family::SinglePeer, 1, access);
    configuration.note = "QEMU before 10 may reuse the buffer of a write under way for the next \
                          request: then data do not read back right."
        .to_owned();
    let mut target = Target::kernel_device(configuration, device);
    target.servers = Servers::Processes(vec![pid]);
    Ok(target)
}
