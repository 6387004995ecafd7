//! What was found, in plain sentences.

use crate::report::findings::{
    Allowed, Certainty, Cost, Fastest, Findings, MIN_ROUNDS, MIN_SECONDS, Reached, Warning,
};
use crate::result::Origin;
use crate::units::{digits, percent, span};

/// Up to so many workloads are named; of more, their number.
const MAX_NAMED: usize = 3;
/// Processor time of others that is worth a word.
const FOREIGN: f64 = 0.05;

impl Findings {
    /// Three sentences: which is fastest for what, what replication costs, and how sure that is.
    /// Commands stand between backquotes.
    pub fn sentences(&self) -> [String; 3] {
        let imported = self.certainty.origin == Origin::Imported;
        [fastest(&self.fastest, imported), cost(&self.cost, imported), certainty(&self.certainty)]
    }
}

impl Warning {
    /// In a sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::WrongData(names) => format!(
                "Data did NOT read back right from {}: it is left out of the sentences below.",
                names.join(", ")
            ),
            Self::Empty => "There are no figures: nothing can be concluded.".to_owned(),
            Self::FewRounds(1) => format!(
                "Nothing can be concluded: each figure is of one round alone, so nobody knows how \
                 far the next would lie off. It takes at least {MIN_ROUNDS} rounds."
            ),
            Self::FewRounds(rounds) => format!(
                "Nothing can be concluded: {rounds} rounds of each are too few. It takes at least \
                 {MIN_ROUNDS}."
            ),
            Self::ShortRounds(seconds) => format!(
                "Nothing can be concluded: no round took more than {} s, in which starting up and \
                 empty caches decide. It takes at least {} s.",
                digits(*seconds),
                digits(MIN_SECONDS)
            ),
            Self::Patchy => format!(
                "Nothing can be concluded: so many rounds failed or were too short that nothing \
                 has {MIN_ROUNDS} of at least {} s.",
                digits(MIN_SECONDS)
            ),
            Self::Overlap => "Nothing can be concluded: whatever is compared, the rounds of one \
                              overlap those of the other."
                .to_owned(),
        }
    }
}

fn fastest(fastest: &Fastest, imported: bool) -> String {
    let (copies, ahead, level, unknown) = match fastest {
        Fastest::Unknown => return "Which is fastest: this run cannot say.".to_owned(),
        Fastest::Nobody => {
            return "Which is fastest: nothing beside the raw disk has a figure.".to_owned();
        }
        Fastest::Alone(name) => {
            let advice = if imported { "" } else { "; `--with peers` adds what is installed" };
            return format!(
                "Which is fastest: {name} is the only one of its kind here, with nothing to \
                 compare it with{advice}."
            );
        }
        Fastest::Compared { copies, ahead, level, unknown } => (copies, ahead, level, unknown),
    };
    let all = level.len() + unknown.len() + ahead.iter().map(|(_, of)| of.len()).sum::<usize>();
    let mut parts: Vec<String> =
        ahead.iter().map(|(name, of)| format!("{name} for {}", named(of, all))).collect();
    if !level.is_empty() {
        parts.push(format!("no difference that this run can show for {}", named(level, all)));
    }
    if !unknown.is_empty() {
        parts.push(format!("too few rounds to compare two for {}", named(unknown, all)));
    }
    let of = if *copies { " of those that keep copies" } else { "" };
    format!("Which is fastest{of}: {}.", parts.join("; "))
}

/// Names, or how many of all they are.
fn named(names: &[String], all: usize) -> String {
    match names {
        [one] if all == 1 => one.clone(),
        names if names.len() == all => format!("all {all} workloads"),
        names if names.len() > MAX_NAMED => format!("{} of {all} workloads", names.len()),
        [before @ .., last] if !before.is_empty() => {
            format!("{} and for {last}", before.join(", for "))
        }
        names => names.concat(),
    }
}

fn cost(cost: &Cost, imported: bool) -> String {
    let said = match cost {
        Cost::Unknown => "this run cannot say".to_owned(),
        Cost::NoCopies => "nothing that keeps copies has enough rounds".to_owned(),
        Cost::NoReference if imported => {
            "the text does not say which of its figures are of the disk alone".to_owned()
        }
        Cost::NoReference => {
            "neither the raw disk nor a single copy has enough rounds to compare with".to_owned()
        }
        Cost::Known { reference, by_workload, allowed } => {
            known(reference, by_workload, allowed.as_ref())
        }
    };
    format!("What replication costs: {said}.")
}

fn known(reference: &str, by_workload: &[Reached], allowed: Option<&Allowed>) -> String {
    let (differing, level): (Vec<&Reached>, Vec<&Reached>) =
        by_workload.iter().partition(|one| one.differs);
    let mut only = differing.iter().map(|one| one.only.as_deref());
    let first = only.next().flatten();
    let who = match first.filter(|name| only.all(|other| other == Some(name))) {
        Some(name) => format!("{name} reaches "),
        None => "those with copies reach ".to_owned(),
    };
    let reached = differing.iter().enumerate().map(|(place, one)| {
        let who = if place == 0 { who.as_str() } else { "" };
        format!("{who}{} of {reference} for {}", range(one), one.workload)
    });
    let mut parts: Vec<String> = reached.collect();
    parts.extend(level.iter().map(|one| {
        format!("no difference from {reference} that this run can show for {}", one.workload)
    }));
    parts.extend(allowed.map(|Allowed { workload, files }| {
        let limits = files.iter().map(|(files, ratio)| {
            format!("{files} files at once reach {} of {reference} each", percent(*ratio))
        });
        let limits: Vec<String> = limits.collect();
        format!("without any replication, {} for {workload}", limits.join(" and "))
    }));
    parts.join("; ")
}

/// From the smallest to the largest ratio.
fn range(one: &Reached) -> String {
    let (low, high) = (percent(one.low), percent(one.high));
    if low == high { high } else { format!("{low} to {high}") }
}

fn certainty(known: &Certainty) -> String {
    let mut parts = vec![rounds(known)];
    if let Some(apart) = &known.apart {
        parts.push(format!(
            "the rounds of a figure lie {} apart by the median and {} at the worst ({})",
            percent(apart.median),
            percent(apart.worst),
            apart.of
        ));
    }
    if let Some((load, processors)) = known.busy {
        parts.push(format!(
            "others used the machine (load {load:.1} on {processors} processors when it began)"
        ));
    }
    if let Some(foreign) = known.foreign.filter(|share| *share >= FOREIGN) {
        parts.push(format!(
            "{} of all processor time went to others and to kernel threads",
            percent(foreign)
        ));
    }
    parts.extend(known.gaps.iter().map(|(name, missing, all)| {
        format!("{name} lacks rounds in {missing} of {all} workloads")
    }));
    if known.right > 0 {
        let many = if known.right == 1 { "configuration" } else { "configurations" };
        parts.push(format!("the data of {} {many} read back right", known.right));
    }
    parts.extend(counted(known.left_out, "thing was left out", "things were left out"));
    parts.extend(counted(known.illegible, "thing could not be read", "things could not be read"));
    format!("How sure: {}.{}", parts.join("; "), surer(known))
}

fn rounds(known: &Certainty) -> String {
    let (one, many) = match known.origin {
        Origin::Measured => ("round", "rounds"),
        Origin::Imported => ("result", "results"),
    };
    let rounds = match known.rounds {
        None => return format!("there are no {many}"),
        Some((1, 1)) => format!("one {one} of each"),
        Some((least, most)) if least == most => format!("{most} {many} of each"),
        Some((least, most)) => format!("{least} to {most} {many} of each"),
    };
    match known.seconds.map(|(least, most)| (format!("{least:.1}"), format!("{most:.1}"))) {
        None => rounds,
        Some((least, most)) if least == most => format!("{rounds}, {most} s long"),
        Some((least, most)) => format!("{rounds}, {least} s to {most} s long"),
    }
}

fn counted(count: usize, one: &str, many: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("one {one} (listed below)")),
        count => Some(format!("{count} {many} (listed below)")),
    }
}

fn surer(known: &Certainty) -> String {
    let Some((command, seconds)) = &known.surer else { return String::new() };
    let takes = seconds.map_or(String::new(), |seconds| format!(", about {}", span(seconds)));
    match known.origin {
        Origin::Imported => format!(" Surer, measured here: `{command}`."),
        Origin::Measured => format!(" Surer: `{command}`{takes}."),
    }
}
