use super::*;

fn options(name: &str, size: u64, block_size: u32) -> Options {
    Options {
        name: name.to_owned(),
        size: Arc::new(AtomicU64::new(size)),
        block_size,
        kind: None,
        resume: false,
    }
}

#[test]
fn names_can_not_lead_out_of_the_directory() {
    for name in ["", ".", "..", "../x", "a/b", ".hidden", "a b", "ä", &"x".repeat(65)] {
        let refused = check(&options(name, 4096, 512));
        assert!(matches!(refused, Err(AttachError::Name(_))), "{name}");
    }
    for name in ["a", "data-1", "a.b_c", &"x".repeat(64)] {
        assert!(check(&options(name, 4096, 512)).is_ok(), "{name}");
    }
}

#[test]
fn sizes_are_whole_blocks() {
    for (size, block_size) in [(0, 512), (513, 512), (4096, 1024), (512, 4096), (1 << 63, 512)] {
        let refused = check(&options("a", size, block_size));
        assert!(matches!(refused, Err(AttachError::Geometry { .. })), "{size} {block_size}");
    }
}

#[test]
fn what_is_not_attached_can_not_be_detached() {
    let directory = tempfile::tempdir().unwrap();
    let place =
        Place { runtime: directory.path().join("run"), devices: directory.path().join("dev") };
    let error = detach(&place, "nothing").unwrap_err();
    assert_eq!(error.to_string(), "no volume 'nothing' is attached on this node");
}
