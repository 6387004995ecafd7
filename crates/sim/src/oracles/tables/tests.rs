use super::*;

fn table(open: &[u64]) -> OpenRegions {
    OpenRegions { slot: 0, region: 4096, open: open.to_vec() }
}

#[test]
fn what_a_save_has_named_is_found() {
    let mut tables = Tables::default();
    tables.saved(&table(&[1, 2]));
    assert!(tables.found(0, &[table(&[1, 2, 3])]).is_ok());
    // What was found counts from now on.
    assert!(tables.found(0, &[table(&[1, 2])]).is_err());
}

#[test]
fn what_a_save_closes_that_has_not_ended_may_be_found_either_way() {
    for found in [&[2][..], &[1, 2]] {
        let mut tables = Tables::default();
        tables.saved(&table(&[1, 2]));
        tables.begins(&table(&[2]));
        assert!(tables.found(0, &[table(found)]).is_ok());
    }
    let mut tables = Tables::default();
    tables.saved(&table(&[1, 2]));
    tables.begins(&table(&[2]));
    assert!(tables.found(0, &[]).is_err());
}
