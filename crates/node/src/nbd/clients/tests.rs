use super::*;

const MUSIC: VolumeId = VolumeId(1);
const OTHER: VolumeId = VolumeId(2);

#[test]
fn a_volume_takes_so_many_and_again_when_one_has_left() {
    let clients = Clients::new(2);
    let first = clients.admit(MUSIC).unwrap();
    let second = clients.admit(MUSIC).unwrap();
    assert!(!clients.has_room(MUSIC) && clients.admit(MUSIC).is_none());
    assert!(clients.admit(OTHER).is_some(), "volumes do not count for one another");
    drop(first);
    assert!(clients.has_room(MUSIC));
    let third = clients.admit(MUSIC).unwrap();
    assert!(clients.admit(MUSIC).is_none());
    drop((second, third));
    assert!(clients.lock().is_empty(), "volumes without clients are not kept");
}
