//! What is to be run.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::target::{Recipe, beside};
use crate::units::short_size;
use crate::workload::Task;

/// What is to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The profile's name.
    pub profile: String,
    /// The configurations, raw first.
    pub recipes: Vec<Recipe>,
    /// Those among them that the user asked for by name: they must not be left out.
    pub named: Vec<Recipe>,
    /// The workloads in their order.
    pub tasks: Vec<Task>,
    /// Usable bytes of each configuration.
    pub size: u64,
    /// Factor on the original's sizes and times.
    pub scale: f64,
    /// How it is measured, for the record.
    pub method: Vec<String>,
    /// Whether configurations must be block devices.
    pub devices: bool,
}

impl Plan {
    /// Bytes that all files of all configurations take.
    pub fn bytes(&self) -> u64 {
        // A stripe of mirrors has a part of the volume on each mirror.
        let each = self.size + beside(self.size);
        self.recipes.iter().map(|recipe| u64::from(recipe.copies()) * each).sum()
    }

    /// That there is room for it.
    ///
    /// # Errors
    /// If not.
    pub fn check_room(&self, places: &[PathBuf]) -> Result<(), Failure> {
        let each = self.bytes() / places.len() as u64;
        for place in places {
            let failed = |why: &dyn std::fmt::Display| {
                Failure::new(format!("cannot measure in {}", place.display()), why)
            };
            let room = rustix::fs::statvfs(place).map_err(|error| failed(&error))?;
            let free = room.f_bavail * room.f_frsize;
            if free < each {
                let mib = |bytes: u64| short_size(bytes.div_ceil(1 << 20) << 20);
                let why = format!("{} are needed, {} are free", mib(each), mib(free));
                return Err(failed(&why)
                    .advise("choose another directory with --scratch, a smaller --size or --scale, or fewer configurations with --only"));
            }
        }
        Ok(())
    }
}
