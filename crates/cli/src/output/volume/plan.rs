//! Where the replicas of a new volume go.

use evenkeel_api::types::VolumePlan;

use crate::output::phrases::{short, warnings};
use crate::output::table::{Align, Table};
use crate::output::{Painted as _, size};

/// Where the replicas of a new volume are, or would be.
pub fn plan(plan: &VolumePlan, created: bool) -> String {
    let verb = if created { "Created" } else { "Would create" };
    let mut text = format!(
        "{verb} volume {}: {} usable, protocol {:?}, block size {}, {} on each replica's disk\n\n",
        plan.name.bold(),
        size(plan.size),
        plan.protocol,
        plan.block_size,
        size(plan.replica_size),
    );
    let mut table = Table::new(&[
        ("MIRROR", Align::Right),
        ("REPLICA", Align::Left),
        ("NODE", Align::Left),
        ("DISK", Align::Left),
    ]);
    for replica in &plan.replicas {
        table.row(vec![
            replica.mirror.to_string(),
            short(&replica.id).to_owned(),
            replica.node.name.clone(),
            replica.disk.clone(),
        ]);
    }
    text.push_str(&table.render(2));
    text + &warnings(&plan.warnings)
}
