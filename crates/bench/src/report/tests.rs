use super::*;
use crate::report::{charts, compare, html, markdown, plot, terminal};
use crate::result::{
    Durable, Family, Illegible, Latency, Machine, Origin, Part, Sample, Skipped, VERSION,
};
use crate::stats;

/// A small run: raw, the limit of two, a mirror that reaches `speed` of raw; three rounds.
fn run(speed: f64) -> Results {
    let configuration = |id: &str, name: &str, family, copies| Configuration {
        id: id.to_owned(),
        name: name.to_owned(),
        family,
        copies,
        access: "file".to_owned(),
        cache: "direct I/O".to_owned(),
        durable_flush: Durable::Yes,
        note: "<note>".to_owned(),
        setup: vec!["make it".to_owned()],
        verified: Some(true),
    };
    let row = |id: &str, factor: f64| Row {
        configuration: id.to_owned(),
        workload: "4k-randwrite-d32".to_owned(),
        command: format!("fio --name={id}"),
        cache: "direct I/O".to_owned(),
        samples: (1..=3).map(|round| sample(round, factor)).collect(),
        summary: None,
    };
    let mut results = Results {
        format: crate::result::FORMAT.to_owned(),
        version: VERSION,
        origin: Origin::Measured,
        profile: "quick".to_owned(),
        started: "2026-11-20T20:00:00Z".to_owned(),
        seconds: 170.0,
        software: "0".to_owned(),
        command: "evenkeel bench quick".to_owned(),
        scale: 1.0,
        machine: Machine { kernel: "6".to_owned(), foreign_load: Some(0.02), ..Machine::default() },
        method: vec!["fio generates the load.".to_owned()],
        configurations: vec![
            configuration("raw", "raw file", Family::Raw, 1),
            configuration("limit-2", "2 raw files at once", Family::Limit, 2),
            configuration("mirror-2", "evenkeel mirror(2)", Family::Evenkeel, 2),
        ],
        workloads: vec![Workload {
            id: "4k-randwrite-d32".to_owned(),
            name: "4K random write, depth 32".to_owned(),
            tool: "fio".to_owned(),
            measure: Measure::OperationsPerSecond,
            writes: true,
        }],
        rows: vec![row("raw", 1.0), row("limit-2", 0.9), row("mirror-2", speed)],
        skipped: vec![Skipped {
            what: "drbd".to_owned(),
            why: "no <module>".to_owned(),
            remedy: String::new(),
        }],
        illegible: vec![Illegible { line: 7, what: "a | b".to_owned() }],
    };
    stats::summarize_all(&mut results);
    results
}

fn sample(round: u32, factor: f64) -> Sample {
    let rate = 80_000.0 * factor * (1.0 + f64::from(round) / 100.0);
    let percentiles = [1.0, 50.0, 99.0, 99.9, 99.99].map(|at: f64| (at, 300.0 / factor + at * at));
    let latency =
        Latency { mean: Some(400.0), percentiles: percentiles.to_vec(), ..Latency::default() };
    Sample {
        round,
        parts: vec![Part {
            name: "write".to_owned(),
            operations: Some(rate),
            seconds: Some(1.0),
            operations_per_second: Some(rate),
            bytes_per_second: Some(rate * 4096.0),
            latency: Some(latency),
            ..Part::default()
        }],
        client_cpu_seconds: Some(0.3),
        server_cpu_seconds: (factor < 0.9).then_some(0.5),
        machine_cpu_seconds: Some(1.0),
        series: (1..10).map(|tenth| (f64::from(tenth) / 10.0, rate)).collect(),
    }
}

#[test]
fn every_page_begins_with_the_picture_and_the_sentences() {
    let results = run(0.4);
    let cost = "evenkeel mirror(2) reaches 40 % of raw for 4K random write, depth 32";
    let (text, page, marked) = (
        terminal::page(&results, 132),
        html::page(std::slice::from_ref(&results)),
        markdown::page(&results),
    );
    let order = |page: &str, marks: [&str; 4]| {
        let places = marks.map(|mark| page.find(mark).unwrap_or_else(|| panic!("{mark}: {page}")));
        assert!(places.is_sorted(), "{marks:?} at {places:?}: {page}");
    };
    order(&text, ["4K random write, depth 32, as a part of raw", "Which is", "How sure", "p99"]);
    order(&page, ["<figure class=\"picture\"", "Which is", "How sure", "<th>of raw</th>"]);
    order(&marked, ["```text\n4K random write", "Which is", "How sure", "| configuration |"]);
    // A broken line on the terminal is still the same sentence.
    for page in [text.replace('\n', " "), page, marked] {
        assert!(page.contains(cost), "{page}");
        assert!(!page.contains("slower") && !page.contains("costs 60 %"), "{page}");
    }
}

#[test]
fn the_page_stands_alone_and_has_tables_and_charts() {
    let page = html::page(&[run(0.4)]);
    assert_eq!(page.matches("<svg").count(), 2);
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert!(page.contains("<polyline") && page.contains("fio --name=mirror-2"));
    for outside in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("no &lt;module&gt;") && !page.contains("<module>"));
    assert!(!page.contains("NaN") && !page.contains("inf"), "a figure is none");
}

#[test]
fn the_picture_has_a_bar_for_each_configuration_but_the_limit() {
    let picture = plot::picture(&run(0.4));
    assert_eq!(picture.matches("class=\"own\"").count(), 1);
    assert_eq!(picture.matches("class=\"raw\"").count(), 1);
    assert!(picture.contains("89 % of limit") && picture.ends_with("</svg>\n"), "{picture}");
}

#[test]
fn the_terminal_and_markdown_show_every_row() {
    let results = run(0.4);
    let table = terminal::page(&results, 132);
    assert!(table.contains("evenkeel mirror(2)") && table.contains("left out: drbd"), "{table}");
    assert!(table.contains("of limit       p50       p99    CPU/op\n"), "{table}");
    let narrow = terminal::page(&results, 80);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains("of raw") && !narrow.contains("CPU/op"), "{narrow}");
    let page = markdown::page(&results);
    assert!(page.contains("| evenkeel mirror(2) | 32.6 k/s |"), "{page}");
    assert!(page.contains("a \\| b"), "{page}");
}

#[test]
fn only_what_is_beyond_the_noise_has_changed() {
    let same = compare::changes(&run(0.4), &run(0.41));
    assert!(same.iter().all(|change| !change.counts), "{same:?}");
    let slower = compare::changes(&run(0.4), &run(0.3));
    let counted: Vec<_> = slower.iter().filter(|change| change.counts).collect();
    assert_eq!(counted.len(), 1);
    assert!((counted[0].faster + 0.25).abs() < 1e-6);
    assert!(compare::text(&run(0.4), &run(0.3)).contains("SLOWER    75 % of before"));
    let json: serde_json::Value =
        serde_json::from_str(&compare::json(&run(0.4), &run(0.3))).unwrap();
    assert_eq!(json[2]["counts"], true, "{json}");
    assert!(compare::text(&run(0.4), &run(0.4)).contains("none changed"));
}

#[test]
fn single_rounds_have_changed_nothing_and_another_machine_is_named() {
    let single = |speed: f64| {
        let mut one = run(speed);
        one.rows.iter_mut().for_each(|row| row.samples.truncate(1));
        stats::summarize_all(&mut one);
        one
    };
    let changes = compare::changes(&single(0.4), &single(0.2));
    assert!(changes.iter().all(|change| !change.counts), "{changes:?}");
    let mut other = single(0.2);
    other.machine.kernel = "7".to_owned();
    let text = compare::text(&single(0.4), &other);
    assert!(text.starts_with("Rows of fewer than 3 rounds show no change"), "{text}");
    assert!(text.contains("The machine is not the same (6 → 7)"), "{text}");
    assert!(!compare::text(&run(0.4), &run(0.2)).contains("not the same"));
}

#[test]
fn one_round_has_no_spread_and_no_median() {
    let mut one = run(0.4);
    one.rows.iter_mut().for_each(|row| row.samples.truncate(1));
    stats::summarize_all(&mut one);
    let page = html::page(std::slice::from_ref(&one));
    assert!(!page.contains("<th>median</th>") && page.contains("<th>one round</th>"));
    assert!(!page.contains("medians of the rounds"));
    let page = markdown::page(&one);
    assert!(page.contains("| evenkeel mirror(2) | 32.3 k/s | – |"), "{page}");
    assert!(markdown::page(&run(0.4)).contains("| evenkeel mirror(2) | 32.6 k/s | 2.0 % |"));
}

#[test]
fn a_figure_beside_a_failed_reference_is_not_relative_to_it() {
    let mut failed = run(0.4);
    failed.rows[0].samples.truncate(1);
    stats::summarize_all(&mut failed);
    let mirror = failed.row("mirror-2", "4k-randwrite-d32").unwrap();
    assert_eq!(mirror.summary.as_ref().unwrap().to_raw, None);
    // Nor is its bar, beside one of raw; the picture has none either.
    let page = html::page(std::slice::from_ref(&failed));
    let (_, row) = page.split_once("<tbody>\n<tr><td><span class=\"what\">raw file").unwrap();
    let (_, row) = row.split_once("<span class=\"what\">evenkeel mirror(2)").unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    assert!(row.contains("<td class=\"bar\"></td>") && row.contains("<td>–</td>"), "{row}");
    assert_eq!(plot::picture(&failed).matches("class=\"own\"").count(), 0);
}

#[test]
fn bars_beyond_raw_keep_their_proportion() {
    let page = html::page(&[run(1.6)]);
    let table = page.split_once("<th>of raw</th>").unwrap().1;
    assert!(table.contains("class=\"c0\" style=\"width:62.5%\""), "{table}");
    assert!(table.contains("class=\"c2\" style=\"width:100.0%\""), "{table}");
}

#[test]
fn what_an_older_version_summed_up_is_renewed_from_the_rounds() {
    let mut old = run(0.4);
    for row in &mut old.rows {
        row.samples.iter_mut().for_each(|sample| sample.parts[0].operations = Some(900.0));
    }
    assert!(old.rows[2].summary.as_ref().unwrap().p99.is_some());
    stats::summarize_all(&mut old);
    assert_eq!(old.rows[2].summary.as_ref().unwrap().p99, None);
    // The latency of writes is not that of writes with a flush after each.
    let mut flushed = run(0.4);
    flushed.rows[2].command += " --fsync=1 --name=x";
    stats::summarize_all(&mut flushed);
    assert_eq!(flushed.rows[2].summary.as_ref().unwrap().p50, None);
    assert!(flushed.rows[0].summary.as_ref().unwrap().p50.is_some());
    // Without rounds there is nothing to renew it from.
    let said = old.rows[2].summary.clone();
    old.rows[2].samples.clear();
    stats::summarize_all(&mut old);
    assert_eq!(old.rows[2].summary, said);
}

#[test]
fn empty_results_make_a_page_too() {
    let mut empty = run(0.4);
    empty.rows.clear();
    empty.configurations.clear();
    stats::summarize_all(&mut empty);
    assert!(html::page(&[empty.clone()]).contains("</html>"));
    assert!(charts::series("none", &[]).contains("<svg"));
    assert_eq!(compare::changes(&empty, &run(1.0)), []);
}

#[test]
fn later_versions_are_refused_by_number() {
    let later = run(0.4).to_json().replacen("\"version\": 1", "\"version\": 2", 1);
    assert!(Results::from_json(&later).unwrap_err().contains("version 2"));
    assert!(Results::from_json("{}").is_err() && Results::from_json("x").is_err());
    let results = run(0.4);
    assert_eq!(Results::from_json(&results.to_json()), Ok(results));
}
