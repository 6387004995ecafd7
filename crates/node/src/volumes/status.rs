//! All that a person wants to know of a volume.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::disk_errors::DiskErrors;
use super::found_wrong::Findings;
use super::lookup::{Found, called, decode, find, unexpected};
use crate::clock::{core_now, unix_seconds};
use crate::conversions;
use crate::coordinator::{Answer, NodeLiveness, Request, StoredVolume, VolumeRecord};
use crate::volumes::Node;
use crate::volumes::attachment::{exports, wanted};
use crate::volumes::{Attached, messages, verdict};
use condition::{Account, ReplicaFacts, Wait, conclude, together};
use evenkeel_api::types::{
    LostCopy, MirrorStatus, NoCoordinator, NoData, PrimaryStatus, Rebuild, RebuildRate,
    ReplicaReach, ReplicaStatus, StatusSource, Suspended, Until, VERSION, Verify, VolumeBitmap,
    VolumeHealth, VolumeQuery, VolumeState, VolumeStatus, VolumesAnswer, WaitsFor,
};
use evenkeel_api::{ApiError, ErrorCode};
use evenkeel_core::message::{RebuildProgress, RebuildWait};
use evenkeel_core::primary::PrimaryStatus as Primary;
use evenkeel_core::{
    Bitmap, MirrorView, NoCoordinatorPolicy, NodeId, RebuildLimit, ReplicaId, ReplicaRecord, View,
};
use reports::Reports;

pub mod condition;
mod facts;
mod known;
mod primaries;
pub(crate) mod reports;
pub(super) mod reserved;
pub mod risks;
pub(super) mod unserved;
mod waits;

/// The longest that a question for the status waits.
const MAX_WAIT: u64 = 60;
/// How long the coordinator has to say whether copies are missing still.
const LOSSES: Duration = Duration::from_secs(2);
/// The pause between two looks while waiting.
const LOOK: Duration = Duration::from_millis(100);

const fn bitmap(view: &View) -> VolumeBitmap {
    match view.bitmap {
        _ if view.is_shared() => VolumeBitmap::Clustered,
        Bitmap::None => VolumeBitmap::None,
        Bitmap::Internal => VolumeBitmap::Internal,
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

const fn rebuild_rate(limit: RebuildLimit) -> RebuildRate {
    match limit {
        RebuildLimit::None => RebuildRate::None,
        RebuildLimit::BytesPerSecond(bytes_per_second) => RebuildRate::Rate { bytes_per_second },
        RebuildLimit::Paused => RebuildRate::Paused,
    }
}

fn no_coordinator(policy: NoCoordinatorPolicy) -> NoCoordinator {
    policy.limit().map_or(NoCoordinator::Suspend, |limit| NoCoordinator::Fail {
        seconds: limit.as_secs().max(1),
    })
}

/// What requests do without data: as the view says since it was changed, or else as the volume was
/// made.
pub(in crate::volumes) fn no_data(record: &VolumeRecord, view: &View) -> NoData {
    view.no_data.map_or_else(
        || conversions::no_data(record.no_data),
        |milliseconds| match milliseconds {
            0 => NoData::Error,
            _ => NoData::Suspend { seconds: u64::from(milliseconds).div_ceil(1000) },
        },
    )
}

/// All volumes. Without the coordinator: those that this node knows of by itself.
///
/// # Errors
/// If this node belongs to no cluster.
pub async fn list(node: &Arc<Node>) -> Result<VolumesAnswer, ApiError> {
    let what = "cannot list the volumes";
    let mut warnings = Vec::new();
    let mut complete = true;
    let mut volumes;
    // Whoever has waited for the coordinator in vain is not to wait for the others after that.
    let known = (!node.coordinator.status().reachable).then(|| {
        let node = node.clone();
        tokio::spawn(async move { known::all(&node).await })
    });
    match node.coordinator.ask(what, Request::Volumes).await {
        Ok(Answer::Volumes(stored)) => {
            node.cluster.nodes().await;
            warnings.extend(node.cluster.isolation());
            volumes = of_all(node, what, stored).await?;
        }
        Ok(other) => return Err(unexpected(what, &other)),
        Err(e) if e.code == ErrorCode::NoCoordinator => {
            warnings.push(format!(
                "{}: only volumes that are attached on this node or have a replica here are listed",
                e.why
            ));
            complete = false;
            volumes = match known {
                Some(known) => known.await.unwrap_or_else(|error| {
                    tracing::error!(%error, "volumes are missing in the list");
                    Vec::new()
                }),
                None => known::all(node).await,
            };
        }
        Err(e) => return Err(e),
    }
    volumes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(VolumesAnswer { version: VERSION, volumes, complete, warnings })
}

/// The status of each: what no primary tells is asked of each node once for all volumes.
async fn of_all(
    node: &Arc<Node>,
    what: &str,
    stored: Vec<StoredVolume>,
) -> Result<Vec<VolumeStatus>, ApiError> {
    let mut asked = Vec::new();
    for stored in stored {
        let (node, found) = (node.clone(), decode(what, stored)?);
        asked.push(tokio::spawn(async move {
            let reported = primaries::report(&node, &found, false).await;
            (found, reported)
        }));
    }
    let (mut volumes, mut unreported) = (Vec::new(), Vec::new());
    for reported in asked {
        match reported.await {
            Ok((_, Some(status))) => volumes.push(status),
            Ok((found, None)) => unreported.push(found),
            Err(error) => tracing::error!(%error, "a volume is missing in the list"),
        }
    }
    let reports = reports::ask(node, unreported.iter().map(|found| &found.view), false).await;
    volumes.extend(unreported.iter().map(|f| of_view(node, &f.stored, &f.view, &reports, None)));
    Ok(volumes)
}

/// One volume, when what is waited for has come or the time is up.
///
/// # Errors
/// If there is no such volume, or nobody knows of it.
pub async fn wait(
    node: &Arc<Node>,
    volume: &str,
    query: &VolumeQuery,
    forwarded: bool,
) -> Result<VolumeStatus, ApiError> {
    let seconds = query.wait.unwrap_or(0);
    if seconds > MAX_WAIT {
        let what = format!("cannot wait for volume {volume}");
        let why = format!("wait is {seconds} s");
        let advice = format!("Choose 0 to {MAX_WAIT}, and ask again");
        return Err(ApiError::new(ErrorCode::BadRequest, what, why, advice));
    }
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut pause = LOOK;
    loop {
        let status = one(node, volume, forwarded).await?;
        let reached = query.until.is_none_or(|until| holds(&status, until));
        if reached || Instant::now() + pause > deadline {
            return Ok(status);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

fn holds(status: &VolumeStatus, until: Until) -> bool {
    match until {
        Until::Serving => status.state == VolumeState::Serving,
        Until::InSync => status.is_in_sync(),
        Until::Detached => status.state == VolumeState::Detached,
    }
}

/// One volume as it is now.
///
/// # Errors
/// If there is no such volume, or nobody knows of it.
pub async fn one(
    node: &Arc<Node>,
    volume: &str,
    forwarded: bool,
) -> Result<VolumeStatus, ApiError> {
    if let Some(attached) = node.volumes.by_name(volume)
        && let Some(status) = of_attached(node, &attached).await
    {
        return Ok(match forwarded {
            true => status,
            false => primaries::with_others(node, status).await,
        });
    }
    let what = format!("cannot tell the status of {}", called(volume));
    match find(node, &what, volume).await {
        Ok(found) => Ok(of_found(node, &found, forwarded).await),
        // Whoever asks for another node has looked at its own replicas.
        Err(e) if e.code == ErrorCode::NoCoordinator && !forwarded => {
            match known::one(node, volume).await {
                Some(status) => Ok(status),
                None => known::elsewhere(node, volume, e).await,
            }
        }
        Err(e) => Err(e),
    }
}

/// From the primaries, here and elsewhere; else from the coordinator's view and what the replicas'
/// nodes answer.
async fn of_found(node: &Arc<Node>, found: &Found, forwarded: bool) -> VolumeStatus {
    if let Some(status) = primaries::report(node, found, forwarded).await {
        return status;
    }
    let reports = reports::ask(node, [&found.view], forwarded).await;
    let is_detached = found.view.primaries.is_empty();
    let last = match is_detached && !forwarded {
        true => primaries::reported_where_used(node, &found.stored.record).await,
        false => None,
    };
    of_view(node, &found.stored, &found.view, &reports, last)
}

/// From a view that a replica has adopted, as an account of one; it may have been replaced since.
pub(super) fn of_adopted(
    node: &Node,
    record: &VolumeRecord,
    view: &View,
    account: Account,
    reports: &Reports,
) -> VolumeStatus {
    let mut status = base(node, record, view);
    status.source = StatusSource::Replica;
    status.wanted_on = wanted::on(node, record, view);
    conclude(&mut status, &account, &facts::of_view(node, record, view, reports));
    status
}

/// From the coordinator's view, and what the nodes of its replicas have answered. `last`: what the
/// node says on which it was attached last, which has counted what failed there.
fn of_view(
    node: &Node,
    stored: &StoredVolume,
    view: &View,
    reports: &Reports,
    last: Option<VolumeStatus>,
) -> VolumeStatus {
    let record = &stored.record;
    let mut status = base(node, record, view);
    let used_on = record.used_on.as_deref().and_then(|id| id.parse::<NodeId>().ok());
    if used_on.is_some_and(|used_on| used_on != node.identity.node) {
        together::used_elsewhere(&mut status, last);
    }
    status.wanted_on = wanted::on(node, record, view);
    let account = match status.primaries.first() {
        None if record.stopped => Account::Stopped(record.name.clone()),
        None => Account::Detached,
        Some(primary) if primary.here => {
            Account::Forgotten { node: primary.node.name.clone(), name: record.name.clone() }
        }
        Some(primary) => Account::Silent {
            node: primary.node.name.clone(),
            alive: primary.alive,
            reporter: node.identity.name.clone(),
        },
    };
    conclude(&mut status, &account, &facts::of_view(node, record, view, reports));
    condition::note_failures(&mut status, unix_seconds());
    status
}

fn primary(node: &Node, id: evenkeel_core::NodeId, slot: Option<u8>) -> PrimaryStatus {
    let here = id == node.identity.node;
    PrimaryStatus {
        node: node.coordinator.node_ref(id),
        slot,
        alive: here || node.coordinator.node(id).is_some_and(|member| member.may_live),
        here,
        device: None,
        device_kind: None,
        requests: None,
        unflushed: None,
    }
}

/// What a view says, before anything is concluded from it.
fn base(node: &Node, record: &VolumeRecord, view: &View) -> VolumeStatus {
    let mirrors = view.mirrors.iter().enumerate();
    let mirror = |(index, mirror): (usize, &MirrorView)| MirrorStatus {
        index,
        summary: String::new(),
        replicas: mirror
            .replicas
            .iter()
            .map(|replica| base_of_replica(node, record, replica))
            .collect(),
        lost: lost_of(record, index, mirror),
        other_nodes: others_than_of(node, record, index, mirror),
    };
    VolumeStatus {
        id: record.id.clone(),
        name: record.name.clone(),
        size: view.geometry.size,
        block_size: view.geometry.block_size,
        chunk: view.geometry.chunk,
        protocol: conversions::protocol(view.protocol),
        bitmap: bitmap(view),
        region_size: view.intents.region,
        open_regions: view.intents.places,
        slots: view.intents.slots,
        rebuild: rebuild_rate(view.rebuild_limit),
        lease_ms: milliseconds(view.lease.time()),
        lease_margin_ms: milliseconds(view.lease.margin()),
        no_data: no_data(record, view),
        no_coordinator: no_coordinator(view.no_coordinator),
        state: VolumeState::Unknown,
        not_given_up: false,
        health: VolumeHealth::Unknown,
        lacks_only_spares: false,
        reason: None,
        suspended: None,
        generation: view.generation.0,
        history: view.history.to_string(),
        source: StatusSource::Coordinator,
        as_of: None,
        wanted_on: Vec::new(),
        primaries: view.primaries.iter().map(|p| primary(node, p.id.node, Some(p.slot))).collect(),
        mirrors: mirrors.map(mirror).collect(),
        verify: verdict::kept(record).map(|verify| verdict::judge(verify, view)),
        reservation: reserved::reported(node, &view.reservations),
        rewritten: None,
        failed: node.volumes.failed.of(&node.identity.name, view.volume),
        failed_before: node.volumes.failed.earlier(&node.identity.name, view.volume),
        dead_devices: Vec::new(),
        exports: Vec::new(),
        events: Vec::new(),
    }
}

/// Whether copies are missing still is the coordinator's to say: another node may have heard that
/// there are to be fewer. Without it, what it said last holds.
async fn renew_losses(node: &Node, attached: &Attached) {
    if attached.record().lost.is_empty() || !node.coordinator.status().reachable {
        return;
    }
    let request = Request::Read { volume: attached.id.to_string() };
    if let Ok(Answer::Volume(now)) = node.coordinator.call_within(request, LOSSES).await {
        attached.renew(now.record);
    }
}

/// The copies that a mirror has lost; one that is noted, and was not taken out in the end, is
/// there.
fn lost_of(record: &VolumeRecord, mirror: usize, view: &MirrorView) -> Vec<LostCopy> {
    let is_there = |id: &str| view.replicas.iter().any(|replica| replica.id.to_string() == id);
    let lost = record.lost.iter().filter(|lost| lost.mirror == mirror && !is_there(&lost.id));
    lost.map(|lost| LostCopy { node: lost.node.clone(), at: lost.at }).collect()
}

/// How many nodes have no replica of a mirror that has lost copies: new ones may go there.
fn others_than_of(
    node: &Node,
    record: &VolumeRecord,
    index: usize,
    mirror: &MirrorView,
) -> Option<usize> {
    let lost = record.lost.iter().any(|lost| lost.mirror == index);
    let holders: Vec<_> = mirror.replicas.iter().map(|replica| replica.node.to_string()).collect();
    let is_other = |member: &&NodeLiveness| !holders.contains(&member.node.id);
    lost.then(|| node.coordinator.nodes().iter().filter(is_other).count())
}

fn base_of_replica(node: &Node, record: &VolumeRecord, replica: &ReplicaRecord) -> ReplicaStatus {
    let id = replica.id.to_string();
    ReplicaStatus {
        disk: record.replicas.iter().find(|p| p.id == id).map(|p| p.disk.clone()),
        id,
        node: node.coordinator.node_ref(replica.node),
        node_alive: None,
        state: conversions::state(replica.state),
        role: conversions::role(replica.role),
        instead_of: replica.role.instead_of().map(|other| other.to_string()),
        cause: None,
        reach: ReplicaReach::Unknown,
        reason: None,
        connected: None,
        outstanding: None,
        oldest_ms: None,
        retry_seconds: None,
        left_again: None,
        rebuild: None,
        failed_reads: None,
        unserved: None,
        lost: false,
        unwritable: false,
        disk_failed: DiskErrors::of(node, record).last(&replica.id.to_string()),
        found_wrong: Findings::of(node, record).of_replica(replica),
    }
}

/// From the primary on this node. `None`: it has just ended.
pub(super) async fn of_attached(node: &Arc<Node>, attached: &Attached) -> Option<VolumeStatus> {
    let volume = node.data.volume_status(attached.id).await?;
    let core = volume.primary?;
    let view = core.view.clone()?;
    renew_losses(node, attached).await;
    let mut status = base(node, &attached.record(), &view);
    status.source = StatusSource::Primary;
    status.wanted_on = wanted::beside(node, attached, &view).await;
    add_primary(node, attached, &core, &mut status);
    add_sessions(node, attached, &core, &view, &mut status);
    let (now, name) = (core_now(), &node.identity.name);
    let facts = facts::of_attached(node, attached, &core, &view);
    status.suspended = suspended(name, attached, &core, &view, &facts);
    let account = match excluded(name, &core, &view, &mut status) {
        Some(account) => account,
        None => account(attached, &core, &view, &facts, &mut status),
    };
    let own = core.verify.as_ref().map(|verify| verdict::reported(verify, now));
    status.verify = verdict::of_attached(node, attached, &view, own.clone()).await;
    add_findings(node, attached, &view, own.as_ref(), &mut status);
    conclude(&mut status, &account, &facts);
    status.rewritten = Some(core.rewritten);
    status.failed = node.volumes.failed.counted(name, attached.id, &volume.counters.failures);
    condition::note_failures(&mut status, unix_seconds());
    status.exports = exports::of(node, attached, &volume.frontends);
    status.events = attached.events();
    Some(status)
}

/// What the requests of a volume wait for that is attached here.
fn suspended(
    node: &str,
    attached: &Attached,
    core: &Primary,
    view: &View,
    facts: &[Vec<ReplicaFacts>],
) -> Option<Suspended> {
    let (awaited, since) = waits::of(attached, core.waiting, core.serving)?;
    let may_go_on = waits::may_go_on(core, view, awaited);
    let has_unserved = waits::has_unserved(facts, awaited);
    let now = core_now();
    let waited = now.since(since);
    let mut reported =
        waits::reported(attached, view, node, awaited, waited, may_go_on, has_unserved);
    reported.fails_in = waits::fails_in(&reported, core.waiting, now);
    Some(reported)
}

/// What the primary here says of itself if by what a replica says another one has taken the volume
/// over. Of a shared volume the others may be in the newer view, too.
fn excluded(node: &str, core: &Primary, view: &View, status: &mut VolumeStatus) -> Option<Account> {
    if !core.is_said_to_be_excluded || view.is_shared() {
        return None;
    }
    let why = messages::excluded(node);
    if let Some(wait) = &mut status.suspended
        && wait.waits_for == WaitsFor::Coordinator
    {
        wait.why.clone_from(&why);
    }
    Some(Account::Excluded(Wait { why, silent_mirror: None }))
}

/// What the primary here says of itself. While requests go on it waits for the coordinator alone,
/// and that is taken out of what they wait for.
fn account(
    attached: &Attached,
    core: &Primary,
    view: &View,
    facts: &[Vec<ReplicaFacts>],
    status: &mut VolumeStatus,
) -> Account {
    // Of a shared volume a request may wait for another primary, too, of which this one does not
    // know.
    let serves = core.serving && attached.is_shown() && !view.is_shared();
    let goes_on = serves && condition::goes_on(&status.mirrors, facts);
    let is_for_coordinator = |wait: &mut Suspended| wait.waits_for == WaitsFor::Coordinator;
    let awaited = status.suspended.take_if(|wait| goes_on && is_for_coordinator(wait));
    match (&status.suspended, attached.phase()) {
        (None, _) => awaited.map_or(Account::Serving, |wait| Account::Awaiting(wait.why)),
        (Some(wait), phase) if phase.is_opening() => Account::Starting(waits::wait(wait)),
        (Some(wait), _) if !attached.is_shown() => Account::Starting(waits::wait(wait)),
        (Some(wait), _) => Account::Suspended(waits::wait(wait)),
    }
}

/// Adds what the primary here knows of itself.
fn add_primary(node: &Node, attached: &Attached, core: &Primary, status: &mut VolumeStatus) {
    if !status.primaries.iter().any(|primary| primary.here) {
        status.primaries.push(primary(node, attached.primary.node, None));
    }
    let device = attached.device();
    for primary in status.primaries.iter_mut().filter(|primary| primary.here) {
        primary.device = device.as_ref().map(|d| d.path.display().to_string());
        primary.device_kind = device.as_ref().map(|d| d.kind.clone());
        primary.requests = Some(core.requests);
        primary.unflushed = Some(core.unflushed);
    }
}

/// Adds what a verify has found that the coordinator does not keep yet.
fn add_findings(
    node: &Node,
    attached: &Attached,
    view: &View,
    own: Option<&Verify>,
    status: &mut VolumeStatus,
) {
    // The primary here has verified nothing: what the coordinator keeps is told.
    let Some(own) = own else { return };
    let findings = Findings::of(node, &attached.record()).after(own);
    let replicas = status.mirrors.iter_mut().flat_map(|mirror| &mut mirror.replicas);
    for (replica, (_, record)) in replicas.zip(view.replicas()) {
        replica.found_wrong = findings.of_replica(record);
    }
}

/// Adds what the primary here knows of its sessions with replicas.
fn add_sessions(
    node: &Node,
    attached: &Attached,
    core: &Primary,
    view: &View,
    status: &mut VolumeStatus,
) {
    for replica in status.mirrors.iter_mut().flat_map(|mirror| &mut mirror.replicas) {
        let Some(peer) = core.replicas.iter().find(|p| p.replica.to_string() == replica.id) else {
            continue;
        };
        replica.outstanding = Some(peer.outstanding);
        replica.failed_reads = Some(peer.failed_reads);
        replica.retry_seconds = peer.retry_in.map(|pause| pause.as_millis().div_ceil(1000) as u64);
        replica.left_again = peer.left_again;
        replica.oldest_ms = peer.oldest.map(|age| age.as_millis() as u64);
        replica.rebuild =
            peer.rebuild.map(|progress| rebuild(node, attached, view, peer.replica, &progress));
    }
}

fn rebuild(
    node: &Node,
    attached: &Attached,
    view: &View,
    replica: ReplicaId,
    progress: &RebuildProgress,
) -> Rebuild {
    let mut rates = attached.rates();
    let rate = rates.entry(replica).or_default();
    let (done, total) = (progress.done, progress.total);
    let forecast = rate.note(Instant::now(), done, total, view.rebuild_limit);
    drop(rates);
    let source = progress.source.and_then(|id| view.replica(id));
    let waits_for = progress.waits_for.map(|wait| match wait {
        RebuildWait::Source => "a connection to its source".to_owned(),
        RebuildWait::Drain => "the primary, to drain a region".to_owned(),
        RebuildWait::Operator => format!(
            "an operator paused it, until `evenkeel volume rebuild {} --resume`",
            attached.name()
        ),
        RebuildWait::SourceMedium(offset) => format!("its source cannot read byte {offset}"),
    });
    Rebuild {
        done,
        total,
        counting: total == 0,
        copied: progress.copied,
        rate: forecast.rate.unwrap_or(0),
        measuring: forecast.rate.is_none(),
        eta_seconds: forecast.eta_seconds,
        source: progress.source.map(|id| id.to_string()),
        source_node: source.map(|(_, record)| node.coordinator.node_ref(record.node)),
        waits_for,
    }
}

/// Looks at every rebuild once a second, so that the rate is known when somebody asks.
pub async fn sample(node: Arc<Node>) {
    while node.pause(Duration::from_secs(1)).await {
        let attached = node.volumes.all();
        if attached.is_empty() {
            continue;
        }
        let mut rebuilds: HashMap<_, _> = node.data.rebuilds().await.into_iter().collect();
        for volume in attached {
            let rebuilds = rebuilds.remove(&volume.id).unwrap_or_default();
            let mut rates = volume.rates();
            rates.retain(|replica, _| rebuilds.iter().any(|(rebuilt, _)| rebuilt == replica));
            for (replica, progress) in rebuilds {
                rates.entry(replica).or_default().sample(Instant::now(), progress.done);
            }
        }
    }
}
