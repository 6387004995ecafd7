use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::time::{Instant, timeout};

use super::*;

const PATIENCE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn whoever_reads_nothing_is_given_up() {
    let (near, _far) = duplex(16);
    let mut stream = Unread::new(near, PATIENCE);
    let began = Instant::now();
    let error = stream.write_all(&[0; 100]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(began.elapsed() >= PATIENCE, "{error}");
}

#[tokio::test]
async fn whoever_reads_slowly_gets_all() {
    let (near, mut far) = duplex(16);
    let mut stream = Unread::new(near, PATIENCE);
    // Each piece is in time, all of them together are not.
    let reading = async {
        let mut count = 0;
        while count < 100 {
            tokio::time::sleep(PATIENCE / 5).await;
            count += far.read(&mut [0; 16]).await.unwrap();
        }
    };
    let (written, ()) = tokio::join!(stream.write_all(&[0; 100]), reading);
    written.unwrap();
}

#[tokio::test]
async fn whoever_has_read_all_may_be_silent() {
    let (near, mut far) = duplex(16);
    let mut stream = Unread::new(near, PATIENCE);
    let mut all = [0; 20];
    let (written, read) = tokio::join!(stream.write_all(&[0; 20]), far.read_exact(&mut all));
    assert!(written.is_ok() && read.is_ok());
    assert!(timeout(PATIENCE + Duration::from_millis(200), stream.read(&mut [0])).await.is_err());
    stream.write_all(&[0; 10]).await.unwrap();
}
