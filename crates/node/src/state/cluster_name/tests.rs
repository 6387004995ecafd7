use super::*;

#[test]
fn a_rename_outlives_a_restart_until_the_configuration_says_something_else() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(directory.path()).unwrap();
    let name = ClusterName::load(&state, "old").unwrap();
    let shared = name.clone();
    assert!(name.set(&state, "new").unwrap());
    assert!(!name.set(&state, "new").unwrap(), "it is no news");
    assert_eq!(shared.get(), "new");
    assert_eq!(ClusterName::load(&state, "old").unwrap().get(), "new");
    assert_eq!(ClusterName::load(&state, "other").unwrap().get(), "other");
}

#[test]
fn a_name_changes_more_than_once() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(directory.path()).unwrap();
    for name in ["second", "third"] {
        ClusterName::load(&state, "first").unwrap().set(&state, name).unwrap();
        assert_eq!(ClusterName::load(&state, "first").unwrap().get(), name);
    }
}
