use super::*;

const MUSIC: VolumeId = VolumeId(1);
const OTHER: VolumeId = VolumeId(2);

#[test]
fn a_volume_takes_so_many_and_again_when_one_has_left() {
    let clients = Clients::new(2);
    let mut next = 0;
    let mut admit = |volume| {
        next += 1;
        clients.admit(volume, FrontendId(next), Reported { client: Client::Unix, may_write: true })
    };
    let first = admit(MUSIC).unwrap();
    let second = admit(MUSIC).unwrap();
    assert!(!clients.has_room(MUSIC) && admit(MUSIC).is_none());
    assert!(admit(OTHER).is_some(), "volumes do not count for one another");
    drop(first);
    assert!(clients.has_room(MUSIC));
    let third = admit(MUSIC).unwrap();
    assert!(admit(MUSIC).is_none());
    drop((second, third));
    assert!(clients.lock().is_empty(), "volumes without clients are not kept");
}

#[test]
fn whoever_may_not_use_an_export_any_more_is_found() {
    let clients = Clients::new(9);
    let plain = Client::Tcp { tls: None, certificate: None };
    let held = [(MUSIC, 1, Client::Unix), (MUSIC, 2, plain.clone()), (OTHER, 3, plain)].map(
        |(volume, id, client)| {
            clients.admit(volume, FrontendId(id), Reported { client, may_write: true }).unwrap()
        },
    );
    let named = ["vm1".to_owned()];
    let unwanted = |volume, on_tcp| clients.unwanted(volume, Offered { on_tcp, read_only: false });
    assert_eq!(unwanted(MUSIC, Some(&[])), []);
    // It has shown nothing.
    assert_eq!(unwanted(MUSIC, Some(&named)), [FrontendId(2)]);
    assert_eq!(unwanted(MUSIC, None), [FrontendId(2)]);
    assert_eq!(unwanted(OTHER, None), [FrontendId(3)]);
    drop(held);
    assert_eq!(unwanted(MUSIC, None), []);
}

#[test]
fn whoever_may_write_is_not_wanted_where_it_is_read_only_now() {
    let clients = Clients::new(9);
    let held = [(1, true), (2, false)].map(|(id, may_write)| {
        clients.admit(MUSIC, FrontendId(id), Reported { client: Client::Unix, may_write }).unwrap()
    });
    assert_eq!(clients.unwanted(MUSIC, Offered { on_tcp: None, read_only: true }), [FrontendId(1)]);
    assert_eq!(
        clients.unwanted(MUSIC, Offered { on_tcp: None, read_only: false }),
        [],
        "who reads may go on reading"
    );
    drop(held);
}
