use super::*;
use crate::output::volume::tests::volume;

#[test]
fn of_a_volume_that_is_mounted_elsewhere_it_is_said_where_it_is_attached() {
    let mut music = volume();
    music.primaries[0].here = false;
    let failure = not_here("music", &[music.clone()]);
    assert_eq!(failure.why, "it is attached on node n1, not on this one");
    assert_eq!(failure.remedy, "unmount it on node n1: evenkeel umount music");
    assert_eq!(failure.exit, Exit::Unsafe);
    music.primaries.clear();
    assert_eq!(not_here("music", &[music.clone()]).why, "it is not attached");
    let other = not_here("/srv", &[music]);
    assert_eq!(other.exit, Exit::NotFound);
    assert!(other.what.starts_with("`/srv` is neither a volume attached here"), "{}", other.what);
}

#[test]
fn of_one_without_a_device_it_is_said_how_to_end_its_use() {
    let mut music = volume();
    music.primaries[0].device = None;
    let failure = not_here("music", &[music]);
    assert!(failure.why.starts_with("it has no block device on this node"), "{}", failure.why);
    assert_eq!(failure.remedy, "to end its use: evenkeel detach music");
}
