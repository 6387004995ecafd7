use super::*;

#[test]
fn sizes_are_read_as_people_write_them() {
    for (text, bytes) in [
        ("512", 512),
        ("4K", 4096),
        ("4k", 4096),
        ("4KiB", 4096),
        ("64MB", 64 << 20),
        ("1.5G", 3 << 29),
        ("0.5T", 1 << 39),
        ("2P", 2 << 50),
    ] {
        assert_eq!(parse_size(text), Ok(bytes), "{text}");
    }
}

#[test]
fn what_is_no_size_is_refused() {
    for text in ["", "G", "4X", "-1", "1..5G", "99999999P", ".5G", "1e3", "4 Q"] {
        assert!(parse_size(text).is_err(), "{text}");
    }
    assert_eq!(parse_size("0"), Err("the size is zero".to_owned()));
}

#[test]
fn spans_are_shown_in_their_two_largest_units() {
    for (milliseconds, text) in [
        (420, "0.42 s"),
        (11_000, "11 s"),
        (125_000, "2 min 5 s"),
        (120_000, "2 min"),
        (12_000_000, "3 h 20 min"),
        (352_800_000, "4 d 2 h"),
    ] {
        assert_eq!(span(Duration::from_millis(milliseconds)), text);
    }
}

#[test]
fn spans_are_read() {
    assert_eq!(parse_span("30"), Ok(Duration::from_secs(30)));
    assert_eq!(parse_span("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(parse_span("5m"), Ok(Duration::from_secs(300)));
    assert!(parse_span("soon").is_err());
}

#[test]
fn the_size_of_a_volume_wants_a_unit() {
    assert_eq!(parse_volume_size("4G"), Ok(4 << 30));
    assert_eq!(parse_volume_size("1000B"), Ok(1000));
    assert_eq!(parse_volume_size("4194304"), Ok(4 << 20));
    let asked = parse_volume_size("1000").unwrap_err();
    assert_eq!(asked, "1000 what? write 1000G, 1000M, or 1000B if bytes are meant");
}

#[test]
fn what_happens_without_the_coordinator_is_read() {
    assert_eq!(parse_no_coordinator("suspend"), Ok(NoCoordinator::Suspend));
    assert_eq!(parse_no_coordinator("2m"), Ok(NoCoordinator::Fail { seconds: 120 }));
    for wrong in ["never", "0", "500ms", "1500ms", "2d"] {
        assert!(parse_no_coordinator(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_happens_without_data_is_read() {
    assert_eq!(parse_no_data("error"), Ok(NoData::Error));
    assert_eq!(parse_no_data("2m"), Ok(NoData::Suspend { seconds: 120 }));
    for wrong in ["suspend", "0", "500ms", "2d"] {
        assert!(parse_no_data(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_no_number_or_out_of_range_is_told_in_words() {
    let copies = parse_number::<u16>(1, 16);
    assert_eq!(copies("3"), Ok(3));
    for wrong in ["zwei", "0", "17", "-1", "99999999999999999999"] {
        assert_eq!(copies(wrong), Err(format!("`{wrong}` is not a number from 1 to 16")));
    }
    assert_eq!(parse_size("-5G").unwrap_err(), "`-5G` is negative, and a size is not");
    let much = parse_size("99999999T").unwrap_err();
    assert_eq!(much, "`99999999T` is more than a disk can have; write less than 16384P");
    assert!(parse_size("4X").unwrap_err().contains("is not a size"));
}
