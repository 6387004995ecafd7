//! Stories of blocks whose checksums a replica has lost in a crash: nothing vouches for them there,
//! so what it holds is given only if nobody has it better, and never put in the place of a copy
//! that fits.

use std::time::Duration;

use evenkeel_core::primary::{Command, VerifyState, VerifyStatus};
use evenkeel_core::*;

use crate::cluster::{Cluster, replica};

const A_WHILE: Duration = Duration::from_secs(30);
const BLOCK: u64 = 3 << 20;

/// A mirror with data, of which some replicas have lost the checksum of one block. The first of
/// them has it damaged.
fn forgetful(replicas: usize, forgetful: &[usize]) -> (Cluster, usize) {
    let mut cluster = Cluster::new(1, replicas, Protocol::C);
    let primary = cluster.attach(9);
    cluster.write(primary, BLOCK - 65536, 7, 131_072);
    cluster.pass(A_WHILE);
    for r in forgetful {
        cluster.forgotten.insert((replica(0, *r), BLOCK));
    }
    cluster.corrupt(replica(0, forgetful[0]), BLOCK as usize + 9);
    (cluster, primary)
}

fn verify(cluster: &mut Cluster, primary: usize, source: Option<ReplicaId>) -> VerifyStatus {
    let command = cluster.command(primary, Command::Verify { repair: true, source });
    assert_eq!(cluster.commands[&command], Ok(()));
    cluster.pass(A_WHILE);
    let found = cluster.verify(primary);
    assert_eq!(found.state, VerifyState::Done);
    found
}

#[test]
fn a_repair_takes_the_copy_that_fits_its_checksum_whoever_is_named() {
    for (replicas, unknown) in [(2, vec![0]), (2, vec![1]), (3, vec![0, 1]), (3, vec![2, 0])] {
        for named in [None, Some(replica(0, unknown[0]))] {
            let (mut cluster, primary) = forgetful(replicas, &unknown);
            if let [_, other] = unknown[..] {
                // In the same way: a majority that nothing vouches for.
                cluster.corrupt(replica(0, other), BLOCK as usize + 9);
            }
            let found = verify(&mut cluster, primary, named);
            assert_eq!((found.different, found.undecided, found.repaired), (4096, 0, 4096));
            assert_eq!(found.overruled, if named.is_some() { 4096 } else { 0 });
            let wrong: Vec<_> = found.replicas.keys().copied().collect();
            let mut expected: Vec<_> = unknown.iter().map(|r| replica(0, *r)).collect();
            expected.sort_unstable();
            assert_eq!(wrong, expected);
            for r in 0..replicas {
                let block = &cluster.data(replica(0, r))[BLOCK as usize..][..4096];
                assert!(block == [7; 4096], "replica {r}");
            }
            assert!(cluster.forgotten.is_empty(), "what is written is known");
        }
    }
}

#[test]
fn of_copies_that_nothing_vouches_for_and_that_differ_none_is_written_until_one_is_named() {
    let (mut cluster, primary) = forgetful(2, &[0, 1]);
    let found = verify(&mut cluster, primary, None);
    assert_eq!((found.different, found.undecided, found.repaired), (4096, 4096, 0));
    let found = verify(&mut cluster, primary, Some(replica(0, 1)));
    assert_eq!((found.different, found.undecided, found.repaired), (4096, 0, 4096));
    assert_eq!(found.overruled, 0, "it counts");
    assert!(cluster.data(replica(0, 0))[BLOCK as usize..][..4096] == [7; 4096]);
    assert!(cluster.forgotten.is_empty());
}

/// Also if two of three agree: both may have been damaged, or written, before the third.
#[test]
fn more_copies_that_nothing_vouches_for_do_not_outvote_one() {
    for named in 0..3 {
        let (mut cluster, primary) = forgetful(3, &[0, 1, 2]);
        let before = [0, 1, 2].map(|r| cluster.data(replica(0, r)).to_vec());
        for _ in 0..3 {
            assert!(cluster.read(primary, BLOCK, 4096).is_some(), "it has to do");
            cluster.pass(A_WHILE);
        }
        let found = verify(&mut cluster, primary, None);
        assert_eq!((found.different, found.undecided, found.repaired), (4096, 4096, 0));
        assert_eq!(found.ranges[0].different, [0, 1, 2].map(|r| replica(0, r)));
        for (r, data) in before.iter().enumerate() {
            assert!(cluster.data(replica(0, r)) == data, "replica {r} was overwritten");
        }
        let found = verify(&mut cluster, primary, Some(replica(0, named)));
        assert_eq!((found.different, found.undecided, found.repaired), (4096, 0, 4096));
        assert_eq!(found.overruled, 0, "it counts");
        assert!((0..3).all(|r| cluster.data(replica(0, r)) == before[named]));
        assert!(cluster.forgotten.is_empty(), "what is written is known");
    }
}

/// Whichever replica is asked, from the first read on.
#[test]
fn a_read_returns_the_copy_that_fits_and_has_the_other_one_repaired() {
    for unknown in 0..2 {
        let (mut cluster, primary) = forgetful(2, &[unknown]);
        for _ in 0..4 {
            assert_eq!(cluster.read(primary, BLOCK, 4096), Some(vec![7; 4096]));
        }
        cluster.pass(A_WHILE);
        assert!(cluster.forgotten.is_empty());
        assert!(cluster.data(replica(0, 0)) == cluster.data(replica(0, 1)));
        assert_eq!(cluster.rewritten(primary), 1);
        let states = [0, 1].map(|r| cluster.state(replica(0, r)));
        assert_eq!(states, [ReplicaState::InSync; 2], "that counts against nobody");
    }
}

/// Long reads too: of several blocks each replica has lost the checksum of another one, or can't
/// read it.
#[test]
fn a_read_of_which_no_replica_vouches_for_all_is_answered_and_all_of_it_is_repaired() {
    for is_unreadable in [false, true] {
        let (mut cluster, primary) = forgetful(2, &[0]);
        let other = (replica(0, 1), BLOCK + 4096);
        match is_unreadable {
            true => cluster.unreadable.insert(other),
            false => cluster.forgotten.insert(other),
        };
        assert_eq!(cluster.read(primary, BLOCK - 4096, 16384), Some(vec![7; 16384]));
        cluster.pass(A_WHILE);
        assert!(cluster.forgotten.is_empty());
        assert_eq!(cluster.read(primary, BLOCK - 4096, 16384), Some(vec![7; 16384]));
        assert!(cluster.data(replica(0, 0)) == cluster.data(replica(0, 1)));
    }
}

/// The second copy comes late: its replica may be asked again for each block.
#[test]
fn blocks_are_asked_of_whoever_was_late_with_all_of_them() {
    let (mut cluster, primary) = forgetful(2, &[0]);
    cluster.forgotten.insert((replica(0, 1), BLOCK + 4096));
    cluster.coordinator_answers = false;
    cluster.frozen.insert(replica(0, 1));
    let operation = Operation::Read { offset: BLOCK - 4096, length: 16384 };
    let read = cluster.request(primary, operation);
    cluster.pass(deadline() + Duration::from_secs(1));
    cluster.thaw(replica(0, 1));
    cluster.pass(Duration::from_secs(1));
    let Ok(Reply::Data(pieces)) = &cluster.replies[&read] else { panic!("{read:?}") };
    assert!(pieces.iter().all(|(_, bytes)| bytes.as_slice().iter().all(|byte| *byte == 7)));
}

/// If all replicas agree nothing else can be right, so it becomes known again; nothing was wrong.
#[test]
fn what_all_replicas_hold_alike_is_written_once_and_known_again() {
    for replicas in [1, 2, 3] {
        let (mut cluster, primary) = forgetful(replicas, &[0]);
        cluster.corrupt(replica(0, 0), BLOCK as usize + 9);
        cluster.forgotten.extend((0..replicas).map(|r| (replica(0, r), BLOCK)));
        let before = cluster.bytes_written(replica(0, 0));
        for _ in 0..5 {
            assert_eq!(cluster.read(primary, BLOCK, 4096), Some(vec![7; 4096]));
            cluster.pass(A_WHILE);
        }
        assert!(cluster.forgotten.is_empty());
        assert_eq!(cluster.bytes_written(replica(0, 0)) - before, 4096);
        assert_eq!(cluster.rewritten(primary), 0, "it was right");
    }
}

/// One that is away may have the copy that fits. Until it is back nothing takes what is there for
/// known.
#[test]
fn while_a_replica_is_away_nothing_is_taken_for_known() {
    let (mut cluster, primary) = forgetful(2, &[0]);
    cluster.kill(replica(0, 1));
    cluster.pass(A_WHILE);
    assert!(cluster.read(primary, BLOCK, 4096).is_some(), "it has to do");
    cluster.pass(A_WHILE);
    assert_eq!(cluster.forgotten.len(), 1);
    cluster.restart(replica(0, 1), false);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.read(primary, BLOCK, 4096), Some(vec![7; 4096]));
}

/// Nobody knows what is right. A read is answered, and does not have the range compared each time.
#[test]
fn what_is_undecided_is_compared_once() {
    let (mut cluster, primary) = forgetful(2, &[0, 1]);
    for _ in 0..5 {
        assert!(cluster.read(primary, BLOCK, 4096).is_some());
        cluster.pass(A_WHILE);
    }
    assert_eq!(cluster.forgotten.len(), 2);
    assert_eq!(cluster.digests, 2, "each replica was asked once");
}

/// A replica that would have it better does not answer, and can't leave while the coordinator is
/// away. It may come back; and without it no read is answered for longer than the lease lasts.
#[test]
fn a_read_waits_for_a_replica_that_is_not_there_until_it_leaves() {
    let (mut cluster, primary) = forgetful(2, &[0]);
    cluster.coordinator_answers = false;
    cluster.kill(replica(0, 1));
    let read = cluster.request(primary, Operation::Read { offset: BLOCK, length: 4096 });
    cluster.pass(deadline());
    assert!(!cluster.replies.contains_key(&read));
    cluster.coordinator_answers = true;
    cluster.pass(Duration::from_secs(2));
    assert!(cluster.is_acknowledged(read));
}

/// The deadline of what a replica is asked for.
fn deadline() -> Duration {
    Settings::default().deadline
}

/// The first of some replicas has forgotten a block. The others leave a write unanswered, and can't
/// leave because the coordinator is away; after so long the block is read.
fn read_beside_late_replicas(replicas: usize, after: Duration) -> (Cluster, RequestId) {
    let (mut cluster, primary) = forgetful(replicas, &[0]);
    cluster.coordinator_answers = false;
    cluster.frozen.extend((1..replicas).map(|r| replica(0, r)));
    cluster.write(primary, 0, 8, 4096);
    cluster.pass(after);
    let read = cluster.request(primary, Operation::Read { offset: BLOCK, length: 4096 });
    assert!(!cluster.replies.contains_key(&read), "the others may vouch for it");
    (cluster, read)
}

fn assert_read(cluster: &Cluster, read: RequestId, expected: [u8; 4096]) {
    match &cluster.replies[&read] {
        Ok(Reply::Data(pieces)) => assert!(pieces[0].1.as_slice() == expected),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_late_replica_is_asked_for_what_it_may_vouch_for() {
    let second = Duration::from_secs(1);
    for after in [Duration::ZERO, deadline() - second, deadline() + second] {
        let (mut cluster, read) = read_beside_late_replicas(2, after);
        cluster.thaw(replica(0, 1));
        assert_read(&cluster, read, [7; 4096]);
    }
}

#[test]
fn what_nobody_vouches_for_is_the_answer_after_a_bound() {
    for replicas in [2, 3, 5] {
        let (mut cluster, read) = read_beside_late_replicas(replicas, deadline());
        cluster.pass(deadline() * 5);
        assert!(cluster.is_acknowledged(read), "{replicas} replicas");
    }
}

/// Without the lease nothing can be answered, and whoever confirms it can be asked.
#[test]
fn a_read_that_waits_for_the_lease_is_answered_by_who_confirms_it() {
    let (mut cluster, primary) = forgetful(2, &[0]);
    cluster.coordinator_answers = false;
    cluster.unreachable.insert(replica(0, 1));
    cluster.cut_links(primary, replica(0, 1));
    cluster.pass(deadline() * 2);
    let read = cluster.request(primary, Operation::Read { offset: BLOCK, length: 4096 });
    cluster.pass(deadline() * 4);
    assert!(!cluster.replies.contains_key(&read));
    cluster.unreachable.clear();
    cluster.pass(deadline());
    assert_read(&cluster, read, [7; 4096]);
}

/// Three replicas, of which the last one comes back and lacks four blocks around [`BLOCK`]. What
/// the others have forgotten is damaged there. Nobody reads it meanwhile.
fn rebuilt(forgotten: &[(usize, u64)]) -> (Cluster, usize) {
    let mut cluster = Cluster::new(1, 3, Protocol::C);
    let primary = cluster.attach(9);
    cluster.write(primary, BLOCK - 65536, 7, 131_072);
    cluster.pass(A_WHILE);
    cluster.kill(replica(0, 2));
    cluster.pass(A_WHILE);
    cluster.write(primary, BLOCK, 9, 16384);
    cluster.pass(A_WHILE);
    for (r, block) in forgotten {
        let at = BLOCK + 4096 * block;
        cluster.forgotten.insert((replica(0, *r), at));
        cluster.corrupt(replica(0, *r), at as usize + 9);
    }
    cluster.restart(replica(0, 2), false);
    cluster.pass(A_WHILE);
    assert_eq!(cluster.state(replica(0, 2)), ReplicaState::InSync);
    (cluster, primary)
}

/// Which of the four blocks are damaged on a replica, and of which it has no checksum.
fn wrong(cluster: &Cluster, r: usize) -> (Vec<u64>, Vec<u64>) {
    let at = |block: u64| BLOCK + 4096 * block;
    let data = cluster.data(replica(0, r));
    let is_damaged = |block: &u64| data[at(*block) as usize..][..4096] != [9; 4096];
    let is_forgotten = |block: &u64| cluster.forgotten.contains(&(replica(0, r), at(*block)));
    ((0..4).filter(is_damaged).collect(), (0..4).filter(is_forgotten).collect())
}

/// Whichever was its source: one of the two has nothing to be copied.
#[test]
fn a_rebuild_vouches_for_nothing_that_its_source_has_forgotten() {
    let mut copied = Vec::new();
    for source in 0..2 {
        let (mut cluster, primary) = rebuilt(&[(source, 1), (source, 3)]);
        let (damaged, forgotten) = wrong(&cluster, 2);
        assert_eq!(damaged, forgotten, "the others have their checksums");
        copied.push(damaged);
        for _ in 0..6 {
            assert_eq!(cluster.read(primary, BLOCK, 16384), Some(vec![9; 16384]));
        }
        let found = verify(&mut cluster, primary, None);
        assert_eq!(found.undecided, 0);
        assert!((0..3).all(|r| wrong(&cluster, r) == (Vec::new(), Vec::new())));
    }
    copied.sort();
    assert_eq!(copied, [vec![], vec![1, 3]], "one of them was the source");
}

/// What a rebuild has spread does not win over what is right and has lost its checksum, too.
#[test]
fn a_copy_of_what_nobody_knows_stays_undecided() {
    let (mut cluster, primary) = rebuilt(&[(0, 2)]);
    cluster.forgotten.insert((replica(0, 1), BLOCK + 8192));
    let (mut other, its) = rebuilt(&[(1, 2)]);
    other.forgotten.insert((replica(0, 0), BLOCK + 8192));
    let sources = [wrong(&cluster, 2).0, wrong(&other, 2).0];
    let (cluster, primary) = match sources {
        [first, _] if first == [2] => (&mut cluster, primary),
        _ => (&mut other, its),
    };
    assert_eq!(wrong(cluster, 2), (vec![2], vec![2]));
    let found = verify(cluster, primary, None);
    assert_eq!((found.undecided, found.repaired), (4096, 0));
}
