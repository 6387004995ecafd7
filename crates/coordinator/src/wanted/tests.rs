use super::*;

#[test]
fn what_is_made_for_a_mount_is_for_all_that_have_found_it() {
    let mut made = ForMount::new(Made::Attachment, "one".into());
    assert!(made.is_only_for("one") && !made.is_only_for("two"));
    made.add("two".into());
    made.add("two".into());
    made.add("one".into());
    assert!(!made.is_only_for("one") && !made.is_only_for("two"));
    made.remove("unknown");
    made.remove("one");
    assert!(made.is_only_for("two"));
    made.remove("two");
    assert!(made.is_only_for("two"), "whoever takes it away needs to know for whom it was");
    made.leave_attachment();
    assert_eq!(made.made(), Made::Device);
}

#[test]
fn mounts_that_never_say_that_they_have_failed_do_not_fill_the_memory() {
    let mut made = ForMount::new(Made::Device, "0".into());
    for number in 1..100 {
        made.add(number.to_string());
    }
    assert_eq!((&*made.token, made.others.len()), ("84", MAX_MOUNTS - 1));
    assert_eq!(made.others.last().map(String::as_str), Some("99"));
}

/// Neither by older software, nor from it.
#[test]
fn one_mount_is_stored_as_before() {
    let stored = r#"{"made":"device","token":"one"}"#;
    let made = ForMount::new(Made::Device, "one".into());
    assert_eq!(serde_json::to_string(&made).unwrap(), stored);
    assert_eq!(serde_json::from_str::<ForMount>(stored).unwrap(), made);
}
