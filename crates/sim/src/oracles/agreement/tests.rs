use super::*;

fn member(replica: usize) -> Member {
    Member {
        replica,
        in_sync: true,
        local: replica == 0,
        written: true,
        durable: false,
        received: true,
        excused: false,
    }
}

#[test]
fn under_c_every_member_must_have_written() {
    let mut members = [member(0), member(1)];
    assert!(check(Protocol::C, false, &members).is_ok());
    members[1].written = false;
    assert!(check(Protocol::C, false, &members).is_err());
    members[1].in_sync = false;
    assert!(check(Protocol::C, false, &members).is_err(), "a rebuilding one as well");
    members[1].excused = true;
    assert!(check(Protocol::C, false, &members).is_ok());
}

#[test]
fn under_b_the_remote_ones_must_have_received() {
    let mut members = [member(0), member(1)];
    members[1].written = false;
    assert!(check(Protocol::B, false, &members).is_ok());
    members[1].received = false;
    assert!(check(Protocol::B, false, &members).is_err());
}

#[test]
fn under_a_the_local_one_or_the_first_must_have_written() {
    let mut members = [member(0), member(1)];
    members[1].written = false;
    assert!(check(Protocol::A, false, &members).is_ok());
    members[0].written = false;
    members[1].written = true;
    assert!(check(Protocol::A, false, &members).is_err());
    members[0].local = false;
    assert!(check(Protocol::A, false, &members).is_ok());
    members[1].written = false;
    assert!(check(Protocol::A, false, &members).is_err());
}

#[test]
fn what_must_be_durable_is_durable_everywhere() {
    let mut members = [member(0), member(1)];
    assert!(check(Protocol::A, true, &members).is_err());
    members[0].durable = true;
    members[1].durable = true;
    assert!(check(Protocol::A, true, &members).is_ok());
}
