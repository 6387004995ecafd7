use super::*;

const GIB: u64 = 1 << 30;

#[test]
fn a_volume_takes_what_fits_unless_its_size_is_said() {
    assert_eq!(fitting(100 * GIB, None), Some(USUAL));
    assert_eq!(fitting(3 * USUAL + BESIDE, None), Some(USUAL));
    assert_eq!(fitting(3 * USUAL + BESIDE - 1, None), Some(USUAL - (256 << 20)));
    assert_eq!(fitting(7 * GIB, None), Some(2 * GIB + (256 << 20)));
    assert_eq!(fitting(3 * SMALLEST + BESIDE, None), Some(SMALLEST));
    assert_eq!(fitting(3 * SMALLEST + BESIDE - 1, None), None);
    assert_eq!(fitting(0, None), None);

    assert_eq!(fitting(7 * GIB, Some(2 * GIB)), Some(2 * GIB));
    assert_eq!(fitting(7 * GIB, Some(4 * GIB)), None);
    assert_eq!(fitting(100 * GIB, Some(8 * GIB)), Some(8 * GIB));
}

#[test]
fn a_quickstart_that_is_refused_leaves_nothing_behind() {
    let parent = tempfile::tempdir().unwrap();
    let scratch = Scratch::create(parent.path()).unwrap();
    let failure = volume_size(&scratch, Some(1 << 60)).unwrap_err();
    assert!(failure.render().contains("or a smaller volume with --size"), "{}", failure.render());
    drop(scratch);

    let args = QuickstartArgs {
        once: true,
        size: Some(1 << 60),
        scratch: Some(parent.path().to_owned()),
        ..QuickstartArgs::default()
    };
    let failure = run(&args).unwrap_err();
    assert!(failure.render().contains("not enough room in"), "{}", failure.render());
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}
