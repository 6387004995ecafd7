//! What is left out of a seed's run: kinds of faults, single faults and operations by their number,
//! and time.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::profile::{Fault, Profile};
use crate::queue::Time;

/// Something that a seed draws and a run can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A kind of fault that strikes now and then.
    Fault(Fault),
    /// Something that goes wrong at a rate, or is odd from the beginning.
    Rate(Rate),
}

/// What goes wrong at a rate, or is odd from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Some attempts to connect fail.
    ConnectFailures,
    /// Some questions to the coordinator are lost, or their answers.
    CoordinatorLoss,
    /// Some disk actions fail in passing.
    PassingErrors,
    /// What a failed flush covered is lost, though a later one succeeds.
    FlushesLose,
    /// A power cut tears some sectors.
    TornSectors,
    /// Saves of tables of open regions fail, and power is cut while they are repeated.
    TornTables,
    /// The device flush before a save of such a table fails, and loses what it covered.
    TablesLose,
    /// Clocks drift.
    Drift,
    /// Each node has times of its own.
    OwnTimes,
    /// A start forgets checksums of blocks, and their bits rot then.
    ForgottenChecksums,
}

impl Rate {
    const ALL: [Self; 10] = [
        Self::ConnectFailures,
        Self::CoordinatorLoss,
        Self::PassingErrors,
        Self::FlushesLose,
        Self::TornSectors,
        Self::TornTables,
        Self::TablesLose,
        Self::Drift,
        Self::OwnTimes,
        Self::ForgottenChecksums,
    ];

    /// Whether this seed has it.
    fn is_in(self, profile: &Profile) -> bool {
        match self {
            Self::ConnectFailures => profile.connect_failures > 0,
            Self::CoordinatorLoss => profile.coordinator_loss > 0,
            Self::PassingErrors => profile.disk_errors > 0,
            Self::FlushesLose => profile.failed_flushes_lose,
            Self::TornSectors => profile.torn > 0,
            Self::TornTables => profile.tears_tables,
            Self::TablesLose => profile.tables_lose,
            Self::Drift => profile.drift.iter().any(|ppm| *ppm != 0),
            Self::OwnTimes => profile.own_settings.iter().any(|own| *own != profile.settings),
            Self::ForgottenChecksums => profile.forgets_checksums,
        }
    }

    fn take_from(self, profile: &mut Profile) {
        match self {
            Self::ConnectFailures => profile.connect_failures = 0,
            Self::CoordinatorLoss => profile.coordinator_loss = 0,
            Self::PassingErrors => profile.disk_errors = 0,
            Self::FlushesLose => profile.failed_flushes_lose = false,
            Self::TornSectors => profile.torn = 0,
            Self::TornTables => profile.tears_tables = false,
            Self::TablesLose => profile.tables_lose = false,
            Self::Drift => profile.drift.fill(0),
            Self::OwnTimes => profile.own_settings.fill(profile.settings),
            Self::ForgottenChecksums => profile.forgets_checksums = false,
        }
    }
}

impl Kind {
    /// Every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        Fault::all().map(Self::Fault).chain(Rate::ALL.map(Self::Rate))
    }

    /// Whether this seed has it.
    #[must_use]
    pub fn is_in(self, profile: &Profile) -> bool {
        match self {
            Self::Fault(kind) => profile.faults.iter().any(|(fault, _)| *fault == kind),
            Self::Rate(rate) => rate.is_in(profile),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => write!(f, "{fault:?}"),
            Self::Rate(rate) => write!(f, "{rate:?}"),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    /// `KillNode`, or `kill-node`.
    fn from_str(name: &str) -> Result<Self, String> {
        let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
        Self::all().find(|kind| plain(&kind.to_string()) == plain(name)).ok_or_else(|| {
            let names: Vec<_> = Self::all().map(|kind| kind.to_string()).collect();
            format!("there is no fault of this name; there are {}", names.join(", "))
        })
    }
}

/// Numbers, written as `3,17-20`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers(BTreeSet<u64>);

impl Numbers {
    /// Whether it is one of them.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.0.contains(&number)
    }

    /// How many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<u64> for Numbers {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for number in &self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == *number => *last = *number,
                _ => runs.push((*number, *number)),
            }
        }
        let words = runs.iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        f.write_str(&words.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::default());
        }
        let wrong = |_| format!("{text:?} are no numbers: write 3,17-20, or none");
        let mut numbers = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u64 = first.parse().map_err(wrong)?;
            let last: u64 = last.parse().map_err(wrong)?;
            // More than any run has.
            numbers.extend(first..=last.min(1_000_000));
        }
        Ok(Self(numbers))
    }
}

/// What is left out of a seed's run. Everything else draws the same as in the whole run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reduction {
    /// These kinds of faults.
    pub without: Vec<Kind>,
    /// All faults but these, by their number.
    pub faults: Option<Numbers>,
    /// All operations of clients but these, by their number.
    pub operations: Option<Numbers>,
    /// What a client has under way beyond so many.
    pub depth: Option<usize>,
    /// Faults and operations after this time.
    pub end: Option<Time>,
}

impl Reduction {
    /// Whether nothing is left out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a fault is carried out.
    #[must_use]
    pub fn strikes(&self, number: u64, fault: Fault) -> bool {
        !self.without.contains(&Kind::Fault(fault))
            && self.faults.as_ref().is_none_or(|numbers| numbers.contains(number))
    }

    /// Whether a client asks for an operation.
    #[must_use]
    pub fn asks(&self, number: u64) -> bool {
        self.operations.as_ref().is_none_or(|numbers| numbers.contains(number))
    }

    /// The profile without what is left out of it.
    #[must_use]
    pub fn reduced(&self, mut profile: Profile) -> Profile {
        for kind in &self.without {
            if let Kind::Rate(rate) = kind {
                rate.take_from(&mut profile);
            }
        }
        profile.depth = self.depth.map_or(profile.depth, |depth| depth.clamp(1, profile.depth));
        profile
    }
}

impl fmt::Display for Reduction {
    /// The arguments of the command line that say the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.without.is_empty() {
            let names: Vec<_> = self.without.iter().map(ToString::to_string).collect();
            write!(f, " --without {}", names.join(","))?;
        }
        if let Some(numbers) = &self.faults {
            write!(f, " --faults {numbers}")?;
        }
        if let Some(numbers) = &self.operations {
            write!(f, " --operations {numbers}")?;
        }
        if let Some(depth) = self.depth {
            write!(f, " --depth {depth}")?;
        }
        if let Some(end) = self.end {
            write!(f, " --end {}", end as f64 / 1e9)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
