use super::*;

fn request(how: AttachHow, read_only: bool) -> AttachRequest {
    AttachRequest { how, read_only, ..AttachRequest::default() }
}

fn by_nbd(read_only: bool) -> Shown {
    Shown { nbd: Some(WantedNbd { read_only, ..WantedNbd::default() }), ..Shown::default() }
}

fn by_device() -> Shown {
    Shown { device: true, ..Shown::default() }
}

/// As after a restart of the daemon, when a command is the first to attach it.
#[test]
fn what_is_shown_takes_writes_as_it_was_asked() {
    use AttachHow::{Auto, Device, Nbd, None as Nothing};
    let (takes, refuses) = (
        Some(", by an NBD export that takes writes"),
        Some(", by an NBD export that refuses writes"),
    );
    let both = Shown { device: true, ..by_nbd(true) };
    for (shown, how, read_only, otherwise) in [
        (by_nbd(false), Nbd, true, takes),
        (by_nbd(false), Auto, true, takes),
        (by_nbd(false), Nbd, false, None),
        (by_nbd(true), Nbd, false, refuses),
        (by_nbd(true), Auto, false, refuses),
        (by_nbd(true), Nbd, true, None),
        (by_nbd(true), Auto, true, None),
        (both.clone(), Auto, false, None),
        (both, Device, false, None),
        (by_device(), Nothing, true, Some(", by what takes writes")),
        (by_nbd(false), Nothing, true, Some(", by what takes writes")),
        (by_nbd(true), Nothing, true, None),
        (by_nbd(true), Nothing, false, None),
    ] {
        assert_eq!(
            shown_otherwise(&shown, &request(how, read_only)),
            otherwise,
            "{how:?}, {shown:?}"
        );
    }
}

/// A block device takes writes: it is not what was asked for.
#[test]
fn nobody_gets_a_device_who_wants_it_read_only() {
    let otherwise = shown_otherwise(&by_device(), &request(AttachHow::Auto, true));
    assert_eq!(otherwise, Some(", by a block device, which takes writes"));
    // An export beside it is made for who asks for one.
    assert_eq!(shown_otherwise(&by_device(), &request(AttachHow::Nbd, true)), None);
    assert!(!adds_nothing(&by_device(), &request(AttachHow::Nbd, true)));
    assert!(adds_nothing(&by_device(), &request(AttachHow::Auto, false)));
    assert_eq!(asked(&request(AttachHow::Auto, true)), by_nbd(true));
}

#[test]
fn only_a_mount_by_a_device_takes_what_is_there() {
    let by_mount = |how| AttachRequest { mount: Some("one".into()), ..request(how, false) };
    assert!(takes_what_is_there(&by_mount(AttachHow::Device)));
    for how in [AttachHow::Auto, AttachHow::Nbd, AttachHow::None] {
        assert!(!takes_what_is_there(&by_mount(how)), "{how:?}");
    }
    assert!(!takes_what_is_there(&request(AttachHow::Device, false)));
}
