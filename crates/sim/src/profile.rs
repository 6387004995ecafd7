//! What one seed simulates: the cluster, the load and the faults, each drawn apart (swarm testing:
//! kinds of faults that are absent altogether let rare combinations of the others appear).

use std::time::Duration;

use evenkeel_core::settings::{LagSettings, Pauses, REGION, ReturnSettings};
use evenkeel_core::{
    Bitmap, Geometry, IntentLayout, Lease, NoCoordinatorPolicy, NoDataPolicy, Protocol, Settings,
};

use crate::payload::SECTOR;
use crate::queue::{MICROSECOND, MILLISECOND, Time};
use crate::random::{Random, spread};

mod later;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A link is cut; what is in flight is lost. Both ends learn of it, each in its time.
    CutLink,
    /// Nothing gets from one node to another, in this direction.
    OneWay,
    /// One node reaches no other.
    Isolate,
    /// A node's process is killed, and started again later.
    KillNode,
    /// A replica is closed and opened again.
    RestartReplica,
    /// A machine loses power.
    PowerCut,
    /// All machines lose power.
    Blackout,
    /// A node's process stands still for a while; its kernel does not.
    Pause,
    /// The machine of a primary is suspended while the volume is attached elsewhere.
    Suspend,
    /// The volume is attached elsewhere while it is attached.
    Takeover,
    /// A disk fails some of its actions for a while.
    DiskErrors,
    /// A disk holds something else than was written: bits rot, a write is lost or lands elsewhere.
    Damage,
    /// A disk is copied, or the copy that was made of it is put back in its place.
    StaleClone,
    /// A disk has no space left for a while.
    DiskFull,
    /// A disk is slow for a while, or stands still.
    SlowDisk,
    /// The coordinator does not answer for a while.
    CoordinatorAway,
    /// An operator fails a replica, brings one back, or takes one out of the volume.
    Operator,
    /// An operator adds, replaces or takes out a replica, gives a mirror a spare, or changes the
    /// protocol.
    Members,
    /// An operator changes the size of the intent logs.
    Layout,
    /// An operator has replicas grant less, or more; the node of a primary is cut off for several
    /// leases.
    Lease,
    /// A copy of a node runs on another machine, and one of the two is cut off.
    CloneNode,
    /// The volume is stopped, or the coordinator's database is lost or restored from an old backup;
    /// then it is put together from its disks.
    Assembly,
    /// Hosts register with the volume, reserve it, and take that from each other.
    Reserve,
    /// An operator has everything compared at one of the primaries, and perhaps repaired.
    Verify,
    /// An operator detaches the volume.
    Detach,
    /// Connections can't be made for a while.
    NoConnections,
    /// The network is slow for a while.
    SlowNetwork,
}

/// Kinds that only some seeds have, each drawn apart.
const RARE: [Fault; 10] = [
    Fault::Damage,
    Fault::StaleClone,
    Fault::Members,
    Fault::Layout,
    Fault::Lease,
    Fault::CloneNode,
    Fault::Assembly,
    Fault::Reserve,
    Fault::Verify,
    Fault::Suspend,
];

impl Fault {
    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        FAULTS.iter().map(|(fault, _)| *fault).chain(RARE)
    }
}

/// Of 1,000 seeds, in how many W7 is judged at every step.
const EVERY_STEP: u64 = 10;

/// Of 1,000 seeds, in how many the volume is attached again while a primary begins.
const REATTACHES: u64 = 60;

/// Every kind, with the weight that it has when it is present.
const FAULTS: [(Fault, u64); 17] = [
    (Fault::CutLink, 10),
    (Fault::OneWay, 6),
    (Fault::Isolate, 6),
    (Fault::KillNode, 8),
    (Fault::RestartReplica, 8),
    (Fault::PowerCut, 8),
    (Fault::Blackout, 3),
    (Fault::Pause, 6),
    (Fault::Takeover, 5),
    (Fault::DiskErrors, 6),
    (Fault::DiskFull, 3),
    (Fault::SlowDisk, 5),
    (Fault::CoordinatorAway, 5),
    (Fault::Operator, 8),
    (Fault::Detach, 3),
    (Fault::NoConnections, 3),
    (Fault::SlowNetwork, 3),
];

/// Everything that one seed draws before it starts.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Number of nodes.
    pub nodes: usize,
    /// For each mirror, on which nodes its replicas lie.
    pub placement: Vec<Vec<usize>>,
    /// When a write is acknowledged.
    pub protocol: Protocol,
    /// Size and layout of the volume.
    pub geometry: Geometry,
    /// Times and limits of the core, for all that has to have some length.
    pub settings: Settings,
    /// Those of each node, by which its primaries and replicas work.
    pub own_settings: Vec<Settings>,
    /// The lease with which the volume is made.
    pub lease: Lease,
    /// What requests do while the coordinator is away.
    pub no_coordinator: NoCoordinatorPolicy,
    /// On how many nodes the volume is to be attached at once.
    pub primaries: usize,
    /// How many requests each client has under way.
    pub depth: usize,
    /// How many requests all clients make while there are faults.
    pub operations: u64,
    /// Mean pause of a client between an answer and its next request.
    pub think: Time,
    /// Weights of reads, writes, zeroings, flushes and map requests.
    pub mix: [u64; 5],
    /// How many of a thousand requests compare and write instead.
    pub compares: u64,
    /// At how many of a thousand requests a client gives others up.
    pub cancels: u64,
    /// Of 1,000 writes and zeroings, how many must be durable when acknowledged (FUA).
    pub durable: u64,
    /// Longest request, in blocks.
    pub longest: u32,
    /// Least and mean time that a message takes.
    pub network: (Time, Time),
    /// Mean time that a disk action takes.
    pub disk: Time,
    /// Mean time that the coordinator takes.
    pub coordinator: Time,
    /// Of 1,000 calls to the coordinator, how many lose their question or their answer.
    pub coordinator_loss: u64,
    /// On which node the coordinator lives; `None`: on a machine apart that is always reachable.
    pub coordinator_node: Option<usize>,
    /// Of 1,000 attempts to connect, how many fail.
    pub connect_failures: u64,
    /// Of 1,000,000 disk actions, how many fail in passing.
    pub disk_errors: u64,
    /// Whether a start forgets checksums of blocks, as the engine's does.
    pub forgets_checksums: bool,
    /// Whether what a failed flush covered is lost although a later one succeeds.
    pub failed_flushes_lose: bool,
    /// Of 1,000 sectors that a power cut takes back, how many it tears: they can't be read.
    pub torn: u64,
    /// Whether saves of tables of open regions fail now and then, and power is cut while they are
    /// repeated.
    pub tears_tables: bool,
    /// Whether the device flush before a save of a table may fail, and lose what it covered.
    pub tables_lose: bool,
    /// Whether the volume is detached now and then while a primary attaches it, and attached again
    /// at once.
    pub reattaches: bool,
    /// Which replicas have disks that make a single write durable, by bits.
    fua: u64,
    /// Whether W7 is judged at every step, not only when a fault strikes: that takes far longer.
    pub judges_every_step: bool,
    /// Kinds of faults with their weights.
    pub faults: Vec<(Fault, u64)>,
    /// Mean time between two faults.
    pub fault_pause: Time,
    /// Whether operators take losses: go on without in-sync replicas that they do not find, and
    /// choose one of two branches that have diverged.
    pub forces: bool,
    /// How far each node's clock is from the true rate, in parts per million.
    pub drift: Vec<i64>,
    /// The size of the replicas' intent logs.
    pub layout: IntentLayout,
    /// Whether they are kept at first.
    pub bitmap: Bitmap,
}

impl Profile {
    /// Whether rebuilds count ahead what they are to copy; if it is changed, the seed has another
    /// story.
    #[must_use]
    pub fn counting(mut self, counts: bool) -> Self {
        self.settings.count_ahead = counts;
        self.own_settings.iter_mut().for_each(|settings| settings.count_ahead = counts);
        self
    }

    /// Whether a start forgets checksums; if it is changed, the seed has another story.
    #[must_use]
    pub const fn forgetting(mut self, forgets: bool) -> Self {
        self.forgets_checksums = forgets;
        self
    }

    /// Whether disks fail actions.
    #[must_use]
    pub fn disks_fail(&self) -> bool {
        let is_failure = |fault: Fault| matches!(fault, Fault::DiskErrors | Fault::DiskFull);
        self.disk_errors > 0 || self.faults.iter().any(|(fault, _)| is_failure(*fault))
    }

    /// Clients ask for so much at least; if it is changed, the seed has another story.
    #[must_use]
    pub fn asking(mut self, least: u64) -> Self {
        self.operations = self.operations.max(least);
        self
    }

    /// What this seed simulates. What was added later is drawn apart, so that seeds without it keep
    /// their story.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let r = &mut random;
        let nodes = r.between(1, 5) as usize;
        let placement = placement(r, nodes);
        let geometry = geometry(r, placement.len());
        let mut apart = Random::new(seed ^ 0x6d65_6d62);
        let mut settings = settings(r);
        settings.spare_takes_over_after = settings.deadline * apart.between(1, 8) as u32;
        settings.count_ahead = Random::new(seed ^ 0x636f_756e).chance(500);
        let first_lease = lease(&settings);
        let lease = first_lease.time().as_nanos() as Time;
        let drift_limit = first_lease.margin().as_nanos() as i64 * 400_000 / lease as i64;
        let mut faults = faults(r);
        let no_coordinator = no_coordinator(seed, &settings);
        let own_settings = later::own_settings(seed, settings, nodes, &mut faults);
        if !faults.is_empty() && apart.chance(400) {
            faults.push((Fault::Members, apart.between(4, 20)));
        }
        let mut forgetting = Random::new(seed ^ 0x7375_6d73);
        let forgets_checksums = !faults.is_empty() && forgetting.chance(400);
        let forces = later::faults(seed, &placement, &mut faults);
        let mut losses = Random::new(seed ^ 0x6c6f_7373);
        let think = r.magnitude(MICROSECOND, lease / 50);
        let longest = r.between(1, 8) as u32;
        let layout = later::layout(seed, layout(r, geometry, longest));
        let primaries = later::primaries(seed, usize::from(layout.slots).min(nodes), &mut faults);
        let protocol = r.pick(&[Protocol::A, Protocol::B, Protocol::C, Protocol::C]);
        Self {
            nodes,
            // Several primaries by no other one.
            protocol: if layout.slots > 1 { Protocol::C } else { protocol },
            primaries,
            geometry,
            settings,
            own_settings,
            lease: first_lease,
            no_coordinator,
            depth: if r.chance(300) { 1 } else { r.magnitude(2, 32) as usize },
            operations: r.between(200, 1200) * 3 / 2,
            think,
            compares: later::compares(seed, primaries > 1),
            cancels: later::cancels(seed),
            mix: [r.between(5, 50), r.between(5, 50), r.below(8), r.below(12), r.below(4)],
            durable: r.pick(&[0, 0, 30, 300]),
            longest,
            layout,
            bitmap: r.pick(&[Bitmap::None, Bitmap::Internal, Bitmap::Internal]),
            network: (r.magnitude(5, 200) * MICROSECOND, r.magnitude(10, 2000) * MICROSECOND),
            disk: r.magnitude(20, 2000) * MICROSECOND,
            coordinator: r.magnitude(1, 50) * MILLISECOND / 4,
            coordinator_loss: r.pick(&[0, 0, 20, 200]),
            coordinator_node: r.chance(600).then(|| r.index(nodes)),
            connect_failures: r.pick(&[0, 0, 50, 300]),
            disk_errors: r.pick(&[0, 0, 0, 100, 2000]),
            forgets_checksums,
            failed_flushes_lose: losses.chance(400),
            torn: losses.pick(&[0, 0, 30, 300]),
            // By this number no seed is struck that was kept for another reason.
            tables_lose: !faults.is_empty() && Random::new(seed ^ 0x6c6f_7374).chance(60),
            tears_tables: !faults.is_empty() && Random::new(seed ^ 0x7461_7167).chance(60),
            // By this number no seed is struck that was kept for another reason.
            reattaches: !faults.is_empty()
                && Random::new(seed ^ 0xc04b_7265_6174).chance(REATTACHES),
            fua: fua(seed),
            judges_every_step: Random::new(seed ^ 0x7374_6570).chance(EVERY_STEP),
            faults,
            forces,
            fault_pause: r.magnitude(lease / 20, lease * 2),
            drift: (0..nodes).map(|_| drift(r, drift_limit)).collect(),
            placement,
        }
    }

    /// Whether the disk of a replica makes a single write durable.
    #[must_use]
    pub fn has_fua(&self, replica: usize) -> bool {
        self.fua >> (replica % 64) & 1 == 1
    }

    /// The cluster in a line.
    #[must_use]
    pub fn summary(&self) -> String {
        let mirrors = self.placement.iter().map(|nodes| format!("{nodes:?}"));
        format!(
            "{} nodes, mirrors on nodes {}, protocol {:?}, {} sectors, attached on {}\n",
            self.nodes,
            mirrors.collect::<Vec<_>>().join(" "),
            self.protocol,
            self.sectors(),
            self.primaries,
        )
    }

    /// Sectors of the volume when it is made.
    #[must_use]
    pub fn sectors(&self) -> u32 {
        (self.geometry.size / u64::from(SECTOR)) as u32
    }

    /// Sectors that it may grow to.
    #[must_use]
    pub fn max_sectors(&self) -> u32 {
        self.sectors() * 2 + 64 * self.geometry.block_size / SECTOR
    }

    /// A time after which every wait that has a bound must have ended several times over. To evict
    /// a silent primary takes three leases, and who joins may have to wait for one eviction after
    /// another.
    #[must_use]
    pub fn patience(&self) -> Time {
        let longest = self.own_settings.iter().map(waits).max().unwrap_or_default();
        let lease = self.lease.time() * if self.changes_lease() { LONGER as u32 } else { 1 };
        (longest + lease * 10).as_nanos() as Time
    }

    /// Whether operators change the lease.
    #[must_use]
    pub fn changes_lease(&self) -> bool {
        self.faults.iter().any(|(fault, _)| *fault == Fault::Lease)
    }

    /// The first lease, changed by a factor: so its margin goes on to cover the drift.
    #[must_use]
    pub fn changed_lease(&self, r: &mut Random) -> Lease {
        let factor = r.magnitude(PER_CENT / LONGER, PER_CENT * LONGER) as u32;
        let change = |time: Duration| time * factor / PER_CENT as u32;
        let steps = change(self.lease.time()).as_millis() as u32 / 10 + 1;
        let margin = change(self.lease.margin()).as_millis() as u64 + 10;
        let lease = Lease::new(Duration::from_millis(10) * steps, Duration::from_millis(margin));
        lease.unwrap_or(self.lease)
    }
}

/// How many times longer or shorter a lease becomes at most.
const LONGER: u64 = 4;
const PER_CENT: u64 = 100;

/// All waits of a node that have a bound, several times over.
fn waits(s: &Settings) -> Duration {
    let no_data = match s.no_data {
        NoDataPolicy::Suspend(time) => time,
        NoDataPolicy::Error => Duration::ZERO,
    };
    s.deadline * 8
        + s.reconnect_grace * 4
        + s.retry_pause.longest * 8
        + s.returns.pause.longest * 2
        + no_data
        + s.coordinator_patience * 2
        + s.longest_hold * 8
}

/// Mostly a limit, so that a run sees requests fail; else none, as shipped.
fn no_coordinator(seed: u64, settings: &Settings) -> NoCoordinatorPolicy {
    let is_limited = Random::new(seed ^ 0x6e6f_636f).chance(700);
    let limit = settings.coordinator_patience.as_millis().max(1) as u32;
    NoCoordinatorPolicy::from_milliseconds(if is_limited { limit } else { 0 })
}

/// The shipped lease, shrunk by the factor by which the settings are, with a margin for clocks that
/// drift far.
fn lease(settings: &Settings) -> Lease {
    let shipped = Settings::default().deadline.as_millis() as u64;
    let percent = settings.deadline.as_millis() as u64 * PER_CENT / shipped;
    let shrink = |time: Duration| time * percent as u32 / PER_CENT as u32;
    let lease = Lease::new(shrink(Lease::default().time()), shrink(Duration::from_secs(1)));
    lease.unwrap_or_default()
}

/// The times of one node among others that have been configured otherwise.
fn vary(r: &mut Random, settings: Settings) -> Settings {
    let mut vary = |time: Duration| time * r.between(50, 200) as u32 / PER_CENT as u32;
    Settings {
        deadline: vary(settings.deadline),
        reconnect_grace: vary(settings.reconnect_grace),
        coordinator_patience: vary(settings.coordinator_patience),
        longest_hold: vary(settings.longest_hold),
        stabilize_after: vary(settings.stabilize_after),
        spare_takes_over_after: vary(settings.spare_takes_over_after),
        ..settings
    }
}

fn placement(r: &mut Random, nodes: usize) -> Vec<Vec<usize>> {
    let mirrors = r.pick(&[1, 1, 1, 2, 3]);
    let many = r.chance(20);
    (0..mirrors)
        .map(|_| {
            let replicas = if many { r.between(5, 16) } else { r.between(1, 4) };
            let first = r.index(nodes);
            // Mostly on nodes apart, sometimes several on one.
            let crowded = r.chance(100);
            (0..replicas as usize)
                .map(|n| if crowded { r.index(nodes) } else { (first + n) % nodes })
                .collect()
        })
        .collect()
}

fn geometry(r: &mut Random, mirrors: usize) -> Geometry {
    let block_size = r.pick(&[512, 512, 4096]);
    let chunk = r.pick(&[4096, 8192, 1 << 20]);
    // Small, so that requests overlap often; sometimes longer than what a rebuild copies at once.
    let size = match r.below(8) {
        0 => u64::from(REGION) * mirrors as u64 * 2 + u64::from(block_size) * r.between(1, 20),
        1 | 2 => u64::from(block_size) * r.between(100, 1000),
        _ => u64::from(block_size) * r.between(1, 40),
    };
    Geometry { size, block_size, chunk }
}

/// An intent log that fills up often, or never, or is one region.
fn layout(r: &mut Random, geometry: Geometry, longest: u32) -> IntentLayout {
    let region = r.pick(&[4096, 4096, 8192, 65536, 1 << 40]);
    let request = u64::from(longest) * u64::from(geometry.block_size);
    let least = request.div_ceil(region) + 1;
    IntentLayout { region, places: (least + r.pick(&[0, 1, 3, 20, 1000])) as u16, slots: 1 }
}

/// The shipped times, all shrunk by one factor so that a run has many of them, and some changed.
fn settings(r: &mut Random) -> Settings {
    let base = Settings::default();
    let percent = r.magnitude(4, 100) as u32;
    let shrink = |time: Duration| time * percent / 100;
    let shrink_pauses = |pauses: Pauses| Pauses::new(shrink(pauses.first), shrink(pauses.longest));
    let no_data = match r.below(4) {
        0 => NoDataPolicy::Error,
        1 => NoDataPolicy::Suspend(shrink(base.deadline)),
        _ => NoDataPolicy::Suspend(shrink(Lease::default().time() * 6)),
    };
    Settings {
        deadline: shrink(base.deadline),
        reconnect_grace: shrink(base.reconnect_grace),
        retry_pause: shrink_pauses(base.retry_pause),
        no_data,
        coordinator_patience: shrink(base.coordinator_patience) / r.between(1, 8) as u32,
        longest_hold: shrink(base.longest_hold),
        concurrent_copies: r.between(1, 4) as usize,
        // Drawn apart.
        count_ahead: base.count_ahead,
        rebuild_share: r.between(20, 100) as u32,
        stabilize_after: shrink(base.stabilize_after) / r.between(1, 8) as u32,
        lag: LagSettings {
            window: shrink(base.lag.window) / r.between(2, 30) as u32,
            times: r.pick(&[0, 2, 2, 2]),
            least: shrink(base.lag.least) / r.between(1, 100) as u32,
            pause: shrink_pauses(base.retry_pause),
        },
        returns: ReturnSettings {
            within: shrink(base.returns.within),
            pause: Pauses::new(
                shrink(base.returns.pause.first),
                shrink(base.returns.pause.first * 2),
            ),
        },
        spare_takes_over_after: shrink(base.deadline),
    }
}

fn faults(r: &mut Random) -> Vec<(Fault, u64)> {
    if r.chance(30) {
        return Vec::new();
    }
    let presence = r.pick(&[150, 300, 500, 900]);
    let mut present: Vec<_> =
        FAULTS.iter().filter(|_| r.chance(presence)).map(|(fault, w)| (*fault, *w)).collect();
    if present.is_empty() {
        present.push(FAULTS[r.index(FAULTS.len())]);
    }
    present
}

fn drift(r: &mut Random, limit: i64) -> i64 {
    if r.chance(500) { 0 } else { r.between(0, 2 * limit as u64) as i64 - limit }
}

/// In one seed of ten some disks, or all, make a single write durable.
fn fua(seed: u64) -> u64 {
    // By this number no seed is struck that was kept for another reason.
    let drawn = spread(seed ^ 0x0066_7561_000c_cb90);
    match drawn % 20 {
        0 => u64::MAX,
        10 => 0x5555_5555_5555_5555,
        _ => 0,
    }
}
