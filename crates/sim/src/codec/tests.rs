use evenkeel_core::{Generation, OperationId, Sequence};

use super::*;
use crate::payload::stamp;

#[test]
fn a_message_arrives_as_it_was_sent() {
    let id = OperationId { generation: Generation(3), sequence: Sequence(4) };
    let (durable, receipt) = (true, false);
    let message = Message::Write { id, offset: 512, length: 1024, durable, receipt };
    let payload = Sectors::new([stamp(1, 1), stamp(1, 2)].into_iter());
    let mut frame = Frame::encode(&message, Some(&payload), 0).expect("encodes");
    let (arrived, data) = frame.decode().expect("decodes");
    assert_eq!(arrived, message);
    assert_eq!(data.expect("with its payload").cells(), payload.cells());
    *frame.bytes.last_mut().expect("has bytes") ^= 1;
    assert!(frame.decode().is_err());
}
