use super::*;

#[test]
fn each_number_leads_back_and_fits_its_field() {
    for status in Status::ALL {
        assert_eq!(Status::from_number(status.number()), Some(*status));
        assert!(status.number() < 1 << 11);
    }
    assert_eq!(Status::from_number(0x7ff), None);
}

#[test]
fn a_host_tries_again_elsewhere_what_a_path_refused() {
    let paths = Status::ALL.iter().filter(|status| status.number() >> 8 == 3);
    assert_eq!(paths.clone().count(), 4);
    assert!(paths.clone().all(|status| !status.is_final()));
    assert!(Status::InvalidField.is_final() && Status::ReservationConflict.is_final());
}
