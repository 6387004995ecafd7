use super::*;

#[test]
fn files_are_found_in_order_and_within_the_limit() {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir(tree.path().join("sub")).unwrap();
    fs::write(tree.path().join("b"), "bb").unwrap();
    fs::write(tree.path().join("a"), "a").unwrap();
    fs::write(tree.path().join("empty"), "").unwrap();
    fs::write(tree.path().join("sub/c"), "ccc").unwrap();
    std::os::unix::fs::symlink("a", tree.path().join("link")).unwrap();
    let found = find(Some(tree.path()), 64 << 20).unwrap();
    let names: Vec<_> =
        found.iter().map(|file| file.path.strip_prefix(tree.path()).unwrap().to_owned()).collect();
    assert_eq!(names, ["a", "b", "sub/c"].map(PathBuf::from));
    assert_eq!(found.iter().map(|file| file.size).sum::<u64>(), 6);
}

#[test]
fn an_empty_tree_is_no_data() {
    let tree = tempfile::tempdir().unwrap();
    assert!(find(Some(tree.path()), 64 << 20).is_err());
}
