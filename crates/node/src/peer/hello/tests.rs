use std::sync::Arc;

use evenkeel_core::Incarnation;

use super::*;

fn credentials(number: u128, name: &str, cluster: &str) -> Credentials {
    Credentials {
        node: NodeId(number),
        name: name.into(),
        start: StartId { counter: 1, incarnation: Incarnation(1) },
        cluster: cluster.into(),
        tls: None.into(),
        on_unix: true,
        epoch: Arc::default(),
    }
}

#[tokio::test]
async fn both_are_told_that_their_clusters_differ() {
    let (guest, host) = (credentials(1, "alpha", "one"), credentials(2, "beta", "two"));
    let (mut near, mut far) = tokio::io::duplex(4096);
    let connects = connect(&mut near, &guest, Purpose::Control);
    let accepts = accept(&mut far, &host, |_| false, async |_| Ok(()));
    let (reported_guest, reported_host) = tokio::join!(connects, accepts);
    let text = "node beta belongs to cluster \"two\", and you to \"one\"";
    let reported_guest = reported_guest.unwrap_err().to_string();
    assert!(reported_guest.starts_with(text), "{reported_guest}");
    let reported_host = reported_host.unwrap_err().to_string();
    assert!(reported_host.starts_with(&format!("alpha: {text}")), "{reported_host}");
}
