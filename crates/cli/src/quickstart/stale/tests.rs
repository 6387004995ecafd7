use super::*;

#[test]
fn a_living_quickstart_is_left_alone_and_a_dead_one_is_removed() {
    let parent = tempfile::tempdir().unwrap();
    let living = Scratch::create(parent.path()).unwrap();
    let dead = parent.path().join(format!("{PREFIX}1"));
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join(LOCK), "").unwrap();
    fs::write(dead.join("data"), "left").unwrap();
    fs::write(parent.path().join("other"), "not ours").unwrap();

    let mut told = Vec::new();
    clean(parent.path(), |path| told.push(path.to_owned())).unwrap();

    assert_eq!(told, std::slice::from_ref(&dead));
    assert!(!dead.exists());
    assert!(living.path().exists());
    assert!(parent.path().join("other").exists());
}
