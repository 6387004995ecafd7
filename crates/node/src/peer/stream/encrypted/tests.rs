use rcgen::{CertificateParams, KeyPair};
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;

const LABEL: &[u8] = b"EXPORTER-test";

fn configs() -> (ClientConfig, ServerConfig) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["b".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = Arc::new(default_provider());
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (client, server.unwrap())
}

fn name() -> ServerName<'static> {
    "b".try_into().unwrap()
}

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

/// The library's own client, and this side.
async fn accepted() -> (TlsStream<TcpStream>, Encrypted) {
    let (client, server) = configs();
    let (near, far) = sockets().await;
    let connector = TlsConnector::from(Arc::new(client));
    let (near, far) =
        tokio::join!(connector.connect(name(), near), Encrypted::accept(far, &server));
    (near.unwrap(), far.unwrap())
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|byte| (byte * 7) as u8).collect()
}

#[tokio::test]
async fn another_implementation_understands_it_and_exports_the_same() {
    let (near, far) = accepted().await;
    let theirs = near.get_ref().1.export_keying_material([0; 32], LABEL, None).unwrap();
    assert_eq!(far.export(LABEL), Some(theirs));
    assert_ne!(far.export(b"EXPORTER-other"), Some(theirs));
    // Both ways at once, more than sockets hold.
    let sent = pattern(5 << 20);
    let (copy, mut got) = (sent.clone(), vec![0; sent.len()]);
    let (mut read, mut write) = tokio::io::split(near);
    let echo = tokio::spawn(async move {
        let mut got = vec![0; copy.len()];
        let (_, read) = tokio::join!(
            async {
                write.write_all(&copy).await.unwrap();
                write.shutdown().await.unwrap();
            },
            read.read_exact(&mut got)
        );
        read.unwrap();
        assert!(got == copy);
    });
    let (mut read, mut write) = tokio::io::split(far);
    let (written, came) = tokio::join!(
        async {
            write.write_all(&sent).await?;
            write.flush().await
        },
        read.read_exact(&mut got)
    );
    written.unwrap();
    came.unwrap();
    assert!(got == sent);
    // It was told that nothing more comes.
    assert_eq!(read.read(&mut [0; 1]).await.unwrap(), 0);
    echo.await.unwrap();
}

#[tokio::test]
async fn it_connects_to_another_implementation() {
    let (client, server) = configs();
    let (near, far) = sockets().await;
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let (near, far) = tokio::join!(Encrypted::connect(near, &client, name()), acceptor.accept(far));
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    let theirs = far.get_ref().1.export_keying_material([0; 32], LABEL, None).unwrap();
    assert_eq!(near.export(LABEL), Some(theirs));
    near.write_all(b"to b").await.unwrap();
    near.shutdown().await.unwrap();
    let mut said = Vec::new();
    far.read_to_end(&mut said).await.unwrap();
    assert_eq!(said, b"to b");
    far.write_all(b"to a").await.unwrap();
    far.flush().await.unwrap();
    let mut answer = [0; 4];
    near.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"to a");
}

#[tokio::test]
async fn an_end_that_nobody_announced_is_an_error() {
    let (mut near, mut far) = accepted().await;
    // It has read all that came, so that its socket closes as that of a process that ends.
    far.write_all(b"x").await.unwrap();
    far.flush().await.unwrap();
    near.read_exact(&mut [0; 1]).await.unwrap();
    drop(near.into_inner().0);
    let error = far.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn the_other_side_is_told_that_its_certificate_is_not_taken() {
    let ((client, _), (_, server)) = (configs(), configs());
    let (near, far) = sockets().await;
    let (near, far) =
        tokio::join!(Encrypted::connect(near, &client, name()), Encrypted::accept(far, &server));
    let (near, far) = (near.unwrap_err(), far.unwrap_err());
    let cause = |error: &io::Error| error.get_ref()?.downcast_ref::<rustls::Error>().cloned();
    assert!(matches!(cause(&near), Some(rustls::Error::InvalidCertificate(_))), "{near}");
    assert!(matches!(cause(&far), Some(rustls::Error::AlertReceived(_))), "{far}");
}
