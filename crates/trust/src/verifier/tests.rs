use std::time::Duration;

use super::*;
use crate::authority::{Authority, EARLY, Key, VALIDITY};
use crate::time::EARLIEST;

const CLUSTER: CoordinatorId = CoordinatorId(0xc);
const NODE: NodeId = NodeId(7);
const MADE: u64 = 1_700_000_000;
const DAY: u64 = 86_400;

struct Cluster {
    authority: Authority,
    certificate: CertificateDer<'static>,
}

impl Cluster {
    fn new() -> Self {
        let authority = Authority::generate(CLUSTER).unwrap();
        let certificate = authority.certificate([1; 16], MADE).unwrap();
        Self { authority, certificate }
    }

    fn node(&self, name: &str, made: u64) -> CertificateDer<'static> {
        let key = Key::generate().unwrap().public();
        self.authority.sign_node(name, NODE, &key, [2; 16], made).unwrap()
    }

    fn verifier(&self, floor: u64) -> Verifier {
        Verifier::new(CLUSTER, &self.certificate, floor).unwrap()
    }
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

fn dialed() -> ServerName<'static> {
    ServerName::try_from("192.0.2.1").unwrap()
}

/// Whether a certificate is accepted at a time: of who connects, and of who was dialed.
fn accepted(verifier: &Verifier, certificate: &CertificateDer<'_>, now: u64) -> (bool, bool) {
    let client = verifier.verify_client_cert(certificate, &[], at(now)).is_ok();
    let server = verifier.verify_server_cert(certificate, &[], &dialed(), &[], at(now)).is_ok();
    (client, server)
}

#[test]
fn a_certificate_is_valid_whatever_the_clock_shows_before_it_was_made() {
    let cluster = Cluster::new();
    let (verifier, node) = (cluster.verifier(0), cluster.node("n1", MADE));
    for now in [0, MADE - 3650 * DAY, MADE - EARLY - 1, MADE, MADE + DAY, MADE + VALIDITY] {
        assert_eq!(accepted(&verifier, &node, now), (true, true), "{now}");
        assert_eq!(verifier.standing(&node, now), Ok(Standing::Current));
    }
}

/// As when the authority's node was started once with a clock ten years ahead: it, and those that
/// it has certified meanwhile, must not be apart from all others until then.
#[test]
fn what_a_clock_that_was_ahead_has_made_counts_for_no_longer_than_that() {
    let cluster = Cluster::new();
    let (now, ahead) = (EARLIEST + 30 * DAY, EARLIEST + 3650 * DAY);
    let (early, late) = (cluster.node("n1", now), cluster.node("n2", ahead));
    for of in [now, ahead] {
        let verifier = cluster.verifier(of);
        for certificate in [&early, &late] {
            assert_eq!(accepted(&verifier, certificate, now), (true, true), "{of}");
            assert_eq!(verifier.standing(certificate, now), Ok(Standing::Current));
        }
        let expired = cluster.node("n3", now - VALIDITY - DAY);
        assert_eq!(verifier.standing(&expired, now), Ok(Standing::Expired));
    }
}

#[test]
fn an_expired_certificate_lets_in_and_may_only_be_renewed() {
    let cluster = Cluster::new();
    let (verifier, node) = (cluster.verifier(0), cluster.node("n1", MADE));
    for now in [MADE + VALIDITY + 1, MADE + 3650 * DAY] {
        assert_eq!(accepted(&verifier, &node, now), (true, false));
        assert_eq!(verifier.standing(&node, now), Ok(Standing::Expired));
    }
    // The authority's own has no end.
    let later = MADE + 36_500 * DAY;
    let fresh = cluster.node("n1", later);
    assert_eq!(accepted(&verifier, &fresh, later), (true, true));
}

#[test]
fn a_clock_at_1970_counts_as_the_last_time_that_is_known() {
    let cluster = Cluster::new();
    let node = cluster.node("n1", MADE);
    let verifier = cluster.verifier(MADE);
    assert_eq!(accepted(&verifier, &node, 0), (true, true));
    assert_eq!(verifier.standing(&node, 0), Ok(Standing::Current));
    // A clock a day behind, and one a day ahead.
    for now in [MADE - DAY, MADE + DAY] {
        assert_eq!(accepted(&verifier, &node, now), (true, true));
    }
    // What has expired by the last time that is known has expired.
    let late = cluster.verifier(MADE + VALIDITY + 1);
    assert_eq!(late.standing(&node, 0), Ok(Standing::Expired));
}

#[test]
fn a_certificate_of_another_authority_is_none() {
    let (ours, theirs) = (Cluster::new(), Cluster::new());
    let verifier = ours.verifier(MADE);
    for now in [MADE, MADE + VALIDITY + 1] {
        let stranger = theirs.node("n1", MADE);
        assert_eq!(accepted(&verifier, &stranger, now), (false, false));
        assert!(verifier.standing(&stranger, now).is_err());
    }
    // One that a node signs with its own key.
    let own = Authority::new(CLUSTER, Key::generate().unwrap());
    let key = Key::generate().unwrap().public();
    let forged = own.sign_node("n1", NODE, &key, [3; 16], MADE).unwrap();
    let chain = [ours.node("n2", MADE)];
    assert!(verifier.verify_client_cert(&forged, &chain, at(MADE)).is_err());
}

#[test]
fn a_node_is_named_by_name_identity_and_cluster() {
    let cluster = Cluster::new();
    let (verifier, node) = (cluster.verifier(0), cluster.node("N.1", MADE));
    assert!(verifier.is_node(&node, "N.1", NODE));
    assert!(!verifier.is_node(&node, "n.1", NODE));
    assert!(!verifier.is_node(&node, "N.1", NodeId(8)));
    assert!(!verifier.is_node(&node, "", NODE));
    let other = Verifier::new(CoordinatorId(0xd), &cluster.certificate, 0).unwrap();
    assert!(!other.is_node(&node, "N.1", NODE));
    assert!(!verifier.is_node(&vec![0x30, 0].into(), "N.1", NODE));
}

#[test]
fn a_clients_certificate_is_no_nodes_and_does_not_listen() {
    let cluster = Cluster::new();
    let key = Key::generate().unwrap().public();
    let client = cluster.authority.sign_client("n1", &key, [4; 16], MADE, DAY).unwrap();
    let verifier = cluster.verifier(0);
    assert_eq!(accepted(&verifier, &client, MADE), (true, false));
    assert!(!verifier.is_node(&client, "n1", NODE));
}

#[test]
fn a_client_is_named_by_name_and_cluster_and_expires() {
    let cluster = Cluster::new();
    let key = Key::generate().unwrap().public();
    let client = cluster.authority.sign_client("VM.1", &key, [4; 16], MADE, DAY).unwrap();
    let verifier = cluster.verifier(0);
    assert!(verifier.is_client(&client, "VM.1"));
    for name in ["vm.1", "VM.1.client", "", "*"] {
        assert!(!verifier.is_client(&client, name), "{name:?}");
    }
    // Nor is a node one of the same name.
    assert!(!verifier.is_client(&cluster.node("VM.1", MADE), "VM.1"));
    let other = Verifier::new(CoordinatorId(0xd), &cluster.certificate, 0).unwrap();
    assert!(!other.is_client(&client, "VM.1"));

    let clients = verifier.of_clients();
    let at_end = |now| clients.verify_client_cert(&client, &[], at(now)).is_ok();
    assert!(at_end(MADE) && at_end(MADE + DAY) && !at_end(MADE + DAY + 1));
    assert!(clients.client_auth_mandatory());
    let theirs = Cluster::new();
    let foreign = theirs.authority.sign_client("VM.1", &key, [4; 16], MADE, DAY).unwrap();
    assert!(clients.verify_client_cert(&foreign, &[], at(MADE)).is_err());
}

#[test]
fn the_authoritys_own_certificate_is_no_nodes() {
    let cluster = Cluster::new();
    assert_eq!(accepted(&cluster.verifier(0), &cluster.certificate, MADE), (false, false));
}

#[test]
fn a_node_that_joins_believes_the_tokens_authority_only() {
    let (ours, theirs) = (Cluster::new(), Cluster::new());
    let fingerprint = Fingerprint::of(&ours.certificate).unwrap();
    let verifier = JoinVerifier::new(fingerprint, (MADE, MADE + 3600));
    let verify = |node: &CertificateDer<'_>, sent: &[CertificateDer<'_>], now| {
        verifier.verify_server_cert(node, sent, &dialed(), &[], at(now)).is_ok()
    };
    let node = ours.node("n1", MADE - 10);
    let sent = [ours.certificate.clone()];
    // With a clock at 1970, right, and years ahead.
    for now in [0, MADE + 10, MADE + 3650 * DAY] {
        assert!(verify(&node, &sent, now), "{now}");
    }
    assert!(!verify(&node, &[], MADE));
    let false_node = theirs.node("n1", MADE);
    assert!(!verify(&false_node, std::slice::from_ref(&theirs.certificate), MADE));
    // With the right authority beside it, in front or behind.
    let both = [theirs.certificate.clone(), ours.certificate.clone()];
    assert!(!verify(&false_node, &both, MADE));
    assert!(!verify(&false_node, &sent, MADE));
    assert!(verify(&node, &both, MADE));
    assert_eq!(verifier.find(&both), Some(&ours.certificate));
    // One that had expired before the token was made.
    assert!(!verify(&ours.node("n1", MADE - VALIDITY - DAY), &sent, MADE));
}
