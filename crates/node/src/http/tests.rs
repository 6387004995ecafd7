use super::*;

/// Between bind and chmod anybody could have connected.
#[tokio::test]
async fn a_socket_is_for_its_owner_alone_from_its_birth() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    let born = listen_closed(&path).unwrap();
    assert_eq!(mode() & 0o077, 0);
    drop(born);
    // In place of the one that is left.
    let listener = bind_unix(&path, 0o660).await.unwrap();
    assert_eq!(mode(), 0o660);
    let (connected, accepted) =
        tokio::join!(tokio::net::UnixStream::connect(&path), listener.accept());
    assert!(connected.is_ok() && accepted.is_ok());
}
