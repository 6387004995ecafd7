use crate::replica::log::intent_log::tests::{log, write};

#[test]
#[should_panic(expected = "W6: ")]
fn a_region_that_is_not_stable_is_not_closed() {
    let mut log = log(4);
    write(&mut log, 1, 1);
    log.close(1);
}
