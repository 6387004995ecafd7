use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use evenkeel_core::Incarnation;

use super::*;
use crate::peer::SharedKey;

fn credentials(number: u128, name: &str, key: &[u8]) -> Credentials {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), key).unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    Credentials {
        node: NodeId(number),
        name: name.into(),
        start: StartId { counter: 1, incarnation: Incarnation(1) },
        cluster: "test".into(),
        key: Some(SharedKey::load(file.path()).unwrap()),
        tls: None.into(),
        epoch: Arc::default(),
    }
}

#[tokio::test]
async fn both_are_told_that_their_keys_differ() {
    let guest = credentials(1, "alpha", b"a key of the cluster");
    let host = credentials(2, "beta", b"a key of another one");
    let (mut near, mut far) = tokio::io::duplex(4096);
    let connects = async {
        let connected = connect(&mut near, &guest, Purpose::Control).await;
        drop(near);
        connected.unwrap_err().to_string()
    };
    let accepts = accept(&mut far, &host, |_| false, async |_| Ok(()));
    let (told_guest, told_host) = tokio::join!(connects, accepts);
    assert!(told_guest.contains("beta has another key"), "{told_guest}");
    let told_host = told_host.unwrap_err().to_string();
    assert!(told_host.starts_with("alpha: ") && told_host.contains("keys differ"), "{told_host}");
}
