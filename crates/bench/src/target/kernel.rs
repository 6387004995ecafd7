//! What needs the kernel: md and DRBD.

use std::fs;

use crate::failure::Failure;
use crate::fio::Reach;
use crate::process;
use crate::result::Family;
use crate::scratch::Undo;
use crate::target::{Lab, Servers, Target, configuration};

/// md RAID1 of two loop devices, with an internal bitmap.
pub fn md_raid1(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    drop(process::quiet(["modprobe", "raid1"]));
    if !fs::read_to_string("/proc/mdstat").unwrap_or_default().contains("[raid1]") {
        return Err(Failure::new("this kernel has no md RAID1", "/proc/mdstat does not name it")
            .advise("modprobe raid1, on a kernel that has it"));
    }
    let mut legs = Vec::new();
    for index in 0..2 {
        let file = lab.filled_file(index, &format!("md-leg-{index}"))?;
        legs.push(lab.loop_over(&file)?.display().to_string());
    }
    let device = format!("/dev/md/ekbench{}", std::process::id());
    let stop = ["mdadm", "--stop", &device].map(str::to_owned).to_vec();
    lab.scratch.note(Undo::Run { words: stop })?;
    lab.helper([
        "mdadm",
        "--create",
        &device,
        "--run",
        "--level=1",
        "--raid-devices=2",
        "--bitmap=internal",
        "--assume-clean",
        &legs[0],
        &legs[1],
    ])?;
    let reach = Reach::File(device.clone().into());
    // The legs hold different data until the whole array was written.
    lab.fill(&reach, lab.size / 2, None)?;
    let mut configuration =
        configuration("md RAID1, 2 copies", Family::ReplicatedPeer, 2, "md device");
    configuration.note =
        "Legs are loop devices; its work is done by kernel threads, whose processor \
                          time counts as the machine's only."
            .to_owned();
    let device = Some(device.into());
    Ok(Target {
        configuration,
        reach,
        device,
        directory: None,
        namespace: None,
        servers: Servers::Kernel,
    })
}

/// DRBD needs a second kernel.
///
/// # Errors
/// Always: says what is needed.
pub fn drbd() -> Result<Target, Failure> {
    drop(process::quiet(["modprobe", "drbd"]));
    match fs::exists("/proc/drbd").unwrap_or(false)
        || fs::exists("/sys/module/drbd").unwrap_or(false)
    {
        false => Err(Failure::new("this kernel has no DRBD", "there is no module of that name")
            .advise("install it, and measure DRBD on two machines")),
        true => Err(Failure::new(
            "DRBD is not set up here",
            "a kernel holds one end of a DRBD connection: two machines are needed",
        )
        .advise(
            "measure it there with the commands of `bench drbd --scale 1 --dry-run`, and lay \
                 their output beside this with `bench import`",
        )),
    }
}
