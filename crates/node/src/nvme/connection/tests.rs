use super::*;

/// The node has stood still: a Keep Alive has come, and the host's time is over.
#[tokio::test]
async fn what_a_host_has_sent_counts_before_what_has_happened_meanwhile() {
    for _ in 0..99 {
        let (mut stream, mut host) = tokio::io::duplex(64);
        host.write_all(&[1; 64]).await.unwrap();
        let (changed, mut changes) = watch::channel(());
        changed.send_replace(());
        let mut piece = [0; 64];
        let heard = hear(&mut stream, &mut piece, &mut changes, Some(core_now())).await;
        assert_eq!(heard, Some(64));
        assert_eq!(hear(&mut stream, &mut piece, &mut changes, None).await, Some(0));
    }
}
