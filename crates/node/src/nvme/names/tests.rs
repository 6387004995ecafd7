use super::*;

#[test]
fn names_have_a_form() {
    let good = [
        "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555",
        "nqn.2026-11.org.example:host1",
        "nqn.2026-11.example",
        "nqn.2026-01.org.example:größe",
    ];
    for name in good {
        assert_eq!(check(name), Ok(()), "{name}");
    }
    let long = format!("nqn.2026-11.org.example:{}", "x".repeat(200));
    let bad = [
        "",
        "host1",
        "nqn.",
        "nqn.2026-13.org.example:a",
        "nqn.2026-00.org.example:a",
        "nqn.26-11.org.example:a",
        "nqn.+026-11.org.example:a",
        "nqn.2026-+1.org.example:a",
        "nqn.2026-11",
        "nqn.2026-11.:a",
        "nqn.2026-11.org..example:a",
        "nqn.2026-11.org.example:",
        "nqn.2026-11.org.example:a b",
        "nqn.2026-11.org.example:a\n",
        "nqn.2026-11.org.example:a\0",
        "NQN.2026-11.org.example:a",
        &long,
    ];
    for name in bad {
        let why = check(name).expect_err(name);
        assert!(why.contains("/etc/nvme/hostnqn"), "{why}");
    }
    assert_eq!(check(&long[..223]), Ok(()));
    let longer = "é".repeat(100_000);
    assert!(check(&longer).unwrap_err().len() < 1000);
    assert_eq!((shown("a"), shown(&longer).chars().count()), ("\"a\"".to_owned(), 226));
}

#[test]
fn a_subsystem_has_one_name() {
    let volume = VolumeId(0x1234_5678_9abc);
    let name = subsystem(volume);
    assert_eq!(name, "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-123456789abc");
    assert_eq!(super::volume(&name), Some(volume));
    for other in [name.to_uppercase(), name.replace('-', ""), "nqn.other".to_owned()] {
        assert_eq!(super::volume(&other), None, "{other}");
    }
    assert_eq!(serial(VolumeId(u128::MAX - 1)), "ffffffffffffffffffff");
}
