//! Messages of authentication (Base 8.3.5.3 to 8.3.5.5).
//!
//! ```text
//! 0 type   1 identifier   4 transaction
//! Negotiate   6 secure channel   7 count   8 descriptors of 64 bytes: 0 protocol, 2 hashes,
//!             3 groups, 4 their numbers, 34 the groups' numbers
//! Challenge   6 hash's length   8 hash   9 group   10 value's length   12 sequence
//!             16 challenge, value
//! Reply       6 hash's length   8 whether there is a challenge   10 value's length   12 sequence
//!             16 response, challenge, value
//! Success1    6 hash's length   8 whether there is a response   16 response
//! Failure1, Failure2   6 reason   7 explanation
//! ```

use super::{Fault, Group, Hash};

/// Bytes of the longest message that a host may send: a Reply with ffdhe8192 has 1,168.
pub const MAX_MESSAGE: usize = 4096;
/// What comes before the parts of variable length.
const HEAD: usize = 16;
const DESCRIPTOR: usize = 64;
/// Most hashes and most groups of a descriptor.
const MAX_CHOICES: usize = 30;
/// DH-HMAC-CHAP, as a descriptor calls it.
const PROTOCOL: u8 = 1;
/// Type of messages of all protocols, and of this one.
const COMMON: u8 = 0;
const OWN: u8 = 1;
const FAILED: u8 = 1;

/// Which message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MessageType {
    kind: u8,
    identifier: u8,
}

const NEGOTIATE: MessageType = MessageType { kind: COMMON, identifier: 0x00 };
const FAILURE2: MessageType = MessageType { kind: COMMON, identifier: 0xf0 };
const FAILURE1: MessageType = MessageType { kind: COMMON, identifier: 0xf1 };
const CHALLENGE: MessageType = MessageType { kind: OWN, identifier: 0x01 };
const REPLY: MessageType = MessageType { kind: OWN, identifier: 0x02 };
const SUCCESS1: MessageType = MessageType { kind: OWN, identifier: 0x03 };
const SUCCESS2: MessageType = MessageType { kind: OWN, identifier: 0x04 };

/// A message of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Negotiate(Negotiate),
    Reply(Reply<'a>),
    Success2,
    /// The controller has not proved what it should; with the explanation.
    Failure2(u8),
}

/// What a host offers, as far as it can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Negotiate {
    pub(super) hash: Hash,
    pub(super) group: Group,
}

/// A host's response, as it is: it fits no challenge yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reply<'a> {
    hash_length: u8,
    has_challenge: bool,
    value_length: u16,
    /// S2.
    pub(super) sequence: u32,
    rest: &'a [u8],
}

/// The parts of a Reply that fits its challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub(super) response: &'a [u8],
    /// C2, if the controller has to prove itself too.
    pub(super) challenge: Option<&'a [u8]>,
    pub(super) value: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads one, and its transaction.
    ///
    /// # Errors
    /// [`Fault`], if it is none that a host sends, or of no use.
    pub(super) fn read(bytes: &'a [u8]) -> Result<(u16, Self), Fault> {
        let head: &[u8; 8] = bytes.first_chunk().ok_or(Fault::Payload)?;
        let transaction = u16::from_le_bytes([head[4], head[5]]);
        let message = match (MessageType { kind: head[0], identifier: head[1] }) {
            NEGOTIATE => Self::Negotiate(Negotiate::read(bytes)?),
            REPLY => Self::Reply(Reply::read(bytes)?),
            SUCCESS2 if bytes.len() >= HEAD => Self::Success2,
            SUCCESS2 => return Err(Fault::Payload),
            FAILURE2 => Self::Failure2(head[7]),
            _ => return Err(Fault::Message),
        };
        Ok((transaction, message))
    }

    /// The transaction of what may be no message.
    pub(super) fn transaction(bytes: &[u8]) -> Option<u16> {
        bytes.get(4..6).map(|field| u16::from_le_bytes([field[0], field[1]]))
    }
}

impl Negotiate {
    fn read(bytes: &[u8]) -> Result<Self, Fault> {
        if bytes[6] != 0 {
            return Err(Fault::SecureChannel);
        }
        let end = 8 + usize::from(bytes[7]) * DESCRIPTOR;
        let descriptors = bytes.get(8..end).ok_or(Fault::Payload)?;
        let own = descriptors.chunks_exact(DESCRIPTOR).find(|it| it[0] == PROTOCOL);
        let own = own.ok_or(Fault::Protocol)?;
        let (hashes, groups) = (usize::from(own[2]), usize::from(own[3]));
        if hashes > MAX_CHOICES || groups > MAX_CHOICES {
            return Err(Fault::Payload);
        }
        let hashes = own[4..4 + hashes].iter();
        let hash =
            hashes.filter_map(|number| Hash::from_number(*number)).max_by_key(|it| *it as u8);
        let groups = &own[34..34 + groups];
        let group = Group::BY_PREFERENCE.into_iter().find(|it| groups.contains(&it.number()));
        Ok(Self { hash: hash.ok_or(Fault::Hash)?, group: group.ok_or(Fault::Group)? })
    }
}

impl<'a> Reply<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Fault> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>().ok_or(Fault::Payload)?;
        Ok(Self {
            hash_length: head[6],
            has_challenge: head[8] & 1 == 1,
            value_length: u16::from_le_bytes([head[10], head[11]]),
            sequence: u32::from_le_bytes([head[12], head[13], head[14], head[15]]),
            rest,
        })
    }

    /// Its parts, if it answers a challenge with this hash and group.
    pub(super) fn parts(&self, hash: Hash, group: Group) -> Result<Parts<'a>, Fault> {
        let fits = usize::from(self.hash_length) == hash.length()
            && usize::from(self.value_length) == group.length();
        if !fits {
            return Err(Fault::Payload);
        }
        let (response, rest) = self.rest.split_at_checked(hash.length()).ok_or(Fault::Payload)?;
        // There is room for it also if there is none.
        let (challenge, rest) = rest.split_at_checked(hash.length()).ok_or(Fault::Payload)?;
        let value = rest.get(..group.length()).ok_or(Fault::Payload)?;
        // Number 0: it is for the key of a secure channel alone.
        let challenge = (self.has_challenge && self.sequence != 0).then_some(challenge);
        Ok(Parts { response, challenge, value })
    }
}

fn head(message: MessageType, transaction: u16, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    (bytes[0], bytes[1]) = (message.kind, message.identifier);
    bytes[4..6].copy_from_slice(&transaction.to_le_bytes());
    bytes
}

/// DH-HMAC-CHAP_Challenge.
pub(super) fn challenge(
    transaction: u16,
    Negotiate { hash, group }: Negotiate,
    challenge: &[u8],
    sequence: u32,
    value: &[u8],
) -> Vec<u8> {
    let mut bytes = head(CHALLENGE, transaction, HEAD);
    bytes[6] = hash.length() as u8;
    (bytes[8], bytes[9]) = (hash.number(), group.number());
    bytes[10..12].copy_from_slice(&(value.len() as u16).to_le_bytes());
    bytes[12..16].copy_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(challenge);
    bytes.extend_from_slice(value);
    bytes
}

/// DH-HMAC-CHAP_Success1, with the controller's response if it was asked for.
pub(super) fn success1(transaction: u16, hash: Hash, response: Option<&[u8]>) -> Vec<u8> {
    let mut bytes = head(SUCCESS1, transaction, HEAD);
    bytes[6] = hash.length() as u8;
    bytes[8] = response.is_some().into();
    bytes.extend_from_slice(response.unwrap_or_default());
    bytes
}

/// AUTH_Failure1.
pub(super) fn failure1(transaction: u16, fault: Fault) -> Vec<u8> {
    let mut bytes = head(FAILURE1, transaction, 8);
    (bytes[6], bytes[7]) = (FAILED, fault.explanation());
    bytes
}
