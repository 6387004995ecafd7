use super::*;

#[test]
fn values_are_filled_in_and_encoded() {
    assert_eq!(fill(VOLUME, &["a b/c"]), "/v1/volumes/a%20b%2Fc");
    assert_eq!(
        fill(REPLICA, &["web", "alpha:disk1", "re-add"]),
        "/v1/volumes/web/replicas/alpha:disk1/re-add"
    );
}
