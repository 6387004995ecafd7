//! md RAID1, in the kernel.

use std::fs;

use crate::failure::Failure;
use crate::fio::Reach;
use crate::process;
use crate::result::Family;
use crate::scratch::Undo;
use crate::target::{Lab, Target, configuration};

/// md RAID1 of two loop devices, with an internal bitmap.
pub fn raid1(lab: &mut Lab<'_>) -> Result<Target, Failure> {
    drop(process::quiet(["modprobe", "raid1"]));
    if !fs::read_to_string("/proc/mdstat").unwrap_or_default().contains("[raid1]") {
        return Err(Failure::new("this kernel has no md RAID1", "/proc/mdstat does not name it")
            .advise("modprobe raid1, on a kernel that has it"));
    }
    let mut legs = Vec::new();
    for index in 0..2 {
        let file = lab.filled_leg(index, &format!("md-leg-{index}"))?;
        legs.push(lab.loop_over(&file)?.display().to_string());
    }
    let device = format!("/dev/md/ekbench{}", std::process::id());
    let stop = ["mdadm", "--stop", &device].map(str::to_owned).to_vec();
    lab.scratch.note(Undo::run(stop))?;
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
    // The legs hold unlike data: all that is measured is written once, which makes it the same.
    lab.fill(&reach, lab.size, None)?;
    let mut configuration =
        configuration("md RAID1, 2 copies", Family::ReplicatedPeer, 2, "md device");
    configuration.note =
        "Legs are loop devices; its work is done by kernel threads, whose processor \
                          time counts as the machine's only."
            .to_owned();
    Ok(Target::kernel_device(configuration, device.into()))
}
