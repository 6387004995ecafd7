//! NBD servers: qemu-nbd, nbdkit, and QEMU's quorum as a replicating one.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::process::command;
use crate::result::Family;
use crate::target::{Lab, Target, configuration, over_nbd};

const ACCESS: &str = "NBD over a unix socket";

/// qemu-nbd with one file, past the page cache.
pub fn qemu(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let file = lab.filled_file(0, "qemu-nbd")?;
    let (socket, pid) = serve_qemu(lab, "qemu-nbd", &file)?;
    let configuration = configuration("qemu-nbd, one file", Family::SinglePeer, 1, ACCESS);
    Ok(over_nbd(configuration, &socket, "", vec![pid]))
}

/// nbdkit with one file, through the page cache.
pub fn nbdkit(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let file = lab.filled_file(0, "nbdkit")?;
    let socket = lab.scratch.sockets().join("nbdkit.sock");
    let mut server = command(["nbdkit", "--foreground", "--unix"]);
    server.arg(&socket).arg("file").arg(&file);
    let pid = lab.serve("nbdkit", server)?;
    lab.await_path("nbdkit", pid, &socket)?;
    let mut configuration = configuration("nbdkit, one file", Family::SinglePeer, 1, ACCESS);
    configuration.cache = "page cache of the server".to_owned();
    configuration.note =
        "Writes stay in memory until a flush: without flushes, a different promise.".to_owned();
    Ok(over_nbd(configuration, &socket, "", vec![pid]))
}

/// QEMU's quorum of three files: every write goes to all, a majority of the answers counts.
pub fn quorum_of_files(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let mut options = quorum();
    for index in 0..3 {
        let file = lab.filled_file(index, &format!("quorum-file-{index}"))?;
        options += &format!(
            ",children.{index}.driver=raw,children.{index}.file.driver=file,\
             children.{index}.file.filename={},children.{index}.file.aio=io_uring,\
             children.{index}.file.cache.direct=on",
            file.display()
        );
    }
    let (socket, pid) = serve_image(lab, "quorum-files", &options)?;
    let mut configuration =
        configuration("QEMU quorum of 3 files", Family::ReplicatedPeer, 3, ACCESS);
    configuration.note = "Reads take the first copy (read-pattern=fifo).".to_owned();
    same_content(lab, &socket)?;
    Ok(over_nbd(configuration, &socket, "", vec![pid]))
}

/// QEMU's quorum of three qemu-nbd.
pub fn quorum_of_servers(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let mut options = quorum();
    let mut pids = Vec::new();
    for index in 0..3 {
        let name = format!("quorum-leg-{index}");
        let file = lab.filled_file(index, &name)?;
        let (socket, pid) = serve_qemu(lab, &name, &file)?;
        pids.push(pid);
        options += &format!(
            ",children.{index}.driver=raw,children.{index}.file.driver=nbd,\
             children.{index}.file.server.type=unix,children.{index}.file.server.path={}",
            socket.display()
        );
    }
    let (socket, pid) = serve_image(lab, "quorum-nbd", &options)?;
    pids.push(pid);
    let mut configuration =
        configuration("QEMU quorum of 3 qemu-nbd", Family::ReplicatedPeer, 3, ACCESS);
    configuration.note = "Reads take the first copy (read-pattern=fifo).".to_owned();
    same_content(lab, &socket)?;
    Ok(over_nbd(configuration, &socket, "", pids))
}

fn quorum() -> String {
    "driver=quorum,vote-threshold=2,read-pattern=fifo".to_owned()
}

/// The legs were filled one by one and differ: a fill through the quorum makes them the same.
fn same_content(lab: &mut Lab<'_>, socket: &Path) -> Result<(), Failure> {
    let reach = crate::fio::Reach::Nbd { socket: socket.to_owned(), export: String::new() };
    lab.fill(&reach, lab.size, None)
}

/// Serves a file by qemu-nbd, past the page cache.
pub fn serve_qemu(lab: &mut Lab<'_>, name: &str, file: &Path) -> Result<(PathBuf, u32), Failure> {
    let socket = lab.scratch.sockets().join(format!("{name}.sock"));
    let mut server = command([
        "qemu-nbd",
        "--format=raw",
        "--cache=none",
        "--aio=io_uring",
        "--persistent",
        "--shared=16",
        "--socket",
    ]);
    server.arg(&socket).arg(file);
    let pid = lab.serve(name, server)?;
    lab.await_path(name, pid, &socket)?;
    Ok((socket, pid))
}

/// Serves an image described by options.
pub fn serve_image(
    lab: &mut Lab<'_>,
    name: &str,
    options: &str,
) -> Result<(PathBuf, u32), Failure> {
    let socket = lab.scratch.sockets().join(format!("{name}.sock"));
    let mut server = command(["qemu-nbd", "--persistent", "--shared=16", "--socket"]);
    server.arg(&socket).arg("--image-opts").arg(options);
    let pid = lab.serve(name, server)?;
    lab.await_path(name, pid, &socket)?;
    Ok((socket, pid))
}
