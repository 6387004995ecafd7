use evenkeel_core::{Incarnation, PrimaryId};

use super::*;
use crate::coordinator::{NoData, Shown, VolumeRecord, WantedOn};
use crate::disks::tests::superblock;
use crate::volumes::attachment::lifecycle::Purpose;
use crate::volumes::replicas::sweep::tests::with_volume;

const SHORT: Duration = Duration::from_millis(20);

/// The first growth may zero for hours: whoever asks for the second learns that, and does not wait
/// for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_growth_is_told_how_far_the_first_one_is() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = with_volume(directory.path(), &["web"]).await;
    let node = daemon.node();
    let (replica, _) = node.disks.finished_replicas()[0];
    let first = alone(node, replica, "it cannot", SHORT).await.unwrap();
    let refused = async || alone(node, replica, "it cannot", SHORT).await.unwrap_err();
    let error = refused().await;
    assert!(error.why.starts_with("something else is done with it since 20"), "{error}");
    first.recall().report(37);
    let error = refused().await;
    assert_eq!(error.code, ErrorCode::WrongState);
    assert!(error.why.starts_with("it is still being made larger, since 20"), "{error}");
    assert!(error.why.ends_with(" UTC: 37 % of the new room is zeroed"), "{error}");
    assert!(!first.recall().is_asked(), "a second growth ends the first one");
    drop(first);
    drop(alone(node, replica, "it cannot", SHORT).await.unwrap());
    let name = &node.identity.name;
    assert_eq!(place(node, replica), format!("{name}:{}", node.disks.disk_of(replica).unwrap()));
    daemon.stop().await;
}

/// Another primary grows a volume twice, and what follows the two growths has no order.
#[test]
fn an_earlier_growth_that_is_noted_late_takes_nothing_back() {
    let superblock = superblock(8 << 20);
    let record = VolumeRecord {
        id: superblock.volume.to_string(),
        name: "music".into(),
        no_data: NoData::default(),
        replicas: Vec::new(),
        stopped: false,
        checksums: false,
        used_on: None,
        wanted_on: WantedOn::default(),
        verified: None,
        revision: 0,
        lost: Vec::new(),
    };
    let primary = PrimaryId { node: NodeId(1), incarnation: Incarnation(1) };
    let purpose = Purpose::Use(Shown::default());
    let attached = Attached::new(&record, &superblock.view, primary, purpose);
    attached.grow_to(32 << 20);
    attached.grow_to(16 << 20);
    assert_eq!(attached.size(), 32 << 20);
}
