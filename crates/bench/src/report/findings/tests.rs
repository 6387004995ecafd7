use super::*;
use crate::report::{html, markdown, terminal};
use crate::result::{FORMAT, Machine, Measure, Part, Row, Sample, Skipped, VERSION, Workload};

/// A run without a row yet: raw, 2 files at once, and these configurations with two copies.
fn run(names: &[&str]) -> Results {
    let known = |id: &str, family, copies| Configuration {
        id: id.to_owned(),
        name: id.to_owned(),
        family,
        copies,
        access: String::new(),
        cache: String::new(),
        durable_flush: Durable::Yes,
        note: String::new(),
        setup: Vec::new(),
        verified: Some(true),
    };
    let mut configurations = vec![known("raw", Family::Raw, 1), known("files", Family::Limit, 2)];
    configurations.extend(names.iter().map(|name| known(name, Family::Evenkeel, 2)));
    Results {
        format: FORMAT.to_owned(),
        version: VERSION,
        origin: Origin::Measured,
        profile: "quick".to_owned(),
        started: String::new(),
        seconds: 180.0,
        software: String::new(),
        command: "evenkeel bench quick --rounds=3 --out there --seconds 1".to_owned(),
        scale: 1.0,
        machine: Machine { processors: 2, ..Machine::default() },
        method: Vec::new(),
        configurations,
        workloads: Vec::new(),
        rows: Vec::new(),
        skipped: Vec::new(),
        illegible: Vec::new(),
    }
}

/// A workload of writes with the rates of each configuration's rounds, each of so many seconds.
fn with(mut results: Results, id: &str, seconds: f64, rates: &[(&str, &[f64])]) -> Results {
    results.workloads.push(Workload {
        id: id.to_owned(),
        name: id.to_owned(),
        tool: "fio".to_owned(),
        measure: Measure::OperationsPerSecond,
        writes: true,
    });
    let sample = |(round, rate): (u32, &f64)| Sample {
        round,
        parts: vec![Part {
            name: "write".to_owned(),
            operations: Some(rate * seconds),
            operations_per_second: Some(*rate),
            seconds: Some(seconds),
            ..Part::default()
        }],
        ..Sample::default()
    };
    results.rows.extend(rates.iter().map(|(name, rates)| Row {
        configuration: (*name).to_owned(),
        workload: id.to_owned(),
        command: String::new(),
        cache: String::new(),
        samples: (1..).zip(*rates).map(sample).collect(),
        summary: None,
    }));
    stats::summarize_all(&mut results);
    results
}

const RAW: (&str, &[f64]) = ("raw", &[1000.0, 1010.0, 1020.0]);

fn said(results: &Results) -> [String; 3] {
    Findings::of(results).sentences()
}

fn warned(results: &Results) -> Vec<String> {
    Findings::of(results).warnings.iter().map(Warning::sentence).collect()
}

#[test]
fn the_fastest_is_named_for_each_workload_for_which_it_is_ahead() {
    let quick: &[f64] = &[410.0, 415.0, 420.0];
    let slow: &[f64] = &[300.0, 305.0, 310.0];
    let mut run =
        with(run(&["two", "three"]), "small", 1.0, &[RAW, ("two", quick), ("three", slow)]);
    run = with(run, "flush", 1.0, &[RAW, ("two", slow), ("three", quick)]);
    run = with(run, "large", 1.0, &[RAW, ("two", quick), ("three", &[408.0, 416.0, 421.0])]);
    run = with(run, "more", 1.0, &[RAW, ("two", quick), ("three", slow)]);
    assert_eq!(
        said(&run)[0],
        "Which is fastest: two for small and for more; three for flush; no difference that this \
         run can show for large."
    );
    assert_eq!(warned(&run), [""; 0]);
}

#[test]
fn a_difference_within_the_spread_is_none() {
    // By the medians 20 % apart, but the slowest round of the one is slower than the other's
    // fastest.
    let wide: &[f64] = &[300.0, 480.0, 500.0];
    let run = with(
        run(&["two", "three"]),
        "w",
        1.0,
        &[RAW, ("two", wide), ("three", &[398.0, 400.0, 402.0])],
    );
    assert_eq!(said(&run)[0], "Which is fastest: no difference that this run can show for w.");
    // Apart, but by less than the rounds of the one lie apart.
    let far = with(
        super::tests::run(&["two", "three"]),
        "w",
        1.0,
        &[RAW, ("two", &[404.0, 480.0, 600.0]), ("three", &[398.0, 400.0, 402.0])],
    );
    assert_eq!(said(&far)[0], "Which is fastest: no difference that this run can show for w.");
    // Quiet rounds, but less than five percent.
    let near = with(
        super::tests::run(&["two", "three"]),
        "w",
        1.0,
        &[RAW, ("two", &[404.0, 405.0, 406.0]), ("three", &[400.0, 401.0, 402.0])],
    );
    assert_eq!(said(&near)[0], "Which is fastest: no difference that this run can show for w.");
}

#[test]
fn less_time_for_each_operation_is_faster() {
    let mut run = with(
        run(&["two", "three"]),
        "w",
        1.0,
        &[RAW, ("two", &[400.0, 401.0, 402.0]), ("three", &[200.0, 201.0, 202.0])],
    );
    run.workloads[0].measure = Measure::SecondsPerOperation;
    assert_eq!(said(&run)[0], "Which is fastest: two for w.");
}

#[test]
fn one_configuration_alone_is_not_the_fastest() {
    let run = with(run(&["two"]), "w", 1.0, &[RAW, ("two", &[400.0, 405.0, 410.0])]);
    assert_eq!(
        said(&run)[0],
        "Which is fastest: two is the only one of its kind here, with nothing to compare it with; \
         `--with peers` adds what is installed."
    );
    assert_eq!(said(&run)[1], "What replication costs: two reaches 40 % of raw for w.");
}

#[test]
fn what_failed_is_not_compared_and_is_named() {
    let rates: &[f64] = &[400.0, 405.0, 410.0];
    let mut run = with(run(&["two", "three"]), "w", 1.0, &[RAW, ("two", rates)]);
    run = with(run, "v", 1.0, &[RAW, ("two", rates), ("three", &[500.0])]);
    run = with(run, "u", 1.0, &[RAW, ("two", rates), ("three", &[500.0, 505.0, 510.0])]);
    run.skipped.push(Skipped {
        what: "drbd".to_owned(),
        why: "no".to_owned(),
        remedy: String::new(),
    });
    let said = said(&run);
    assert_eq!(
        said[0],
        "Which is fastest: three for u; too few rounds to compare two for w and for v."
    );
    assert!(
        said[2].contains("three lacks rounds in 2 of 3 workloads; the data of 4 configurations read back right; one thing was left out"),
        "{said:?}"
    );
}

#[test]
fn without_a_row_beside_raw_nothing_is_fastest() {
    let bare = with(run(&["two"]), "w", 1.0, &[RAW]);
    assert_eq!(said(&bare)[0], "Which is fastest: nothing beside the raw disk has a figure.");
    assert_eq!(
        said(&bare)[1],
        "What replication costs: nothing that keeps copies has enough rounds."
    );
    let empty = run(&["two"]);
    assert_eq!(warned(&empty), ["There are no figures: nothing can be concluded."]);
    assert_eq!(said(&empty)[0], "Which is fastest: nothing beside the raw disk has a figure.");
    assert!(said(&empty)[2].starts_with("How sure: there are no rounds;"), "{:?}", said(&empty));
}

#[test]
fn costs_are_a_range_of_ratios_to_raw_beside_what_the_disk_allows() {
    let files: (&str, &[f64]) = ("files", &[1100.0, 1111.0, 1122.0]);
    let rows = [RAW, files, ("two", &[400.0, 404.0, 408.0]), ("three", &[270.0, 272.7, 275.4])];
    let run = with(run(&["two", "three"]), "4k-randwrite-d32", 1.0, &rows);
    assert_eq!(
        said(&run)[1],
        "What replication costs: those with copies reach 27 % to 40 % of raw for 4k-randwrite-d32; \
         without any replication, 2 files at once reach 55 % of raw each for 4k-randwrite-d32."
    );
    let near: &[f64] = &[1000.0, 1012.0, 1020.0];
    let run = with(run, "4k-randread-d32", 1.0, &[RAW, ("two", near)]);
    let cost = &said(&run)[1];
    assert!(
        cost.contains("no difference from raw that this run can show for 4k-randread-d32"),
        "{cost}"
    );
}

#[test]
fn faster_than_raw_is_said_in_the_same_way() {
    let run = with(run(&["two"]), "w", 1.0, &[RAW, ("two", &[1500.0, 1515.0, 1530.0])]);
    assert_eq!(said(&run)[1], "What replication costs: two reaches 150 % of raw for w.");
}

#[test]
fn without_raw_a_single_copy_is_the_reference_and_is_named() {
    let rates: &[f64] = &[800.0, 808.0, 816.0];
    let mut run =
        with(run(&["one", "two"]), "w", 1.0, &[("one", rates), ("two", &[400.0, 404.0, 408.0])]);
    assert_eq!(
        said(&run)[1],
        "What replication costs: neither the raw disk nor a single copy has enough rounds to \
         compare with."
    );
    run.configurations[2].copies = 1;
    assert_eq!(said(&run)[1], "What replication costs: two reaches 50 % of one for w.");
    // With few rounds of the reference nothing is relative to it.
    run.rows[0].samples.truncate(1);
    assert!(said(&run)[1].contains("neither the raw disk nor a single copy"), "{:?}", said(&run));
}

#[test]
fn one_round_draws_no_conclusion() {
    for rounds in [1, 2] {
        let rates = [400.0, 410.0];
        let rows: [(&str, &[f64]); 3] = [
            ("raw", &[1000.0, 1000.0][..rounds]),
            ("two", &rates[..rounds]),
            ("three", &[200.0, 200.0][..rounds]),
        ];
        let run = with(run(&["two", "three"]), "w", 1.0, &rows);
        let said = said(&run);
        assert_eq!(said[0], "Which is fastest: this run cannot say.");
        assert_eq!(said[1], "What replication costs: this run cannot say.");
        assert!(
            said[2].contains("`evenkeel bench quick --out there --rounds 9 --seconds 2`"),
            "{said:?}"
        );
        let warning = &warned(&run)[0];
        assert!(warning.starts_with("Nothing can be concluded: "), "{warning}");
        assert_eq!(warning.contains("each figure is of one round alone"), rounds == 1, "{warning}");
        // It stands before everything else, wherever it is shown.
        assert!(terminal::page(&run, 80).starts_with("WARNING: Nothing can be"));
        assert!(markdown::page(&run).contains("\n\n> **Warning.** Nothing can be"));
        let page = html::page(&[run]);
        let at = |what: &str| page.find(what).unwrap();
        assert!(at("<p class=\"warning\"") < at("<figure class=\"picture unsure\""));
    }
}

#[test]
fn rounds_of_a_moment_draw_no_conclusion() {
    let rates: &[f64] = &[400.0, 405.0, 410.0];
    let short = with(run(&["two"]), "w", 0.2, &[RAW, ("two", rates)]);
    assert!(warned(&short)[0].contains("no round took more than 0.20 s"), "{:?}", warned(&short));
    assert_eq!(said(&short)[1], "What replication costs: this run cannot say.");
    // What fio reports for one second is often a few milliseconds less.
    assert_eq!(warned(&with(run(&["two"]), "w", 0.998, &[RAW, ("two", rates)])), [""; 0]);
    let patchy = with(run(&["two"]), "w", 0.2, &[RAW, ("two", rates)]);
    let patchy = with(patchy, "v", 1.0, &[RAW, ("two", &rates[..2])]);
    assert!(
        warned(&patchy)[0].contains("so many rounds failed or were too short"),
        "{:?}",
        warned(&patchy)
    );
}

#[test]
fn rounds_that_overlap_everywhere_draw_no_conclusion() {
    let wide: &[f64] = &[300.0, 900.0, 1100.0];
    let run = with(
        run(&["two", "three"]),
        "w",
        1.0,
        &[("raw", &[400.0, 1000.0, 1200.0]), ("two", wide), ("three", wide)],
    );
    assert_eq!(
        warned(&run),
        [
            "Nothing can be concluded: whatever is compared, the rounds of one overlap those of the other."
        ]
    );
    assert_eq!(said(&run)[0], "Which is fastest: this run cannot say.");
}

#[test]
fn what_returns_wrong_data_is_neither_fast_nor_silent() {
    let rates: &[f64] = &[400.0, 405.0, 410.0];
    let mut run = with(
        run(&["two", "three"]),
        "w",
        1.0,
        &[RAW, ("two", rates), ("three", &[900.0, 901.0, 902.0])],
    );
    assert_eq!(said(&run)[0], "Which is fastest: three for w.");
    run.configurations[3].verified = Some(false);
    assert_eq!(
        warned(&run),
        ["Data did NOT read back right from three: it is left out of the sentences below."]
    );
    assert!(said(&run)[0].starts_with("Which is fastest: two is the only one"), "{:?}", said(&run));
    assert_eq!(said(&run)[1], "What replication costs: two reaches 40 % of raw for w.");
}

#[test]
fn who_answers_flushes_from_memory_is_fastest_with_that_said() {
    let rows: [(&str, &[f64]); 3] =
        [RAW, ("two", &[400.0, 405.0, 410.0]), ("three", &[900.0, 901.0, 902.0])];
    let mut run = with(run(&["two", "three"]), "w", 1.0, &rows);
    run.configurations[3].durable_flush = Durable::No;
    assert_eq!(
        said(&run)[0],
        "Which is fastest: three (whose answered flush is not on the disk) for w."
    );
}

#[test]
fn a_peer_of_one_copy_is_not_compared_with_those_of_several() {
    let rates: &[f64] = &[400.0, 405.0, 410.0];
    let mut run = with(
        run(&["two", "three", "one"]),
        "w",
        1.0,
        &[RAW, ("two", rates), ("three", &[300.0, 301.0, 302.0]), ("one", &[900.0, 901.0, 902.0])],
    );
    run.configurations[4].copies = 1;
    assert_eq!(said(&run)[0], "Which is fastest of those that keep copies: two for w.");
}

#[test]
fn how_sure_tells_rounds_spread_and_who_disturbed() {
    let mut run = with(
        run(&["two"]),
        "w",
        1.0,
        &[("raw", &[1000.0, 1010.0, 1020.0, 1030.0]), ("two", &[400.0, 404.0, 444.4])],
    );
    run.machine.load_average = Some(1.5);
    run.machine.foreign_load = Some(0.13);
    assert_eq!(
        said(&run)[2],
        "How sure: 3 to 4 rounds of each, 1.0 s long; the rounds of a figure lie 7.0 % apart by \
         the median and 11 % at the worst (two, w); others used the machine (load 1.5 on 2 \
         processors when it began); 13 % of all processor time went to others and to kernel \
         threads; two lacks rounds in 1 of 1 workloads; the data of 3 configurations read back \
         right. Surer: `evenkeel bench quick --out there \
         --rounds 12 --seconds 2`, about 15 min 0 s."
    );
}

#[test]
fn an_imported_text_of_single_results_draws_no_conclusion() {
    let rates: &[f64] = &[400.0];
    let mut run = with(run(&["two", "three"]), "w", 10.0, &[("two", rates), ("three", &[500.0])]);
    run.origin = Origin::Imported;
    run.configurations.iter_mut().for_each(|known| {
        (known.family, known.copies, known.verified) = (Family::Imported, 1, None)
    });
    let known = said(&run);
    assert!(warned(&run)[0].contains("each figure is of one round alone"), "{:?}", warned(&run));
    assert_eq!(
        known[2],
        "How sure: one result of each, 10.0 s long. Surer, measured here: `evenkeel bench quick --with peers`."
    );
    // What was repeated is compared.
    run.rows.iter_mut().for_each(|row| {
        let first = row.samples[0].clone();
        row.samples = (1..=3).map(|round| Sample { round, ..first.clone() }).collect();
    });
    assert_eq!(said(&run)[0], "Which is fastest: three for w.");
    assert!(said(&run)[1].contains("the text does not say which"), "{:?}", said(&run));
}

#[test]
fn the_picture_has_bars_and_whiskers_in_proportion() {
    let run = with(
        run(&["two"]),
        "w",
        1.0,
        &[("raw", &[900.0, 1000.0, 1250.0]), ("two", &[360.0, 400.0, 500.0])],
    );
    let panels = Findings::of(&run).panels;
    let [raw, two] = &panels[0].bars[..] else { panic!("{panels:?}") };
    assert!((raw.length - 0.8).abs() < 1e-9 && (two.length - 0.32).abs() < 1e-9, "{panels:?}");
    assert_eq!(raw.rounds.map(|(_, high)| high), Some(1.0));
    assert_eq!(
        (two.label.as_str(), two.reach.as_deref()),
        ("40 % of raw", Some("rounds from 36 % to 50 %"))
    );
    let text = terminal::picture(&Findings::of(&run), 100);
    assert!(
        text.contains("  two ██████▍               40 % of raw   rounds from 36 % to 50 %\n"),
        "{text}"
    );
    let narrow = terminal::page(&run, 60);
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
}
