//! DRBD 8.4, the one in Linux itself: two devices of this kernel that replicate to each other over
//! the loopback interface. All of its work is done by kernel threads, of both ends.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use crate::failure::Failure;
use crate::fio::Reach;
use crate::process;
use crate::result::{Durable, Family};
use crate::scratch::Undo;
use crate::target::{Lab, Protocol, Target, configuration};

/// How long the two ends may take to meet.
const MEETING: Duration = Duration::from_secs(30);

/// One end: a resource with one device.
struct End {
    resource: String,
    minor: String,
    address: String,
}

/// Both ends, in-sync, the first one primary.
pub fn set_up(lab: &mut Lab<'_>, protocol: Protocol) -> Result<Target, Failure> {
    require_module()?;
    let ends = [End::new("a", protocol, &[])?, End::new("b", protocol, &["a"])?];
    for (index, end) in ends.iter().enumerate() {
        let name = format!("drbd-{}-{index}", protocol.letter());
        let file = lab.filled_leg(index, &name)?;
        let leg = lab.loop_over(&file)?.display().to_string();
        end.make(lab, &leg)?;
    }
    ends[0].connect(lab, &ends[1], protocol)?;
    ends[1].connect(lab, &ends[0], protocol)?;
    ends[0].await_connected(lab)?;
    // Both hold unlike data: what is filled below makes them the same without a resync.
    lab.helper(["drbdsetup", "new-current-uuid", "--clear-bitmap", &ends[0].minor])?;
    lab.helper(["drbdsetup", "primary", &ends[0].minor])?;
    let device = Path::new("/dev").join(format!("drbd{}", ends[0].minor));
    let reach = Reach::File(device.clone());
    lab.fill(&reach, lab.size, None)?;
    let name = format!("DRBD, 2 copies, protocol {}", protocol.letter());
    let mut configuration = configuration(&name, Family::ReplicatedPeer, 2, "DRBD device");
    // A and B answer before the other end's disk has anything; what C does is not documented.
    configuration.durable_flush = match protocol {
        Protocol::A | Protocol::B => Durable::No,
        Protocol::C => Durable::Unknown,
    };
    configuration.note = "Both ends are in this kernel, on loop devices, over loopback TCP; its work is \
                          done by kernel threads, whose processor time counts as the machine's only."
        .to_owned();
    Ok(Target::kernel_device(configuration, device))
}

/// That this kernel has DRBD, and the version of it that the commands here are for.
fn require_module() -> Result<(), Failure> {
    drop(process::quiet(["modprobe", "drbd"]));
    let version = fs::read_to_string("/sys/module/drbd/version").unwrap_or_default();
    match version.trim() {
        known if known.starts_with("8.4") => Ok(()),
        "" => Err(Failure::new("this kernel has no DRBD", "there is no module of that name")
            .advise("install a kernel that has it, or measure DRBD elsewhere with the commands of `bench drbd --scale 1 --dry-run` and lay their output beside this with `bench import`")),
        other => Err(Failure::new(
            "DRBD is not set up here",
            format!("its version is {other}; only 8.4, the one in Linux itself, can be"),
        )
        .advise("measure it with the commands of `bench drbd --scale 1 --dry-run`, and lay their output beside this with `bench import`")),
    }
}

impl End {
    /// Names that nobody uses: those of `taken` belong to the other end.
    fn new(tag: &str, protocol: Protocol, taken: &[&str]) -> Result<Self, Failure> {
        let resource = format!("ekbench{}{}{tag}", std::process::id(), protocol.letter());
        let free: Vec<u32> = (0..255)
            .filter(|minor| !Path::new(&format!("/sys/block/drbd{minor}")).exists())
            .collect();
        let minor = free
            .get(taken.len())
            .ok_or_else(|| Failure::new("there is no free DRBD device", "all 255 are in use"))?;
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .map_err(|error| Failure::new("there is no free port on 127.0.0.1", error))?
            .port();
        Ok(Self { resource, minor: minor.to_string(), address: format!("ipv4:127.0.0.1:{port}") })
    }

    /// Metadata, device and disk.
    fn make(&self, lab: &mut Lab<'_>, leg: &str) -> Result<(), Failure> {
        let (resource, minor) = (self.resource.as_str(), self.minor.as_str());
        lab.helper(["drbdmeta", "--force", minor, "v08", leg, "internal", "create-md"])?;
        let down = ["drbdsetup", "down", resource].map(str::to_owned).to_vec();
        // It is refused while the resource is being connected: "In transient state, retry after
        // next state change".
        let again_on = Some("transient state".to_owned());
        lab.scratch.note(Undo::Run { words: down, again_on })?;
        lab.helper(["drbdsetup", "new-resource", resource])?;
        lab.helper(["drbdsetup", "new-minor", resource, minor, "0"])?;
        lab.helper(["drbdsetup", "attach", minor, leg, leg, "internal"])?;
        Ok(())
    }

    fn connect(&self, lab: &mut Lab<'_>, peer: &Self, protocol: Protocol) -> Result<(), Failure> {
        let protocol = format!("--protocol={}", protocol.letter());
        // The buffers of the published report.
        let words = [
            "connect",
            &self.resource,
            &self.address,
            &peer.address,
            &protocol,
            "--max-buffers=8000",
            "--max-epoch-size=8000",
        ];
        lab.helper(["drbdsetup"].iter().chain(&words))?;
        Ok(())
    }

    fn await_connected(&self, lab: &Lab<'_>) -> Result<(), Failure> {
        let head = format!("{}: cs:Connected ", self.minor);
        lab.interrupt.poll("both ends of DRBD are connected", MEETING, || {
            let table = fs::read_to_string("/proc/drbd").unwrap_or_default();
            Ok(table.lines().any(|line| line.trim_start().starts_with(&head)).then_some(()))
        })
    }
}
