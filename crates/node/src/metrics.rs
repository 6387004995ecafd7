//! Metrics as Prometheus text. Everything is read when it is asked for; nothing is kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use evenkeel_core::primary::{PrimaryStatus, Waiting};
use evenkeel_engine::counters::{Failure, Histogram, KINDS, KindCounters};
use evenkeel_engine::{OpenReplicaStatus, VolumeStatus, WorkerStatus};

use crate::running::Running;
use crate::volumes::Node;
use crate::volumes::failures::{cause, seconds};
use crate::volumes::{Attached, Phase};

/// The content type of Prometheus' text format.
const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers with all metrics.
pub async fn text(State(running): State<Running>) -> Response {
    let node = &running.node;
    let mut page = Page::default();
    node_metrics(&running, &mut page);
    disk_metrics(node, &mut page).await;
    let survey = node.data.survey().await;
    worker_metrics(&survey, &mut page);
    let volumes: Vec<&VolumeStatus> = survey.iter().flat_map(|w| &w.volumes).collect();
    replica_metrics(&volumes, &mut page);
    let attached: Vec<_> = node.volumes.all();
    volume_metrics(&attached, &volumes, &mut page);
    let counted = |id| {
        let volume = volumes.iter().find(|it| it.volume == id && it.primary.is_some());
        volume.map(|volume| volume.counters.failures.iter().copied().collect()).unwrap_or_default()
    };
    failure_metrics(&mut page, &node.volumes.failed_since_start(counted));
    ([("content-type", TYPE)], page.0).into_response()
}

/// A page of metrics.
#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "# HELP evenkeel_{name} {help}\n# TYPE evenkeel_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "evenkeel_{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.line(name, &[], value);
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let mut sum = 0;
        for (index, count) in histogram.buckets.iter().enumerate() {
            sum += count;
            let bound = Histogram::bound(index);
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".into() };
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            self.line(&format!("{name}_bucket"), &labels, sum);
        }
        self.line(&format!("{name}_sum"), labels, histogram.sum as f64 / 1e9);
        self.line(&format!("{name}_count"), labels, histogram.count());
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn node_metrics(running: &Running, page: &mut Page) {
    let node = &running.node;
    page.head("node_info", "gauge", "This node.");
    let id = node.identity.node.to_string();
    let labels = [
        ("node", node.identity.name.as_str()),
        ("id", &id),
        ("version", env!("CARGO_PKG_VERSION")),
    ];
    page.line("node_info", &labels, 1);
    page.one(
        "node_start_seconds",
        "gauge",
        "Since when it runs, in seconds since 1970.",
        running.started,
    );
    page.one(
        "log_lines_lost_total",
        "counter",
        "Lines of the log that standard error did not take in time.",
        crate::log::lost_lines(),
    );
    let reachable = u8::from(node.coordinator.status().reachable);
    page.one("coordinator_reachable", "gauge", "Whether the coordinator answers.", reachable);
    page.head(
        "cluster_node_alive",
        "gauge",
        "0 if the coordinator has received nothing from a node for the expiry time.",
    );
    for member in node.coordinator.nodes() {
        let labels = [("node", member.node.name.as_str())];
        page.line("cluster_node_alive", &labels, u8::from(member.may_live));
    }
}

async fn disk_metrics(node: &Arc<Node>, page: &mut Page) {
    let disks = node.blocking(|node| Ok(node.disks.list())).await.unwrap_or_default();
    page.head("disk_size_bytes", "gauge", "Bytes of a disk in all.");
    for disk in &disks {
        page.line("disk_size_bytes", &[("disk", &disk.name)], disk.size);
    }
    page.head("disk_free_bytes", "gauge", "Bytes that replicas could still take.");
    for disk in &disks {
        page.line("disk_free_bytes", &[("disk", &disk.name)], disk.free);
    }
    page.head("disk_problem", "gauge", "Whether a disk, or a replica on it, cannot be used.");
    for disk in &disks {
        let problem = disk.problem.is_some() || disk.replicas.iter().any(|r| r.problem.is_some());
        page.line("disk_problem", &[("disk", &disk.name)], u8::from(problem));
    }
}

fn worker_metrics(survey: &[WorkerStatus], page: &mut Page) {
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&WorkerStatus) -> u64| {
        page.head(name, kind, help);
        for worker in survey {
            page.line(name, &[("worker", &worker.worker.to_string())], value(worker));
        }
    };
    each("worker_memory_bytes", "gauge", "Bytes of buffers in use.", &|w| w.memory as u64);
    each("worker_loops_total", "counter", "Turns of the loop.", &|w| w.counters.loops);
    each("worker_system_calls_total", "counter", "Calls of io_uring_enter.", &|w| {
        w.counters.system_calls
    });
    each("worker_completions_total", "counter", "Operations that the ring completed.", &|w| {
        w.counters.completions
    });
    each("worker_polls_total", "counter", "Waits that began with polling.", &|w| w.counters.polls);
    each("worker_polls_in_time_total", "counter", "Of these, those that polling ended.", &|w| {
        w.counters.polls_in_time
    });
    each(
        "worker_memory_waits_total",
        "counter",
        "Times that a client or link waited for memory.",
        &|w| w.counters.memory_waits,
    );
    each(
        "worker_long_turns_total",
        "counter",
        "Turns of the loop, without its waiting, that took longer than 10 ms.",
        &|w| w.counters.long_turns,
    );
    page.head(
        "worker_turn_seconds_max",
        "gauge",
        "The longest turn since the start, without its waiting.",
    );
    for worker in survey {
        let labels = [("worker", &*worker.worker.to_string())];
        page.line("worker_turn_seconds_max", &labels, worker.counters.longest_turn.as_secs_f64());
    }
}

/// Labels of something, and what was counted of it by kind.
type Counted<'a> = (Vec<(&'a str, &'a str)>, &'a [KindCounters; KINDS.len()]);

/// Latencies, bytes and errors by kind.
fn kinds(page: &mut Page, prefix: &str, of: &str, items: &[Counted<'_>]) {
    let families = [
        (format!("{prefix}_seconds"), "histogram", format!("How long {of} took.")),
        (format!("{prefix}_bytes_total"), "counter", format!("Bytes of {of} that succeeded.")),
        (format!("{prefix}_errors_total"), "counter", format!("How many of {of} failed.")),
    ];
    for (family, (name, kind, help)) in families.iter().enumerate() {
        page.head(name, kind, help);
        for (labels, counters) in items {
            for ((_, kind), counters) in KINDS.iter().zip(counters.iter()) {
                let mut labels = labels.clone();
                labels.push(("kind", kind));
                match family {
                    0 => page.histogram(name, &labels, &counters.latency),
                    1 => page.line(name, &labels, counters.bytes),
                    _ => page.line(name, &labels, counters.errors),
                }
            }
        }
    }
}

fn replica_metrics(volumes: &[&VolumeStatus], page: &mut Page) {
    let ids: Vec<_> = volumes
        .iter()
        .flat_map(|volume| volume.replicas.iter().map(|r| (volume.volume.to_string(), r)))
        .map(|(volume, replica)| (volume, replica.core.id.to_string(), replica))
        .collect();
    page.head("replica_generation", "gauge", "The generation that a replica here has adopted.");
    for (volume, id, replica) in &ids {
        let labels = [("volume", volume.as_str()), ("replica", id)];
        page.line("replica_generation", &labels, replica.core.view.generation);
    }
    page.head("replica_written_bytes_total", "counter", "Bytes written to a replica here.");
    for (volume, id, replica) in &ids {
        let labels = [("volume", volume.as_str()), ("replica", id)];
        page.line("replica_written_bytes_total", &labels, replica.core.bytes_written);
    }
    checksum_metrics(&ids, page);
    let items: Vec<_> = ids
        .iter()
        .map(|(volume, id, replica)| {
            (vec![("volume", volume.as_str()), ("replica", id.as_str())], &replica.disk.kinds)
        })
        .collect();
    kinds(page, "replica_disk", "disk actions of a replica here", &items);
}

fn checksum_metrics(ids: &[(String, String, &OpenReplicaStatus)], page: &mut Page) {
    let (wrong, writes) = ("replica_checksum_mismatches_total", "replica_checksum_writes_total");
    page.head(
        wrong,
        "counter",
        "Reads of a replica here that contradicted the checksum of a block.",
    );
    for (volume, id, replica) in ids {
        let labels = [("volume", volume.as_str()), ("replica", id)];
        page.line(wrong, &labels, replica.disk.checksum_mismatches);
    }
    page.head(writes, "counter", "Writes of block checksums to the disk of a replica here.");
    for (volume, id, replica) in ids {
        let labels = [("volume", volume.as_str()), ("replica", id)];
        page.line(writes, &labels, replica.disk.checksum_writes);
    }
}

fn volume_metrics(attached: &[Arc<Attached>], volumes: &[&VolumeStatus], page: &mut Page) {
    let pairs: Vec<_> = attached
        .iter()
        .filter_map(|a| volumes.iter().find(|v| v.volume == a.id).map(|v| (a, *v)))
        .collect();
    page.head(
        "volume_serving",
        "gauge",
        "Whether requests to a volume attached here are answered.",
    );
    for (attached, volume) in &pairs {
        let core = volume.primary.as_ref();
        let serving = matches!(attached.phase(), Phase::Serving | Phase::Attached)
            && core.is_some_and(|core| {
                core.serving
                    && !was_taken_over(core)
                    && core.waiting.is_none_or(|wait| wait.why == Waiting::Start)
            });
        page.line("volume_serving", &[("volume", attached.name())], u8::from(serving));
    }
    page.head(
        "volume_replica_in_sync",
        "gauge",
        "Whether a replica of a volume attached here is in-sync and answers its primary.",
    );
    page_replicas(page, &pairs, "volume_replica_in_sync", |_, in_sync| Some(u64::from(in_sync)));
    page.head(
        "volume_rebuild_done_bytes",
        "gauge",
        "Bytes that a rebuilding replica need not copy any more.",
    );
    page_replicas(page, &pairs, "volume_rebuild_done_bytes", |p, _| p.map(|p| p.done));
    page.head("volume_rebuild_total_bytes", "gauge", "Bytes of a rebuilding replica in all.");
    page_replicas(page, &pairs, "volume_rebuild_total_bytes", |p, _| p.map(|p| p.total));
    page.head("volume_requests", "gauge", "Requests of clients that are not answered.");
    for (attached, volume) in &pairs {
        let requests = volume.primary.as_ref().map_or(0, |core| core.requests);
        page.line("volume_requests", &[("volume", attached.name())], requests);
    }
    page.head("volume_clients", "gauge", "Clients and devices of a volume.");
    for (attached, volume) in &pairs {
        page.line("volume_clients", &[("volume", attached.name())], volume.frontends.len());
    }
    page.head("volume_memory_bytes", "gauge", "Bytes that a volume's clients hold.");
    for (attached, volume) in &pairs {
        page.line("volume_memory_bytes", &[("volume", attached.name())], volume.memory.0);
    }
    let items: Vec<_> =
        pairs.iter().map(|(a, v)| (vec![("volume", a.name())], &v.counters.kinds)).collect();
    kinds(page, "volume_request", "requests of clients", &items);
}

/// Requests that failed, by kind and cause, also of volumes that are detached by now.
fn failure_metrics(page: &mut Page, failed: &BTreeMap<String, Vec<Failure>>) {
    type Value = fn(&Failure) -> u64;
    let families: [(&str, &str, &str, Value); 3] = [
        (
            "volume_failed_requests_total",
            "counter",
            "Requests of clients that failed since the start of the daemon.",
            |f| f.count,
        ),
        (
            "volume_failed_requests_first_seconds",
            "gauge",
            "When the first one failed, in seconds since 1970.",
            |f| seconds(f.first),
        ),
        (
            "volume_failed_requests_last_seconds",
            "gauge",
            "When the last one failed, in seconds since 1970.",
            |f| seconds(f.last),
        ),
    ];
    for (name, kind, help, value) in families {
        page.head(name, kind, help);
        for (volume, failures) in failed {
            for failure in failures {
                let (kind, cause) = (failure.kind, cause(failure.error));
                let labels = [("volume", volume.as_str()), ("kind", kind), ("cause", cause)];
                page.line(name, &labels, value(failure));
            }
        }
    }
}

/// Whether a replica says that another primary has this one's place.
fn was_taken_over(core: &PrimaryStatus) -> bool {
    core.is_said_to_be_excluded && core.view.as_ref().is_some_and(|view| !view.is_shared())
}

fn page_replicas(
    page: &mut Page,
    pairs: &[(&Arc<Attached>, &VolumeStatus)],
    name: &str,
    value: impl Fn(Option<evenkeel_core::message::RebuildProgress>, bool) -> Option<u64>,
) {
    for (attached, volume) in pairs {
        let Some(core) = &volume.primary else { continue };
        let Some(view) = &core.view else { continue };
        for (_, record) in view.replicas() {
            let peer = core.replicas.iter().find(|peer| peer.replica == record.id);
            let answers = peer.is_some_and(|peer| {
                peer.connected && peer.leaving.is_none() && !peer.may_be_out_of_sync
            });
            let in_sync = record.state == evenkeel_core::ReplicaState::InSync
                && answers
                && !was_taken_over(core);
            let progress = peer.and_then(|peer| peer.rebuild);
            if let Some(value) = value(progress, in_sync) {
                let id = record.id.to_string();
                page.line(name, &[("volume", attached.name()), ("replica", &id)], value);
            }
        }
    }
}
