use super::*;

#[test]
fn of_warnings_the_newest_are_kept_each_once() {
    let mut warnings = Vec::new();
    for at in 0..100 {
        keep(&mut warnings, Warning { at, text: format!("warning {}", at.min(90)) });
    }
    assert_eq!(warnings.len(), MAX_WARNINGS);
    let last = Warning { at: 99, text: "warning 90".into() };
    assert_eq!(warnings.last(), Some(&last));
    assert_eq!(warnings[0].text, "warning 27");
}
