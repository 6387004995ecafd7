use super::*;

fn files(directory: &Path, contents: &[&[(u64, &[u8])]], length: u64) -> Vec<PathBuf> {
    contents
        .iter()
        .enumerate()
        .map(|(index, extents)| {
            let path = directory.join(index.to_string());
            let file = File::create(&path).unwrap();
            file.set_len(length).unwrap();
            for (offset, bytes) in *extents {
                file.write_all_at(bytes, *offset).unwrap();
            }
            path
        })
        .collect()
}

#[test]
fn holes_are_the_same_as_zeroes_and_headers_do_not_count() {
    let scratch = tempfile::tempdir().unwrap();
    let zeroes = [0u8; 4096];
    let paths = files(
        scratch.path(),
        &[
            &[(0, b"header 1"), (9 << 20, b"data")],
            &[(0, b"header 2"), (9 << 20, b"data"), (5 << 20, &zeroes)],
        ],
        16 << 20,
    );
    let verdict = compare(&paths, 1 << 20, 15 << 20).unwrap();
    assert_eq!(verdict.difference, None);
    assert!(verdict.read >= 1 << 20 && verdict.read < 15 << 20, "{}", verdict.read);
}

#[test]
fn the_first_difference_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let paths = files(
        scratch.path(),
        &[&[(9 << 20, b"data")], &[(9 << 20, b"data")], &[(9 << 20, b"dath")]],
        16 << 20,
    );
    let verdict = compare(&paths, 1 << 20, 15 << 20).unwrap();
    assert_eq!(verdict.difference, Some(((8 << 20) + 3, paths[2].clone())));
}
