use crate::disk::invariants::tests::breaks;

#[test]
fn each_slot_has_its_own_table() {
    breaks("as that of another one", |disk| disk.tables.0.swap(0, 1));
    breaks("as that of another one", |disk| drop(disk.tables.0.pop()));
}
