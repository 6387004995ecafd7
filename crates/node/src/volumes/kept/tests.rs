use evenkeel_api::types::Verify;
use serde::Deserialize;

use super::*;
use crate::coordinator::{NoData, WantedOn};
use crate::volumes::verdict;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Count(u64);

impl Kind for Count {
    const KEY: &'static str = "counts";
    const NAME: &'static str = "counts";
}

fn record(verified: Option<Value>) -> VolumeRecord {
    VolumeRecord {
        id: String::new(),
        name: "music".into(),
        no_data: NoData::default(),
        replicas: Vec::new(),
        stopped: false,
        checksums: false,
        used_on: None,
        wanted_on: WantedOn::default(),
        verified,
        revision: 0,
        lost: Vec::new(),
    }
}

fn verify() -> Verify {
    serde_json::from_value(json!({
        "state": "done", "repair": false, "checked": 8, "total": 8, "alone": 8, "different": 0,
        "unreadable": 0, "repaired": 0, "ranges": [], "seconds": 1, "began": 950, "ended": 951,
    }))
    .unwrap()
}

fn counts(of: &[(&str, u64)]) -> Kept<Count> {
    let mut counts = Kept::default();
    for (replica, count) in of {
        counts.note((*replica).to_owned(), Count(*count), |last, new| last.0 += new.0);
    }
    counts
}

#[test]
fn it_stands_beside_the_verdict_and_older_software_reads_that() {
    let counts = counts(&[("a", 1), ("b", 2), ("a", 3)]);
    assert_eq!(counts.get("a"), Some(&Count(4)));
    let mut kept = serde_json::to_value(verify()).unwrap();
    counts.put_into(&mut kept);
    let record = record(Some(kept));
    assert_eq!(Kept::read(&record).unwrap(), counts);
    assert_eq!(verdict::kept(&record), Some(verify()));
}

#[test]
fn without_a_verdict_there_is_none() {
    let mut kept = json!({});
    counts(&[("a", 1)]).put_into(&mut kept);
    let record = record(Some(kept));
    assert_eq!(verdict::kept(&record), None);
    assert_eq!(Kept::<Count>::read(&record).unwrap().get("a"), Some(&Count(1)));
}

#[test]
fn what_is_not_there_is_nothing_and_what_cannot_be_read_is_an_error() {
    assert_eq!(Kept::<Count>::read(&record(None)).unwrap(), Kept::default());
    assert_eq!(Kept::<Count>::read(&record(Some(json!({})))).unwrap(), Kept::default());
    let error = Kept::<Count>::read(&record(Some(json!({"counts": {"a": "many"}})))).unwrap_err();
    let text = unreadable::<Count>("music", &error);
    assert!(text.starts_with("counts of volume music are not shown") && text.contains("many"));
}

#[test]
fn that_it_cannot_be_read_is_told_once() {
    let unreadable = Unreadable::default();
    let reported = [("a", "counts"), ("a", "counts"), ("b", "counts"), ("a", "others")];
    let reported = reported.map(|(volume, key)| unreadable.is_new(volume, key));
    assert_eq!(reported, [true, false, true, true]);
}

#[test]
fn no_more_is_kept_than_a_volume_has_replicas() {
    let ids: Vec<String> = (0..1000).map(|id| format!("{id:04}")).collect();
    let many: Vec<(&str, u64)> = ids.iter().map(|id| (id.as_str(), 1)).collect();
    let counts = counts(&many);
    assert_eq!(counts.0.len(), MAX_REPLICAS);
    assert_eq!(counts.get("0999"), Some(&Count(1)));
}
