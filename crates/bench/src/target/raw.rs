//! The disk itself.

use crate::failure::Failure;
use crate::fio::Reach;
use crate::result::Family;
use crate::target::{Lab, Servers, Target, configuration};

/// A file of the disk.
pub fn file(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let path = lab.filled_file(0, "raw")?;
    let device = if lab.devices { Some(lab.loop_over(&path)?) } else { None };
    let mut configuration = configuration("raw file", Family::Raw, 1, "file, io_uring");
    if device.is_some() {
        configuration.note = "As a device: a loop device over the file, direct I/O.".to_owned();
    }
    // Its filesystem is the one of the scratch directory.
    let directory = Some(lab.place(0, "raw-directory")?);
    let reach = Reach::File(path);
    Ok(Target {
        configuration,
        reach,
        device,
        directory,
        namespace: None,
        servers: Servers::Kernel,
    })
}

/// A loop device over a file of the disk.
pub fn loop_device(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    let path = lab.filled_file(0, "raw-loop")?;
    let device = lab.loop_over(&path)?;
    let configuration = configuration("raw loop device", Family::Raw, 1, "loop device over a file");
    Ok(Target::kernel_device(configuration, device))
}

/// N files at once: what N copies can reach together on this disk.
pub fn limit(lab: &mut Lab<'_>, copies: u32) -> Result<Target, Failure> {
    let mut paths = Vec::new();
    for index in 0..copies {
        paths.push(lab.filled_file(index as usize, &format!("limit-{copies}-{index}"))?);
    }
    let name = format!("{copies} raw files at once");
    let mut configuration = configuration(&name, Family::Limit, copies, "files, io_uring");
    configuration.note =
        format!("Its total, divided by {copies}, is the limit of {copies} copies on this disk.");
    let reach = Reach::Files(paths);
    Ok(Target {
        configuration,
        reach,
        device: None,
        directory: None,
        namespace: None,
        servers: Servers::Kernel,
    })
}
