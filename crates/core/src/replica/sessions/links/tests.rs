use super::*;
use crate::replica::invariants::tests::{breaks, writing};

const LINK: LinkId = LinkId(99);
const ELSEWHERE: NodeId = NodeId(99);

#[test]
fn a_session_is_of_the_node_that_has_connected() {
    let copier = Opener::Copier(ReplicaId(1));
    let primary = Opener::Primary(PrimaryId { node: NodeId(1), incarnation: Incarnation(1) });
    for opener in [copier, primary] {
        breaks("W8", writing(), |replica| {
            let links = &mut replica.sessions.links;
            links.opened(LINK, Some(ELSEWHERE));
            let (session, named) = (SessionNumber::FIRST, Incarnations::default());
            links.open(LINK, &Asked { session, opener, named });
        });
    }
}
