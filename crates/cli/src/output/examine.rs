//! What replicas' disks say of themselves, as people see it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_api::types::{
    CopyVerdict, ExamineAnswer, Examined, ExaminedBitmap, ExaminedCopy, ExaminedMember,
    ExaminedReplica, ExaminedSlot, ExaminedView, ReplicaVerdict,
};

use super::phrases::{short, warnings};
use super::table::{Align, Table};
use super::volume::replica_state;
use super::{Painted as _, size, span};

/// Open regions that are named one by one; `--json` has all.
const MAX_REGIONS: usize = 16;

/// Every replica, one after the other.
pub fn page(answer: &ExamineAnswer) -> String {
    let pages: Vec<String> = answer.replicas.iter().map(examined).collect();
    pages.join("\n") + &warnings(&answer.warnings)
}

fn examined(examined: &Examined) -> String {
    let mut text = format!("{}: {}", examined.path.bold(), verdict(examined.verdict));
    if let Some(process) = examined.used_by {
        text.push_str(&format!(", in use by process {process}"));
    }
    text.push('\n');
    for problem in &examined.problems {
        text.push_str(&format!("  {}  {}\n", "why".bad(), problem.why));
        text.push_str(&format!("  do   {}\n", problem.action));
    }
    for copy in &examined.superblocks {
        text.push_str(&line("superblock", &superblock(copy)));
    }
    if let Some(replica) = &examined.replica {
        text.push_str(&content(replica));
    }
    text
}

fn line(label: &str, value: &str) -> String {
    format!("  {label:<12} {value}\n")
}

fn verdict(verdict: ReplicaVerdict) -> String {
    match verdict {
        ReplicaVerdict::Whole => "a whole replica".good(),
        ReplicaVerdict::Impaired => {
            "a replica that can be used, and something is damaged".warning()
        }
        ReplicaVerdict::Unusable => "a replica that cannot be used".bad(),
        ReplicaVerdict::NoReplica => "no replica".bad(),
    }
}

fn superblock(copy: &ExaminedCopy) -> String {
    let mut text = format!("copy {} at {}: {}", copy.copy, copy.offset, state(copy.verdict));
    if copy.verdict != CopyVerdict::Good {
        return text;
    }
    if copy.counts {
        text.push_str(", counts");
    }
    text.push_str(&format!(
        ", checksum {} is right, sequence {}, generation {}, format {}, by {}",
        copy.checksum.as_deref().unwrap_or("?"),
        copy.sequence.unwrap_or(0),
        copy.generation.unwrap_or(0),
        copy.format.unwrap_or(0),
        copy.writer.as_deref().unwrap_or("unknown software"),
    ));
    if let Some(saved) = copy.saved {
        text.push_str(&format!(", saved {} ago", ago(saved)));
    }
    text.push_str(&features(copy.features.unwrap_or_default()));
    text
}

fn state(verdict: CopyVerdict) -> String {
    match verdict {
        CopyVerdict::Good => "good".good(),
        CopyVerdict::Damaged => "damaged".bad(),
        CopyVerdict::Newer => "written by newer software".bad(),
        CopyVerdict::Empty => "empty".dim(),
    }
}

fn features([compatible, read_only_compatible, incompatible]: [u64; 3]) -> String {
    match compatible | read_only_compatible | incompatible {
        0 => ", no features".to_owned(),
        _ => format!(
            ", features: compatible {compatible:#x}, read-only-compatible {read_only_compatible:#x}, incompatible {incompatible:#x}"
        ),
    }
}

fn ago(moment: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    span(Duration::from_secs(now.saturating_sub(moment)))
}

fn content(replica: &ExaminedReplica) -> String {
    let mut text = String::new();
    let name =
        format!("{} ({}), mirror {}", replica.volume.bold(), replica.volume_id, replica.mirror);
    text.push_str(&line("volume", &name));
    text.push_str(&line(
        "replica",
        &format!("{}, incarnation {}", replica.id, replica.incarnation),
    ));
    let data = format!(
        "{} from byte {}; bitmaps from byte {}; {}",
        size(replica.data_size),
        replica.data_offset,
        replica.metadata_offset,
        if replica.has_checksums { "a checksum for each block" } else { "no checksums of blocks" }
    );
    text.push_str(&line("data", &data));
    text.push_str(&view(&replica.view));
    for slot in &replica.intents.slots {
        text.push_str(&line("intent log", &intents(slot, replica)));
    }
    for bitmap in &replica.bitmaps {
        text.push_str(&line("bitmap", &missing(bitmap)));
    }
    if replica.bitmaps.is_empty() {
        text.push_str(&line("bitmap", "none: no replica is marked as out of sync here"));
    }
    text + "\n" + &members(&replica.view)
}

fn view(view: &ExaminedView) -> String {
    let mut text = line(
        "view",
        &format!(
            "generation {} after {}, history {}, coordinator {}",
            view.generation, view.parent, view.history, view.coordinator
        ),
    );
    let layout = format!(
        "{}, protocol {:?}, block size {}, chunk {}, bitmap {}",
        size(view.size),
        view.protocol,
        view.block_size,
        size(u64::from(view.chunk)),
        view.bitmap
    );
    text.push_str(&line("layout", &layout));
    let attached = match &view.primaries[..] {
        [] => "nowhere: it was detached cleanly".to_owned(),
        nodes => format!("on node {}, and not detached since", nodes.join(", ")),
    };
    text.push_str(&line("attached", &attached));
    for epoch in &view.epochs {
        let when = epoch.ended.map_or_else(String::new, |ended| format!(", {} ago", ago(ended)));
        let epoch = format!(
            "up to generation {}: coordinator {}, history {}{when}",
            epoch.last, epoch.coordinator, epoch.history
        );
        text.push_str(&line("before", &epoch));
    }
    text
}

fn intents(slot: &ExaminedSlot, replica: &ExaminedReplica) -> String {
    let places = replica.intents.places;
    let holder = slot.holder.as_ref();
    let holder = holder.map_or_else(String::new, |node| format!(" of node {}", short(node)));
    let copies = ["A", "B"].iter().zip(slot.copies).zip(slot.sequences).map(
        |((name, verdict), sequence)| {
            let sequence = sequence.map_or_else(String::new, |n| format!(" with sequence {n}"));
            format!("copy {name} {}{sequence}", state(verdict))
        },
    );
    let copies = copies.collect::<Vec<_>>().join(", ");
    let open = match (slot.all_open, slot.open.len()) {
        (true, _) => "all regions open".bad(),
        (false, 0) => "no region open".to_owned(),
        (false, open) => format!("{open} of {places} places open"),
    };
    let mut text = format!(
        "slot {}{holder}: events {}, cleared {}, {open}, {} may differ, {} each; {copies}",
        slot.slot,
        slot.events,
        slot.cleared,
        size(slot.bytes),
        size(slot.region_size)
    );
    if !slot.open.is_empty() {
        let named: Vec<String> = slot.open.iter().take(MAX_REGIONS).map(u64::to_string).collect();
        let more = slot.open.len().saturating_sub(MAX_REGIONS);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        text.push_str(&format!("\n  {:<12} regions {}{more}", "", named.join(", ")));
    }
    text
}

fn missing(bitmap: &ExaminedBitmap) -> String {
    let counts = if bitmap.counts { "" } else { " (of an earlier absence; does not count)" };
    format!(
        "place {}: replica {} is out of sync in {} blocks, {}, since generation {}{counts}",
        bitmap.place,
        short(&bitmap.replica),
        bitmap.blocks,
        size(bitmap.bytes),
        bitmap.since
    )
}

fn members(view: &ExaminedView) -> String {
    let mut table = Table::new(&[
        ("MIRROR", Align::Right),
        ("REPLICA", Align::Left),
        ("NODE", Align::Left),
        ("STATE", Align::Left),
        ("SINCE", Align::Right),
        ("", Align::Left),
    ]);
    for (mirror, members) in view.mirrors.iter().enumerate() {
        for member in members {
            table.row(member_cells(mirror, member));
        }
    }
    table.render(2)
}

fn member_cells(mirror: usize, member: &ExaminedMember) -> Vec<String> {
    let mut remarks = Vec::new();
    if member.this {
        remarks.push("this replica".to_owned());
    }
    remarks.extend(member.why.clone());
    remarks
        .extend(member.missing_since.map(|since| format!("out of sync since generation {since}")));
    vec![
        mirror.to_string(),
        short(&member.id).to_owned(),
        short(&member.node).to_owned(),
        replica_state(member.state),
        member.since.to_string(),
        remarks.join(", "),
    ]
}

#[cfg(test)]
mod tests;
