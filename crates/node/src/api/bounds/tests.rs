use std::time::Duration;

use tokio::time::timeout;

use super::*;

/// For what would wait for ever.
const SHORT: Duration = Duration::from_millis(50);

/// A place, if there is one now.
async fn place(bounds: &Bounds, node: NodeId) -> Option<Place> {
    // What has no turn left would wait, though there is one.
    tokio::task::yield_now().await;
    timeout(Duration::ZERO, bounds.place(node)).await.ok()
}

#[tokio::test]
async fn no_node_and_not_all_of_them_have_all_places() {
    let bounds = Bounds::default();
    let mut places = Vec::new();
    for _ in 0..MAX_CHANGES_OF_ONE {
        places.push(place(&bounds, NodeId(1)).await.unwrap());
    }
    assert!(place(&bounds, NodeId(1)).await.is_none());
    assert!(place(&bounds, NodeId(2)).await.is_some());
    for node in (0..MAX_CHANGES as u128).map(|number| NodeId(2 + number % 8)) {
        places.extend(place(&bounds, node).await);
    }
    assert_eq!(places.len(), MAX_CHANGES);
    // A change that was not begun has kept nothing.
    assert!(place(&bounds, NodeId(9)).await.is_none());
    drop(places);
    let mut again = Vec::new();
    for _ in 0..MAX_CHANGES_OF_ONE {
        again.push(place(&bounds, NodeId(9)).await.unwrap());
    }
    // Whoever waits gets the place of one that ends.
    let (waits, ()) = tokio::join!(timeout(SHORT * 100, bounds.place(NodeId(9))), async {
        tokio::task::yield_now().await;
        again.pop();
    });
    assert!(waits.is_ok());
}

#[tokio::test]
async fn a_node_that_sends_much_waits_for_itself_alone() {
    let bounds = Bounds::default();
    const PIECE: usize = 2 << 20;
    let mut kept = Vec::new();
    for _ in 0..MAX_BODIES_OF_ONE / PIECE {
        kept.push(bounds.memory(NodeId(1), PIECE).await);
    }
    assert!(timeout(SHORT, bounds.memory(NodeId(1), 1)).await.is_err());
    assert!(timeout(SHORT, bounds.memory(NodeId(2), PIECE)).await.is_ok());
    // What has no body is not counted.
    assert!(timeout(SHORT, bounds.memory(NodeId(1), 0)).await.is_ok());
    kept.pop();
    assert!(timeout(SHORT, bounds.memory(NodeId(1), PIECE)).await.is_ok());
}

#[tokio::test]
async fn all_nodes_together_are_bounded_and_none_that_has_gone_is_remembered() {
    let bounds = Bounds::default();
    let mut kept = Vec::new();
    for number in 0..MAX_BODIES / MAX_BODIES_OF_ONE {
        kept.push(bounds.memory(NodeId(number as u128), MAX_BODIES_OF_ONE).await);
    }
    assert!(timeout(SHORT, bounds.memory(NodeId(99), 1)).await.is_err());
    drop(kept);
    assert!(timeout(SHORT, bounds.memory(NodeId(99), 1)).await.is_ok());
    let _one = bounds.memory(NodeId(100), 1).await;
    assert_eq!(bounds.bodies_of_one.nodes.lock().unwrap().len(), 1);
}
