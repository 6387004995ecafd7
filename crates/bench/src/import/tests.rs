use std::collections::HashMap;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

/// Figures of old reports: the lines of the reports' text taken apart by a script of its own (none
/// of the code here), then checked by eye against the text: all figures of four reports, and of the
/// fifth, cluster-md, all bandwidths, rates and times, and the percentiles of five results of
/// twenty. That check found one wrong word: a `clat` where the report has `lat`. The reports
/// themselves are not part of this repository.
const EXPECTED: &str = include_str!("tests/expected.tsv");
/// Output of today's tools.
const FRESH: [(&str, &str); 6] = [
    ("fio", include_str!("tests/fio-3.33.txt")),
    ("dd", include_str!("tests/dd.txt")),
    ("hdparm", include_str!("tests/hdparm.txt")),
    ("bonnie++", include_str!("tests/bonnie-2.00a.txt")),
    ("bonnie++", include_str!("tests/bonnie-2.00a.csv")),
    ("iozone", include_str!("tests/iozone.txt")),
];

fn all(text: &str) -> (Document, Vec<Found>, Vec<(usize, String)>) {
    let document = Document::new(text);
    let (mut found, mut illegible) = (Vec::new(), Vec::new());
    for parser in [fio::read, dd::read, hdparm::read, bonnie::read, iozone::read, summary::read] {
        let reading = parser(&document);
        found.extend(reading.found);
        illegible.extend(reading.illegible);
    }
    (document, found, illegible)
}

/// The folder with the reports, if it is there.
fn reports() -> Option<PathBuf> {
    let named = std::env::var_os("EVENKEEL_BENCH_REPORTS").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reports");
    named.or(Some(beside)).filter(|path| path.is_dir())
}

fn close(expected: &str, found: Option<f64>, what: &str) {
    if expected.is_empty() {
        return;
    }
    let expected: f64 = expected.parse().unwrap();
    let found = found.unwrap_or_else(|| panic!("{what}: {expected} was not read"));
    assert!(agree(expected, found, 5e-4), "{what}: expected {expected}, read {found}");
}

/// Checks one line of the table. Returns how many figures it had.
fn check(columns: &[&str], document: &Document, found: &[Found]) {
    let (line, tool) = (columns[1].parse::<usize>().unwrap(), columns[2]);
    let what = columns[..4].join(" ");
    // A table of bonnie++ is found at its head, a few lines above the row.
    let reach = if tool.starts_with("bonnie") { 5 } else { 0 };
    let near = found.iter().filter(|found| {
        let at = document.line(found.at);
        let kind = match tool {
            "bonnie" | "bonnie-files" => "bonnie++",
            "summary" => "fio",
            other => other,
        };
        // The second direction of a mix stands some lines below the first.
        let below = if tool == "fio" { 4 } else { 0 };
        found.workload.tool == kind && at + reach + below >= line && at <= line
    });
    let parts: Vec<&Part> = near.flat_map(|found| &found.parts).collect();
    assert!(!parts.is_empty(), "{what}: nothing was read");
    match tool {
        "fio" => {
            let part = parts.iter().rev().find(|part| {
                part.name == columns[3]
                    && part
                        .bytes_per_second
                        .is_some_and(|rate| agree(rate, columns[4].parse().unwrap(), 5e-4))
            });
            let part = part.unwrap_or_else(|| panic!("{what}: {parts:?}"));
            close(columns[5], part.operations_per_second, &what);
            close(columns[6], part.seconds, &what);
            let latency = part.latency.clone().unwrap_or_default();
            close(columns[7], latency.mean, &what);
            let pairs: Vec<(f64, f64)> = columns[8]
                .split_whitespace()
                .map(|pair| pair.split_once('=').unwrap())
                .map(|(percentile, value)| (percentile.parse().unwrap(), value.parse().unwrap()))
                .collect();
            assert_eq!(latency.percentiles.len(), pairs.len(), "{what}");
            for (percentile, value) in pairs {
                let read = latency.at(percentile).unwrap();
                assert!(
                    (read - value).abs() <= 1e-5 * value.max(1.0),
                    "{what} {percentile}: {value}, {read}"
                );
            }
        }
        "dd" => {
            assert_eq!(parts[0].bytes, columns[4].parse().ok(), "{what}");
            close(columns[6], parts[0].seconds, &what);
            let (printed, unit) = columns[8].split_at(columns[8].len() - 1);
            let unit = if unit == "G" { 1e9 } else { 1e6 };
            let printed: f64 = printed.parse().unwrap();
            assert!(agree(parts[0].bytes_per_second.unwrap(), printed * unit, 0.02), "{what}");
        }
        "hdparm" => {
            assert!(parts[0].name.starts_with(columns[3]), "{what}");
            close(columns[4], parts[0].bytes_per_second.map(|rate| rate / 1_048_576.0), &what);
            close(columns[6], parts[0].seconds, &what);
        }
        "summary" => {
            close(columns[4], parts[0].bytes_per_second, &what);
            close(columns[5], parts[0].operations_per_second, &what);
            let latency = parts[0].latency.clone().unwrap();
            let told = if columns[3] == "clat" { latency.completion_mean } else { latency.mean };
            close(columns[7], told, &what);
        }
        _ => check_bonnie(columns, &parts, &what),
    }
}

fn check_bonnie(columns: &[&str], parts: &[&Part], what: &str) {
    let figures: Vec<&str> = columns[4].split(' ').step_by(2).collect();
    let latencies: Vec<f64> = columns[8]
        .split(' ')
        .map(|word| match word.strip_suffix("us") {
            Some(digits) => digits.parse::<f64>().unwrap(),
            None => word.trim_end_matches("ms").parse::<f64>().unwrap() * 1000.0,
        })
        .collect();
    let of = if columns[2] == "bonnie" {
        &parts[..figures.len()]
    } else {
        &parts[parts.len() - figures.len()..]
    };
    for ((part, figure), latency) in of.iter().zip(figures).zip(latencies) {
        let read = part.bytes_per_second.map(|rate| rate / 1024.0).or(part.operations_per_second);
        match figure {
            "+++++" => assert_eq!(read, None, "{what}"),
            figure => close(figure, read, what),
        }
        assert_eq!(part.latency.as_ref().and_then(|found| found.max), Some(latency), "{what}");
    }
}

#[test]
fn old_reports_are_read_as_a_person_reads_them() {
    let Some(folder) = reports() else {
        eprintln!("the reports are not here: name their folder in EVENKEEL_BENCH_REPORTS");
        return;
    };
    let mut files = HashMap::new();
    let mut count = 0;
    for line in EXPECTED.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let (document, found, _) = files
            .entry(columns[0])
            .or_insert_with(|| all(&std::fs::read_to_string(folder.join(columns[0])).unwrap()));
        check(&columns, document, found);
        count += 1;
    }
    assert_eq!(count, 180);
    // What is damaged in them is listed: a percentile, a table, a group's line, jobs' lines.
    let (_, _, illegible) = &files["cluster-md.txt"];
    for expected in [
        "percentiles are gone: 99.95th",
        "no table",
        "a group without figures",
        "the line of the job is gone",
    ] {
        assert!(
            illegible.iter().any(|(_, what)| what.contains(expected)),
            "{expected}: {illegible:?}"
        );
    }
    // Six of eight jobs of that report have no line; two have one that is wrapped.
    assert_eq!(files["network-storage.txt"].2.len(), 6);
    // What its author has told in a sentence, or left open.
    let (document, _, illegible) = &files["gluster.txt"];
    let lines: Vec<usize> = illegible.iter().map(|(at, _)| document.line(*at)).collect();
    assert_eq!(lines.len(), 9, "{lines:?}");
    for line in [41, 42, 43, 165, 166, 228, 229, 230, 238] {
        assert!(lines.contains(&line), "{line}: {lines:?}");
    }
    assert!(files["drbd.txt"].2.is_empty() && files["md-raid1.txt"].2.is_empty());
}

#[test]
fn the_output_of_todays_tools_is_read_without_a_gap() {
    for (tool, text) in FRESH {
        let (_, found, illegible) = all(text);
        assert!(illegible.is_empty(), "{tool}: {illegible:?}");
        assert!(found.iter().all(|found| found.workload.tool == tool), "{tool}: {found:?}");
        let parts: usize = found.iter().map(|found| found.parts.len()).sum();
        let expected = match tool {
            "fio" | "hdparm" => 2,
            "dd" => 3,
            "bonnie++" => 12,
            _ => 26,
        };
        assert_eq!(parts, expected, "{tool}: {found:?}");
    }
    let (_, found, _) = all(FRESH[0].1);
    let latency = found[0].parts[1].latency.clone().unwrap();
    assert_eq!((found[0].parts[1].name.as_str(), latency.percentiles.len()), ("write", 17));
}

#[test]
fn rounds_of_one_command_are_one_row() {
    let results = read("dd.txt", FRESH[1].1);
    assert_eq!(results.rows.iter().map(|row| row.samples.len()).collect::<Vec<_>>(), [3]);
    let json = results.to_json();
    assert_eq!(Results::from_json(&json), Ok(results));
}

/// Every figure of a text, as text: to see whether damage made up one that was not there.
fn figures(found: &[Found]) -> Vec<String> {
    let mut figures = Vec::new();
    let mut add = |part: &Part, what: &str, value: Option<f64>| {
        figures.extend(value.map(|value| format!("{} {what} {value:.6e}", part.name)));
    };
    for part in found.iter().flat_map(|found| &found.parts) {
        add(part, "bandwidth", part.bytes_per_second);
        add(part, "rate", part.operations_per_second);
        add(part, "time", part.seconds);
        if let Some(latency) = &part.latency {
            add(
                part,
                "mean",
                latency.mean.filter(|_| part.operations.is_none_or(|count| count > 0.0)),
            );
            add(part, "longest", latency.max);
            for (percentile, value) in &latency.percentiles {
                add(part, &format!("p{percentile}"), Some(*value));
            }
        }
    }
    figures
}

/// Bandwidths and times that stand in the status of fio 2's runs: read there if a direction's own
/// lines are gone, and rounded in another way than those.
fn figures_of_status(text: &str) -> Vec<String> {
    let pattern = r"(READ|WRITE): io=\S+ aggrb=([\d.]+)KB/s,.*\bmaxt=(\d+)msec";
    let status = regex::Regex::new(pattern).expect("a pattern");
    let lines = status.captures_iter(text).flat_map(|captures| {
        let value = |index: usize| captures[index].parse::<f64>().expect("a number");
        let name = captures[1].to_lowercase();
        let bandwidth = format!("{name} bandwidth {:.6e}", value(2) * 1024.0);
        [bandwidth, format!("{name} time {:.6e}", value(3) / 1000.0)]
    });
    lines.collect()
}

fn texts() -> Vec<String> {
    let mut texts: Vec<String> = FRESH.iter().map(|(_, text)| (*text).to_owned()).collect();
    if let Some(folder) = reports() {
        let names =
            ["drbd.txt", "gluster.txt", "md-raid1.txt", "network-storage.txt", "cluster-md.txt"];
        texts.extend(
            names.iter().filter_map(|name| std::fs::read_to_string(folder.join(name)).ok()),
        );
    }
    texts
}

/// What a conversion does to a text: lines lost, joined, wrapped, doubled blanks, strewn signs. At
/// most two lines are lost, as they were: three can leave the records of one run of dd right above
/// the outcome of the next, and nobody could tell that they are not its own.
fn damage(text: &str, what: &[(u8, usize)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut lost = 0;
    for (kind, place) in what {
        if lines.is_empty() {
            break;
        }
        let at = place % lines.len();
        match kind % 6 {
            0 if lost < 2 && text.contains(&format!("{}\n", lines[at])) => {
                lost += 1;
                lines.remove(at);
            }
            0 => {}
            1 if at + 1 < lines.len() => {
                let next = lines.remove(at + 1);
                lines[at] = format!("{} {}", lines[at], next.trim_start());
            }
            2 => {
                if let Some(blank) = lines[at].trim_end().rfind(", ") {
                    let rest = lines[at].split_off(blank + 1);
                    lines.insert(at + 1, rest.trim_start().to_owned());
                }
            }
            3 => lines[at] = lines[at].replace(", ", ",   "),
            4 => lines[at] = format!("${}$", lines[at].replace("[ ", r"[\ ")),
            _ => lines.insert(at, "```".to_owned()),
        }
    }
    lines.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    /// Whatever a conversion does, no figure appears that was not there.
    #[test]
    fn damage_loses_figures_but_makes_none_up(
        which in 0_usize..100,
        what in prop::collection::vec((any::<u8>(), any::<usize>()), 1..6),
    ) {
        let texts = texts();
        let text = &texts[which % texts.len()];
        let mut known = figures(&all(text).1);
        known.extend(figures_of_status(text));
        for figure in figures(&all(&damage(text, &what)).1) {
            prop_assert!(known.contains(&figure), "made up: {}", figure);
        }
    }

    /// Any bytes at all are read without a panic.
    #[test]
    fn mutated_bytes_are_read_without_a_panic(
        which in 0_usize..100,
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..40),
        cut in any::<usize>(),
    ) {
        let texts = texts();
        let mut bytes = texts[which % texts.len()].clone().into_bytes();
        for (place, byte) in changes {
            let at = place % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(cut % (bytes.len() + 1));
        read("mutated", &String::from_utf8_lossy(&bytes));
    }

    /// A digit of bandwidth, rate or time that was changed is noticed by the other two.
    #[test]
    fn a_changed_digit_of_a_first_line_is_noticed(digit in 0_usize..8, value in 0_u32..10) {
        let line = "  write: IOPS=37.5k, BW=147MiB/s (154MB/s)(1468MiB/10007msec)\n";
        let whole = format!("j: (g=0): rw=write, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1\nj: (groupid=0, jobs=1): err= 0: pid=1\n{line}");
        let places: Vec<usize> = whole.match_indices(['3', '7', '5', '1', '4']).map(|(at, _)| at).filter(|at| *at > whole.find("IOPS=").unwrap()).collect();
        let at = places[digit % places.len()];
        let mut changed = whole.clone();
        changed.replace_range(at..=at, &value.to_string());
        let (_, found, illegible) = all(&changed);
        if !illegible.iter().any(|(_, what)| what.contains("contradict") || what.contains("damaged")) {
            let part = &found[0].parts[0];
            prop_assert!(agree(part.bytes_per_second.unwrap(), 154.14e6, 0.03), "{changed}");
            prop_assert!(agree(part.operations_per_second.unwrap(), 37_500.0, 0.03), "{changed}");
        }
    }
}
