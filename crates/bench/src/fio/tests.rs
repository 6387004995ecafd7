use super::*;

const JSON: &str = r#"fio: a note before the JSON
{"fio version":"fio-3.33","jobs":[{"jobname":"x","error":0,"usr_cpu":10.0,"sys_cpu":15.0,
"job_runtime":2000,
"read":{"io_bytes":0,"total_ios":0,"iops":0.0},
"write":{"io_bytes":8192000,"bw_bytes":4096000,"iops":1000.0,"runtime":2000,"total_ios":2000,
 "lat_ns":{"min":20000,"max":900000,"mean":31000.0},
 "clat_ns":{"mean":30000.0,"percentile":{"99.000000":80000,"50.000000":29000,"0.00":0}}},
"trim":{"total_ios":0}}]}
and a note behind"#;

#[test]
fn json_becomes_a_sample() {
    let sample = parse(JSON, 3).unwrap();
    assert_eq!((sample.round, sample.parts.len()), (3, 1));
    let part = &sample.parts[0];
    assert_eq!((part.name.as_str(), part.operations_per_second), ("write", Some(1000.0)));
    assert_eq!((part.seconds, part.operations), (Some(2.0), Some(2000.0)));
    let latency = part.latency.as_ref().unwrap();
    assert_eq!(latency.percentiles, [(50.0, 29.0), (99.0, 80.0)]);
    assert_eq!((latency.mean, latency.completion_mean), (Some(31.0), Some(30.0)));
    assert_eq!(sample.client_cpu_seconds, Some(0.5));
}

#[test]
fn damaged_json_is_an_error_and_never_a_panic() {
    let end = JSON.rfind('}').unwrap() + 1;
    for length in 0..JSON.len() {
        assert_eq!(parse(&JSON[..length], 1).is_ok(), length >= end, "{length}");
    }
    let failed = JSON.replace("\"error\":0", "\"error\":28");
    assert!(parse(&failed, 1).unwrap_err().contains("28"));
    assert!(parse("{\"jobs\":[]}", 1).is_err());
}

#[test]
fn the_command_line_names_the_target_last() {
    let job = FioJob { flush_every: 1, ..FioJob::timed("randwrite", 4096, 32, 1 << 28, 1500) };
    let reach = Reach::Nbd { socket: "/tmp/x.sock".into(), export: "bench".into() };
    let words = arguments("w", &job, &reach, None).join(" ");
    assert!(words.contains("--ioengine=nbd --direct=1 --rw=randwrite --bs=4k --iodepth=32"));
    assert!(words.contains("--size=256M") && words.contains("--fsync=1"), "{words}");
    assert!(words.ends_with("--name=w --uri=nbd+unix:///bench?socket=/tmp/x.sock"), "{words}");
    let files = Reach::Files(vec!["/a".into(), "/b".into()]);
    let words = arguments("w", &job, &files, None).join(" ");
    assert!(words.ends_with("--name=w-0 --filename=/a --name=w-1 --filename=/b"), "{words}");
}

#[test]
fn rate_logs_of_jobs_are_summed() {
    let logs =
        ["100, 10, 1, 4096, 0\n200, 20, 1, 4096, 0\n".to_owned(), "101, 5, 1\nx\n".to_owned()];
    assert_eq!(series(&logs), [(0.1, 15.0), (0.2, 20.0)]);
}

#[test]
fn a_stall_is_drawn_and_a_late_line_of_the_log_is_none() {
    let late = series(&["100, 10, 1\n300, 10, 1\n400, 9, 1\n".to_owned()]);
    assert_eq!(late.len(), 3, "{late:?}");
    let stalled = series(&["100, 10, 1\n400, 10, 1\n".to_owned()]);
    let times: Vec<f64> = stalled.iter().map(|(_, rate)| *rate).collect();
    assert_eq!(times, [10.0, 0.0, 0.0, 10.0], "{stalled:?}");
}

#[test]
fn a_flush_after_each_write_has_a_latency_of_its_own() {
    let flushes = r#""sync":{"total_ios":148,"lat_ns":{"min":74931,"max":21828719,"mean":2247394.5,"N":148,"percentile":{"50.000000":209920,"99.000000":11468800}}},"write":"#;
    let sample = parse(&JSON.replacen("\"write\":", flushes, 1), 1).unwrap();
    let flush = sample.parts.iter().find(|part| part.name == "flush").unwrap();
    assert_eq!(flush.latency.as_ref().unwrap().percentiles, [(50.0, 209.92), (99.0, 11_468.8)]);
    // It is no operation of the workload, and none of its bytes.
    let plain = parse(JSON, 1).unwrap();
    assert_eq!(sample.operations(), plain.operations());
    let rate = crate::result::Measure::OperationsPerSecond;
    assert_eq!(sample.figure(rate), plain.figure(rate));
}
