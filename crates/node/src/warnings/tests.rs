use super::*;

#[test]
fn of_warnings_the_newest_are_kept_each_once() {
    let mut warnings = Vec::new();
    for at in 0..100 {
        keep(&mut warnings, Warning { at, text: format!("warning {}", at.min(90)), until: None });
    }
    assert_eq!(warnings.len(), MAX_WARNINGS);
    let last = Warning { at: 99, text: "warning 90".into(), until: None };
    assert_eq!(warnings.last(), Some(&last));
    assert_eq!(warnings[0].text, "warning 27");
}

#[test]
fn of_a_volume_that_is_still_to_be_shown_the_last_warning_is_kept() {
    let warning = |text: &str, volume: Option<u128>| Warning {
        at: 1,
        text: text.into(),
        until: volume.map(|id| Until::Shown(VolumeId(id))),
    };
    let mut warnings = Vec::new();
    for (text, volume) in
        [("evicted", Some(1)), ("a disk is gone", None), ("no device", Some(1)), ("other", Some(2))]
    {
        keep(&mut warnings, warning(text, volume));
    }
    let texts: Vec<_> = warnings.iter().map(|warning| &*warning.text).collect();
    assert_eq!(texts, ["a disk is gone", "no device", "other"]);
}

#[test]
fn that_a_volume_is_not_attached_here_any_more_is_over_when_it_is() {
    let warnings = Warnings::default();
    warnings.warn_until_attached(VolumeId(1), "volume music is not attached here any more".into());
    warnings.warn_until_attached(VolumeId(2), "volume film is not attached here any more".into());
    warnings.warn("a disk is gone".into());
    warnings.attached(VolumeId(1));
    let left: Vec<_> = warnings.past(|_| false).into_iter().map(|warning| warning.text).collect();
    assert_eq!(left, ["volume film is not attached here any more", "a disk is gone"]);
}
