use crate::message::CopyContent;
use crate::replica::invariants::tests::rebuilding;
use crate::trips::trips;
use crate::*;

#[test]
fn only_what_is_held_is_written() {
    let (mut cluster, id) = rebuilding();
    let (now, replica) = (cluster.now, cluster.replica(id));
    let rebuild = replica.rebuilds.rebuild.as_mut().expect("it rebuilds");
    let (token, link) = rebuild.forget_hold();
    let message = Message::Copied { token, content: CopyContent::Zeroes };
    let event = ReplicaEvent::Message { link, message, payload: None };
    trips("B1", || replica.step(now, event, &mut Vec::new()));
}
