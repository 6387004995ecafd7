use super::*;

fn take(idle: &mut Idle<u32>, address: &Address) -> Option<u32> {
    idle.take(address, |_| false, |_| true)
}

#[test]
fn a_connection_in_use_when_the_certificate_is_renewed_is_not_kept_after_its_request() {
    let (mut idle, address) = (Idle::default(), Address::parse("a:1").unwrap());
    let old = idle.proof();
    idle.keep(&address, old, 1);
    idle.proved_anew();
    idle.keep(&address, old, 2);
    assert_eq!(take(&mut idle, &address), None);
    idle.keep(&address, idle.proof(), 3);
    assert_eq!(take(&mut idle, &address), Some(3));
    assert_eq!(take(&mut idle, &address), None);
}

#[test]
fn only_connections_that_are_wanted_and_have_not_ended_are_taken() {
    let (mut idle, address) = (Idle::default(), Address::parse("a:1").unwrap());
    (0..10).for_each(|number| idle.keep(&address, idle.proof(), number));
    assert_eq!(idle.take(&address, |number| *number < 2, |number| *number != 2), Some(3));
    idle.drop_those(|number| *number == 2);
    assert_eq!(take(&mut idle, &address), None, "four were kept, and two had ended");
}
