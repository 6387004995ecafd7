use super::check_sources;
use crate::trips::trips;
use crate::view::tests::view;

#[test]
fn a_takeover_has_one_source_in_each_mirror() {
    check_sources(&view(2, 1));
    trips("V4", || check_sources(&view(1, 2)));
}
