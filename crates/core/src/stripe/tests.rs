use super::*;

const GEOMETRY: Geometry = Geometry { size: 10 << 20, block_size: 512, chunk: 64 << 10 };

#[test]
fn pieces_cover_the_request_once_and_no_two_bytes_share_a_place() {
    let mut seen = std::collections::BTreeSet::new();
    for (offset, length) in [(0, 1 << 20), ((1 << 20), 512), ((1 << 20) + 512, (9 << 20) - 512)] {
        let mut from = 0;
        for piece in pieces(GEOMETRY, 3, offset, length, 1 << 20) {
            assert_eq!(piece.from, from);
            assert!(piece.offset + u64::from(piece.length) <= replica_size(GEOMETRY, 3));
            from += u64::from(piece.length);
            for sector in (0..u64::from(piece.length)).step_by(512) {
                assert!(seen.insert((piece.mirror, piece.offset + sector)));
            }
        }
        assert_eq!(from, length);
    }
    assert_eq!(seen.len(), (10 << 20) / 512);
}

#[test]
fn one_mirror_is_linear() {
    let all: Vec<_> = pieces(GEOMETRY, 1, 4096, 3 << 20, 1 << 20).collect();
    assert_eq!(all.len(), 3);
    assert_eq!(
        all[1],
        Piece { mirror: 0, offset: 4096 + (1 << 20), length: 1 << 20, from: 1 << 20 }
    );
    assert_eq!(replica_size(GEOMETRY, 1), 10 << 20);
}

#[test]
fn a_replica_holds_whole_chunks() {
    let geometry = Geometry { size: (64 << 10) * 7 + 512, ..GEOMETRY };
    assert_eq!(replica_size(geometry, 2), 4 * (64 << 10));
}

#[test]
fn shares_are_the_pieces_put_together() {
    for (offset, length) in [(0, 10 << 20), (512, 512), (65536 - 512, 1024), (70000 * 512, 200_704)]
    {
        for mirrors in 1..=4 {
            let mut together = vec![None::<(u64, u64)>; mirrors];
            for piece in pieces(GEOMETRY, mirrors, offset, length, 1 << 20) {
                let end = piece.offset + u64::from(piece.length);
                let share = together[piece.mirror].get_or_insert((piece.offset, piece.offset));
                assert_eq!(share.1, piece.offset, "a gap");
                share.1 = end;
            }
            let shares: Vec<_> = shares(GEOMETRY, mirrors, offset, length).collect();
            let expected: Vec<_> = together
                .into_iter()
                .enumerate()
                .filter_map(|(mirror, share)| share.map(|(start, end)| (mirror, start..end)))
                .collect();
            assert_eq!(shares, expected);
        }
    }
}
