use super::*;

#[test]
fn a_volume_too_small_for_xfs_is_told_so_in_one_sentence() {
    let failure = refuse_too_small("small", 256 << 20).unwrap_err();
    let expected = "evenkeel: no xfs filesystem was made on volume `small`\n  \
                    why: it has 256M, which is too small for XFS\n  \
                    do:  choose --mkfs ext4, or a volume of at least 300M\n";
    assert_eq!(failure.render(), expected);
    assert!(refuse_too_small("small", 300 << 20).is_ok());
}

#[test]
fn the_advice_fits_the_size() {
    let directory = tempfile::tempdir().unwrap();
    let args = MountArgs {
        name: "small".into(),
        directory: "/srv/small".into(),
        mkfs: None,
        options: None,
        beside_exports: false,
    };
    for (size, kind) in [(256 << 20, "ext4"), (300 << 20, "xfs")] {
        let device = directory.path().join("device");
        File::create(&device).unwrap().set_len(size).unwrap();
        let expected = format!("make one: evenkeel mount small /srv/small --mkfs {kind}");
        assert_eq!(carries_nothing(&args, &device).remedy, expected);
    }
}

#[test]
fn the_usage_of_mkfs_is_left_out() {
    let said = "Filesystem must be larger than 300MB.\nUsage: mkfs.xfs\n/* blocksize */ [-b n]";
    let failure = without_usage(Failure::new("`mkfs.xfs -q /dev/loop0` failed", said));
    assert_eq!(failure.why, "Filesystem must be larger than 300MB.");
    let only = without_usage(Failure::new("failed", "Usage: mkfs.xfs"));
    assert_eq!(only.why, "Usage: mkfs.xfs");
}

#[test]
fn nobody_repairs_a_filesystem_because_its_last_mount_has_not_ended() {
    let said = "mount: /srv: wrong fs type, bad option, bad superblock on /dev/loop6";
    let failure = not_mounted(Failure::new("`mount -t xfs /dev/loop6 /srv` failed", said), "xfs");
    let text = failure.render();
    assert!(text.contains("\n  do:  see the end of `dmesg`"), "{text}");
    assert!(text.contains("`duplicate UUID`, the filesystem is well"), "{text}");
    let other = not_mounted(Failure::new("`mount` failed", said), "ext4").render();
    assert!(other.contains("do:  see the end of `dmesg`") && !other.contains("UUID"), "{other}");
}

#[test]
fn what_was_made_before_a_mount_was_refused_is_said() {
    let failure = made(Failure::new("not mounted", "a client uses it"), Filesystem::Ext4);
    assert_eq!(failure.why, "a client uses it; the ext4 filesystem was made");
    let stopped = made(Failure::new("stopped by Ctrl-C", ""), Filesystem::Xfs);
    assert_eq!(stopped.why, "the xfs filesystem was made");
}
