//! What a run shows, as far as it shows anything: which configuration is fastest for what, what
//! replication costs, and how sure that is. Computed from the rounds alone; [`sentences`] says it.
//!
//! Nothing is concluded from a row of fewer than [`MIN_ROUNDS`] rounds or from rounds shorter than
//! [`MIN_SECONDS`]. One configuration is ahead of another only if each of its rounds was faster
//! than each of the other's, by more than the rounds of either lie apart.

mod certainty;
pub mod picture;
mod sentences;

use crate::report::messages::NOISE_FLOOR;
use crate::result::{Configuration, Durable, Family, Origin, Results, Workload};
use crate::stats;

pub use certainty::Certainty;
pub use picture::Panel;

/// From fewer rounds than this nothing is concluded: two say nearly nothing about how far a third
/// would lie off.
pub const MIN_ROUNDS: usize = 3;
/// Seconds of a round below which nothing is concluded: start-up and the first caches fill them.
pub const MIN_SECONDS: f64 = 1.0;
/// Tools report their time a little off: this much below [`MIN_SECONDS`] is not yet short.
const SECONDS_TOLERANCE: f64 = 0.05;

/// The workloads that the picture and the costs are about, if they were measured; else the first
/// that can be compared.
const HEADLINES: [&str; 3] = ["4k-randwrite-d32", "4k-randwrite-flush", "4k-randread-d32"];

/// What a run shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// What a reader must know before anything else. With one that [`Warning::forbids`], nothing
    /// is concluded.
    pub warnings: Vec<Warning>,
    /// The picture: the headline workloads with a bar for each configuration.
    pub panels: Vec<Panel>,
    /// Which configuration is fastest for what.
    pub fastest: Fastest,
    /// What replication costs.
    pub cost: Cost,
    /// How sure it is, and what would make it surer.
    pub certainty: Certainty,
}

/// What a reader must know before anything else.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// Data that these configurations were given did not read back right.
    WrongData(Vec<String>),
    /// There is no figure at all.
    Empty,
    /// No row has more rounds than this.
    FewRounds(usize),
    /// No round took longer than so many seconds.
    ShortRounds(f64),
    /// Rounds are missing, so that no row has enough of enough length.
    Patchy,
    /// Whatever is compared, the rounds overlap.
    Overlap,
}

impl Warning {
    /// Whether nothing may be concluded.
    pub const fn forbids(&self) -> bool {
        !matches!(self, Self::WrongData(_))
    }
}

/// Which configuration is fastest for what.
#[derive(Debug, Clone, PartialEq)]
pub enum Fastest {
    /// The run is too short or too noisy to tell.
    Unknown,
    /// Nothing beside the raw disk has figures.
    Nobody,
    /// Only this one has: there is nothing to compare it with.
    Alone(String),
    /// Compared by workload.
    Compared {
        /// Whether these are the configurations that keep copies, and others were left aside.
        copies: bool,
        /// A configuration, and the workloads for which it is ahead of all others.
        ahead: Vec<(String, Vec<String>)>,
        /// The workloads for which no one is.
        level: Vec<String>,
        /// The workloads for which fewer than two have enough rounds.
        unknown: Vec<String>,
    },
}

/// What replication costs.
#[derive(Debug, Clone, PartialEq)]
pub enum Cost {
    /// The run is too short or too noisy to tell.
    Unknown,
    /// No configuration that keeps copies has enough rounds.
    NoCopies,
    /// Neither the raw disk nor a single copy was measured beside it.
    NoReference,
    /// By headline workload.
    Known {
        /// What it is compared with, as in `raw`.
        reference: String,
        /// The workloads, in their order.
        by_workload: Vec<Reached>,
        /// What the disk allows without any replication, under the first that writes.
        allowed: Option<Allowed>,
    },
}

/// What plain files, written at once, reach of the reference: what N copies cost the disk itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowed {
    /// The workload's name.
    pub workload: String,
    /// How many files, and the ratio of each.
    pub files: Vec<(u32, f64)>,
}

/// What the configurations with copies reach of the reference under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Reached {
    /// The workload's name.
    pub workload: String,
    /// The configuration, if it is only one.
    pub only: Option<String>,
    /// The smallest of their ratios to the reference, each the median of the rounds.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// Whether any of them differs from the reference by more than the rounds lie apart.
    pub differs: bool,
}

impl Findings {
    /// What these results show.
    pub fn of(results: &Results) -> Self {
        let rivals = Rivals::of(results);
        let fields: Vec<Field<'_>> =
            results.workloads.iter().map(|workload| rivals.under(results, workload)).collect();
        let warnings = warnings(results, &rivals, &fields);
        let known = !warnings.iter().any(Warning::forbids);
        Self {
            panels: picture::panels(results, &rivals),
            fastest: if known { fastest(&rivals, &fields) } else { hopeless(&rivals) },
            cost: if known { cost(results, &rivals, &fields) } else { Cost::Unknown },
            certainty: Certainty::of(results, &rivals),
            warnings,
        }
    }

    /// Whether anything may be concluded.
    pub fn concludes(&self) -> bool {
        !self.warnings.iter().any(Warning::forbids)
    }
}

/// What is compared with what in a run.
struct Rivals<'a> {
    /// The configurations: those that keep copies, or all beside raw if none does.
    all: Vec<&'a Configuration>,
    /// Whether they keep copies.
    copies: bool,
    /// Whether configurations without copies were left aside.
    aside: bool,
    /// What they are compared with.
    reference: Option<&'a Configuration>,
}

impl<'a> Rivals<'a> {
    fn of(results: &'a Results) -> Self {
        let figures = |known: &&Configuration| {
            let mut rows = results.rows.iter();
            rows.any(|row| row.configuration == known.id && row.summary.is_some())
        };
        // Whoever returns other data than was written is not fast but wrong.
        let rival = |known: &&Configuration| {
            !matches!(known.family, Family::Raw | Family::Limit) && known.verified != Some(false)
        };
        let beside_raw = results.configurations.iter().filter(rival).filter(figures);
        let (several, single): (Vec<_>, Vec<_>) = beside_raw.partition(|known| known.copies > 1);
        let one_copy = single.iter().find(|known| known.family == Family::Evenkeel).copied();
        let reference = results.raw().filter(figures).or(one_copy);
        match several.is_empty() {
            false => Self { aside: !single.is_empty(), all: several, copies: true, reference },
            true => Self { all: single, copies: false, aside: false, reference },
        }
    }

    fn under<'b>(&self, results: &'b Results, workload: &'b Workload) -> Field<'b>
    where
        'a: 'b,
    {
        let figure = |known: &&'a Configuration| Figure::of(results, known, workload);
        let rivals = self.all.iter().filter_map(figure).filter(Figure::is_enough).collect();
        let reference = self.reference.as_ref().and_then(figure).filter(Figure::is_enough);
        Field { workload, reference, rivals }
    }
}

/// The figures that can be compared under one workload.
struct Field<'a> {
    workload: &'a Workload,
    reference: Option<Figure<'a>>,
    rivals: Vec<Figure<'a>>,
}

impl Field<'_> {
    /// The one that is ahead of all others.
    fn leader(&self) -> Option<&Figure<'_>> {
        let best = self.rivals.iter().max_by(|a, b| a.median.total_cmp(&b.median))?;
        let behind = |other: &Figure<'_>| other.known.id == best.known.id || best.ahead_of(other);
        (self.rivals.len() > 1 && self.rivals.iter().all(behind)).then_some(best)
    }

    /// Whether any two differ, the reference included; `None` if there are no two.
    fn shows_a_difference(&self) -> Option<bool> {
        let all: Vec<&Figure<'_>> = self.rivals.iter().chain(&self.reference).collect();
        let differ = |one: &Figure<'_>| all.iter().any(|other| one.ahead_of(other));
        (all.len() > 1).then(|| all.iter().any(|one| differ(one)))
    }
}

/// The rounds of one configuration under one workload, as speeds: more is better.
struct Figure<'a> {
    known: &'a Configuration,
    median: f64,
    low: f64,
    high: f64,
    rounds: usize,
    seconds: Option<f64>,
}

impl<'a> Figure<'a> {
    fn of(results: &Results, known: &'a Configuration, workload: &Workload) -> Option<Self> {
        let row = results.row(&known.id, &workload.id)?;
        let speed = |value: f64| match workload.measure.more_is_better() {
            true => Some(value),
            false => (value > 0.0).then(|| 1.0 / value),
        };
        let figures = row.samples.iter().filter_map(|sample| sample.figure(workload.measure));
        let speeds: Vec<f64> = figures.filter_map(speed).collect();
        let seconds: Vec<f64> = row.samples.iter().filter_map(|sample| sample.seconds()).collect();
        Some(Self {
            known,
            median: stats::median(&speeds)?,
            low: speeds.iter().copied().fold(f64::INFINITY, f64::min),
            high: speeds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            rounds: speeds.len(),
            seconds: stats::median(&seconds),
        })
    }

    fn spread(&self) -> f64 {
        if self.median > 0.0 { (self.high - self.low) / self.median } else { 0.0 }
    }

    fn is_long(&self) -> bool {
        self.seconds.is_none_or(|seconds| seconds + SECONDS_TOLERANCE >= MIN_SECONDS)
    }

    fn is_enough(&self) -> bool {
        self.rounds >= MIN_ROUNDS && self.is_long()
    }

    /// Whether each round was faster than each of the other's, by more than the rounds of either
    /// lie apart.
    fn ahead_of(&self, other: &Self) -> bool {
        let noise = self.spread().max(other.spread()).max(NOISE_FLOOR);
        other.median > 0.0 && self.low > other.high && self.median / other.median - 1.0 > noise
    }
}

fn warnings(results: &Results, rivals: &Rivals<'_>, fields: &[Field<'_>]) -> Vec<Warning> {
    let wrong = results.configurations.iter().filter(|known| known.verified == Some(false));
    let wrong: Vec<String> = wrong.map(|known| known.name.clone()).collect();
    let mut warnings = Vec::new();
    if !wrong.is_empty() {
        warnings.push(Warning::WrongData(wrong));
    }
    let figures = all_figures(results, rivals);
    if figures.is_empty() {
        warnings.push(Warning::Empty);
    } else if !figures.iter().any(Figure::is_enough) {
        warnings.extend(too_little(&figures));
    } else {
        let mut shown = fields.iter().filter_map(Field::shows_a_difference).peekable();
        // Where no two can be compared, that is said in the sentences.
        if shown.peek().is_some() && !shown.any(|differs| differs) {
            warnings.push(Warning::Overlap);
        }
    }
    warnings
}

/// The figures of the rivals; of what they are compared with if there are none.
fn all_figures<'a>(results: &'a Results, rivals: &Rivals<'a>) -> Vec<Figure<'a>> {
    let under = |known: &&'a Configuration| {
        let known = *known;
        results.workloads.iter().filter_map(move |workload| Figure::of(results, known, workload))
    };
    match rivals.all.is_empty() {
        true => rivals.reference.iter().flat_map(under).collect(),
        false => rivals.all.iter().flat_map(under).collect(),
    }
}

/// Why no figure is enough.
fn too_little(figures: &[Figure<'_>]) -> Vec<Warning> {
    let rounds = figures.iter().map(|figure| figure.rounds).max().unwrap_or(0);
    let seconds = figures.iter().filter_map(|figure| figure.seconds).fold(0.0, f64::max);
    let few = (rounds < MIN_ROUNDS).then_some(Warning::FewRounds(rounds));
    let short = !figures.iter().any(Figure::is_long);
    let short = short.then_some(Warning::ShortRounds(seconds));
    let mut why: Vec<Warning> = few.into_iter().chain(short).collect();
    if why.is_empty() {
        why.push(Warning::Patchy);
    }
    why
}

/// What can be said of who is fastest if nothing may be concluded.
fn hopeless(rivals: &Rivals<'_>) -> Fastest {
    if rivals.all.is_empty() { Fastest::Nobody } else { Fastest::Unknown }
}

fn fastest(rivals: &Rivals<'_>, fields: &[Field<'_>]) -> Fastest {
    match rivals.all[..] {
        [] => return Fastest::Nobody,
        [only] => return Fastest::Alone(only.name.clone()),
        _ => {}
    }
    let (mut level, mut unknown) = (Vec::new(), Vec::new());
    let mut ahead: Vec<(String, Vec<String>)> = Vec::new();
    for field in fields {
        let name = field.workload.name.clone();
        match field.leader().map(|leader| with_its_promise(leader.known)) {
            Some(leader) => match ahead.iter_mut().find(|(known, _)| *known == leader) {
                Some((_, workloads)) => workloads.push(name),
                None => ahead.push((leader, vec![name])),
            },
            None if field.rivals.len() > 1 => level.push(name),
            None => unknown.push(name),
        }
    }
    Fastest::Compared { copies: rivals.aside, ahead, level, unknown }
}

/// Who answers a flush from memory is fast at something else.
fn with_its_promise(known: &Configuration) -> String {
    match known.durable_flush {
        Durable::No => format!("{} (whose answered flush is not on the disk)", known.name),
        Durable::Yes | Durable::Unknown => known.name.clone(),
    }
}

fn cost(results: &Results, rivals: &Rivals<'_>, fields: &[Field<'_>]) -> Cost {
    if results.origin == Origin::Imported {
        return Cost::NoReference;
    }
    if !rivals.copies || fields.iter().all(|field| field.rivals.is_empty()) {
        return Cost::NoCopies;
    }
    let Some(reference) = rivals.reference else { return Cost::NoReference };
    let reached = |field: &Field<'_>| reached(results, reference, field);
    let chosen = headlines(results);
    let chosen = |field: &&Field<'_>| chosen.iter().any(|known| known.id == field.workload.id);
    let by_workload: Vec<Reached> = fields.iter().filter(chosen).filter_map(reached).collect();
    if by_workload.is_empty() {
        return Cost::NoReference;
    }
    let mut written = fields
        .iter()
        .filter(chosen)
        .filter(|field| field.workload.writes && reached(field).is_some());
    let allowed = written.next().and_then(|field| allowed(results, reference, field.workload));
    let raw = reference.family == Family::Raw;
    Cost::Known {
        reference: if raw { "raw".to_owned() } else { reference.name.clone() },
        by_workload,
        allowed,
    }
}

fn reached(results: &Results, reference: &Configuration, field: &Field<'_>) -> Option<Reached> {
    let base = field.reference.as_ref()?;
    let base_row = results.row(&reference.id, &field.workload.id)?;
    let ratios: Vec<f64> = field
        .rivals
        .iter()
        .filter_map(|rival| {
            let row = results.row(&rival.known.id, &field.workload.id)?;
            stats::ratio(row, base_row, field.workload.measure, 1.0)
        })
        .collect();
    let only = (field.rivals.len() == 1).then(|| field.rivals[0].known.name.clone());
    let differs = field.rivals.iter().any(|rival| rival.ahead_of(base) || base.ahead_of(rival));
    (!ratios.is_empty()).then(|| Reached {
        workload: field.workload.name.clone(),
        only,
        low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        high: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        differs,
    })
}

fn allowed(results: &Results, reference: &Configuration, workload: &Workload) -> Option<Allowed> {
    let limits = results.configurations.iter().filter(|known| known.family == Family::Limit);
    let files: Vec<(u32, f64)> = limits
        .filter(|limit| {
            Figure::of(results, limit, workload).is_some_and(|figure| figure.is_enough())
        })
        .filter_map(|limit| {
            let row = results.row(&limit.id, &workload.id)?;
            let base = results.row(&reference.id, &workload.id)?;
            let files = f64::from(limit.copies.max(1));
            Some((limit.copies, stats::ratio(row, base, workload.measure, 1.0)? / files))
        })
        .collect();
    (!files.is_empty()).then(|| Allowed { workload: workload.name.clone(), files })
}

/// The workloads that the picture and the costs are about: at most three.
fn headlines(results: &Results) -> Vec<&Workload> {
    let chosen: Vec<&Workload> = HEADLINES.iter().filter_map(|id| results.workload(id)).collect();
    if !chosen.is_empty() {
        return chosen;
    }
    let compared = |workload: &&Workload| {
        let rows = results.rows.iter().filter(|row| row.workload == workload.id);
        rows.filter(|row| row.summary.is_some()).count() > 1
    };
    results.workloads.iter().filter(compared).take(HEADLINES.len()).collect()
}

#[cfg(test)]
mod tests;
