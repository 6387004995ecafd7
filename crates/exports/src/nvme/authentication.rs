//! In-band authentication by DH-HMAC-CHAP (Base 8.3.5): the controller's side, without I/O.
//!
//! 1. [`Secret`]: a key, as people have it.
//! 2. [`Hash`], [`Proof`]: what is made of keys and challenges.
//! 3. [`Group`], [`Computation`]: Diffie-Hellman, which takes its time.
//! 4. [`Authentication`]: the conversation of one queue.
//!
//! Whoever drives it gives the messages that the host sends, asks for those that it wants to
//! receive, and computes what takes long. A refusal is a message that the host receives; then the
//! connection is over. Nobody gets a second try on a connection.

mod group;
mod hash;
mod messages;
mod primes;
mod secret;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use zeroize::Zeroizing;

use super::command::Status;
use messages::{Message, Negotiate, Reply};

pub use group::{Computation, EXPONENT_LENGTH, Group};
pub use hash::{Hash, Proof};
pub use messages::MAX_MESSAGE;
pub use secret::{SECRET_LENGTH, Secret, SecretError};

/// The keys by which a host and a subsystem know each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Proves the host.
    pub host: Secret,
    /// Proves the controller, if the host asks for that.
    pub controller: Option<Secret>,
}

/// Who talks to whom, and what they have to prove.
#[derive(Debug, Clone)]
pub struct Parties {
    /// HOSTNQN.
    pub host: String,
    /// SUBNQN.
    pub subsystem: String,
    /// Their keys.
    pub keys: Arc<Keys>,
}

/// What is new for each conversation.
#[derive(Clone)]
pub struct Fresh {
    /// Random; as much of it as the hash is long is the challenge.
    pub challenge: [u8; Hash::MAX_LENGTH],
    /// Another one than before, and not 0.
    pub sequence: u32,
    /// Random.
    pub exponent: Zeroizing<[u8; EXPONENT_LENGTH]>,
}

impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// Why a host is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Fault {
    /// Its response was made with another key, or for another challenge.
    #[error("it has another key than the export")]
    Key,
    /// It wants to know who this is, and there is no key for that.
    #[error("it asks this side to prove itself too, and the export has no key for that")]
    NoControllerKey,
    /// It says that this side did not prove what it should; with its explanation.
    #[error("it expects another key of this side than the export has (explanation {0})")]
    Disbelieved(u8),
    /// It offers other ways of authentication alone.
    #[error("it does not offer DH-HMAC-CHAP")]
    Protocol,
    /// It asks for a secure channel.
    #[error("it asks for a secure channel, which there is not")]
    SecureChannel,
    /// It offers no hash that is known.
    #[error("it offers none of SHA-256, SHA-384 and SHA-512")]
    Hash,
    /// It offers no group that is known.
    #[error("it offers no group for Diffie-Hellman that is known, and not to do without")]
    Group,
    /// A message is too short, or has a field that is wrong.
    #[error("a message of it is malformed")]
    Payload,
    /// A message came that has no place here.
    #[error("it sends or asks for a message out of turn")]
    Message,
}

impl Fault {
    /// Reason code explanation (Base 8.3.5.3.1).
    #[must_use]
    pub const fn explanation(self) -> u8 {
        match self {
            Self::Key | Self::NoControllerKey | Self::Disbelieved(_) => 1,
            Self::Protocol => 2,
            Self::SecureChannel => 3,
            Self::Hash => 4,
            Self::Group => 5,
            Self::Payload => 6,
            Self::Message => 7,
        }
    }
}

/// What follows from a message that the host has sent.
#[derive(Debug)]
pub enum Sent {
    /// It is taken: the command has succeeded, also if the host will be refused.
    Taken,
    /// That is to be computed for [`Authentication::computed`]; then it is taken.
    Compute(Computation),
    /// It is taken, and both sides have proved themselves.
    Proved,
    /// It is taken, and the connection is over.
    Failed(Fault),
}

/// A message for the host, and what follows once it has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// The message.
    pub message: Vec<u8>,
    /// What follows.
    pub then: Then,
}

/// What follows when the host has received a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It sends the next one.
    GoOn,
    /// The host has proved itself, and asks nothing of this side.
    Proved,
    /// The connection is over.
    Failed(Fault),
}

/// Whose turn it is.
enum State {
    /// The host says what it can.
    Negotiating,
    /// The value for it is being computed.
    Preparing(Negotiate),
    /// It is to receive the challenge.
    Challenging(Negotiate, Zeroizing<Vec<u8>>),
    /// It is to respond.
    Challenged(Negotiate),
    /// What both sides know is being computed; its Reply is judged then.
    Sharing(Negotiate, Vec<u8>),
    /// It is to receive the success; with the response of this side if it has asked for that.
    Succeeding(Hash, Option<Zeroizing<Vec<u8>>>),
    /// It is to say whether it believes this side.
    Judged,
    /// It is to receive the refusal.
    Refusing(Fault),
    Over,
}

/// The conversation that makes a connection a queue of somebody who is known.
pub struct Authentication {
    parties: Parties,
    fresh: Fresh,
    transaction: u16,
    state: State,
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication").field("host", &self.parties.host).finish_non_exhaustive()
    }
}

impl Authentication {
    /// One that has just begun.
    #[must_use]
    pub const fn new(parties: Parties, fresh: Fresh) -> Self {
        Self { parties, fresh, transaction: 0, state: State::Negotiating }
    }

    /// Whom it is with.
    #[must_use]
    pub const fn parties(&self) -> &Parties {
        &self.parties
    }

    /// Why the host is refused, if that is known and it does not know it yet.
    #[must_use]
    pub const fn fault(&self) -> Option<Fault> {
        match self.state {
            State::Refusing(fault) => Some(fault),
            _ => None,
        }
    }

    /// Takes a message of the host.
    pub fn send(&mut self, bytes: &[u8]) -> Sent {
        let is_first = matches!(self.state, State::Negotiating);
        self.try_send(bytes).unwrap_or_else(|fault| {
            if is_first {
                // The refusal belongs to it, too.
                self.transaction = Message::transaction(bytes).unwrap_or_default();
            }
            self.state = State::Refusing(fault);
            Sent::Taken
        })
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<Sent, Fault> {
        if let State::Refusing(fault) = self.state {
            return Err(fault);
        }
        let (transaction, message) = Message::read(bytes)?;
        let state = std::mem::replace(&mut self.state, State::Over);
        if !matches!(state, State::Negotiating) && transaction != self.transaction {
            return Err(Fault::Payload);
        }
        match (state, message) {
            (State::Negotiating, Message::Negotiate(chosen)) => {
                self.transaction = transaction;
                Ok(self.prepare(chosen))
            }
            (State::Challenged(chosen), Message::Reply(reply)) => self.judge(chosen, &reply, bytes),
            (State::Judged, Message::Success2) => Ok(Sent::Proved),
            (State::Judged | State::Challenged(_), Message::Failure2(explanation)) => {
                Ok(Sent::Failed(Fault::Disbelieved(explanation)))
            }
            _ => Err(Fault::Message),
        }
    }

    fn prepare(&mut self, chosen: Negotiate) -> Sent {
        match Computation::of_generator(chosen.group, &self.fresh.exponent) {
            Some(computation) => {
                self.state = State::Preparing(chosen);
                Sent::Compute(computation)
            }
            None => {
                self.state = State::Challenging(chosen, Zeroizing::default());
                Sent::Taken
            }
        }
    }

    fn judge(&mut self, chosen: Negotiate, reply: &Reply<'_>, bytes: &[u8]) -> Result<Sent, Fault> {
        let parts = reply.parts(chosen.hash, chosen.group)?;
        if parts.value.is_empty() {
            self.prove(chosen, reply, None)?;
            return Ok(Sent::Taken);
        }
        let exponent = &self.fresh.exponent;
        let computation = Computation::of_value(chosen.group, exponent, parts.value);
        let computation = computation.ok_or(Fault::Payload)?;
        self.state = State::Sharing(chosen, bytes.to_vec());
        Ok(Sent::Compute(computation))
    }

    /// What was to be computed is this. The message that it was for is taken.
    pub fn computed(&mut self, value: Zeroizing<Vec<u8>>) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Preparing(chosen) => self.state = State::Challenging(chosen, value),
            State::Sharing(chosen, bytes) => {
                let proved = match Message::read(&bytes) {
                    Ok((_, Message::Reply(reply))) => self.prove(chosen, &reply, Some(&value)),
                    _ => Err(Fault::Message),
                };
                if let Err(fault) = proved {
                    self.state = State::Refusing(fault);
                }
            }
            // Nothing was asked for.
            state => self.state = state,
        }
    }

    /// Looks whether the host has the key, and responds if it asks.
    fn prove(
        &mut self,
        Negotiate { hash, group }: Negotiate,
        reply: &Reply<'_>,
        session: Option<&[u8]>,
    ) -> Result<(), Fault> {
        let Parties { host, subsystem, keys } = &self.parties;
        let parts = reply.parts(hash, group)?;
        let proof = |challenge, sequence| {
            let transaction = self.transaction;
            Proof { hash, transaction, challenge, sequence, session, host, subsystem }
        };
        let asked = proof(&self.fresh.challenge[..hash.length()], self.fresh.sequence);
        if !asked.is_of_host(&keys.host, parts.response) {
            return Err(Fault::Key);
        }
        let response = match (parts.challenge, &keys.controller) {
            (None, _) => None,
            (Some(_), None) => return Err(Fault::NoControllerKey),
            (Some(challenge), Some(key)) => {
                Some(proof(challenge, reply.sequence).of_controller(key))
            }
        };
        self.state = State::Succeeding(hash, response);
        Ok(())
    }

    /// The message that the host wants to receive, for which it has so much room.
    ///
    /// # Errors
    /// [`Status::InvalidField`], if it does not fit. Nothing has changed.
    pub fn receive(&mut self, room: usize) -> Result<Received, Status> {
        let transaction = self.transaction;
        let (message, next, then) = match &self.state {
            State::Challenging(chosen, value) => {
                let challenge = &self.fresh.challenge[..chosen.hash.length()];
                let sequence = self.fresh.sequence;
                let message = messages::challenge(transaction, *chosen, challenge, sequence, value);
                (message, State::Challenged(*chosen), Then::GoOn)
            }
            State::Succeeding(hash, response) => {
                let response = response.as_ref().map(|response| response.as_slice());
                let message = messages::success1(transaction, *hash, response);
                match response {
                    Some(_) => (message, State::Judged, Then::GoOn),
                    None => (message, State::Over, Then::Proved),
                }
            }
            state => {
                let fault = match state {
                    State::Refusing(fault) => *fault,
                    _ => Fault::Message,
                };
                (messages::failure1(transaction, fault), State::Over, Then::Failed(fault))
            }
        };
        if message.len() > room {
            return Err(Status::InvalidField);
        }
        self.state = next;
        Ok(Received { message, then })
    }
}

#[cfg(test)]
pub(in crate::nvme) mod tests;
