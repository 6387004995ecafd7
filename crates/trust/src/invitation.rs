//! What the authority's node knows of a token: for how many nodes it is, of which names, until
//! when, and who has used it.
//!
//! A use is bound to the first request's key, node and name. The same request may come again, for
//! an answer may be lost; it is not counted again. Another key, node or name is another use.

use evenkeel_core::NodeId;
use serde::{Deserialize, Serialize};

use crate::authority::PublicKey;
use crate::exchange::JoinRequest;
use crate::token::{Asked, Token, TokenId, TokenKey};

/// Most nodes that one token may be for.
pub const MAX_COUNT: usize = 1024;
/// The longest time for which a token may be valid, in seconds: 30 days.
pub const MAX_LASTS: u32 = 30 * 86_400;
/// How long a token is valid by default, in seconds: one hour.
pub const DEFAULT_LASTS: u32 = 3600;

/// Why a request to join is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The proof does not match: another token, another connection, or a changed request. The
    /// answer does not say which, nor whether the token is known.
    #[error("the token is not valid here: make one by `evenkeel node invite`")]
    Unknown,
    /// The token has expired.
    #[error("the token has expired: make another one by `evenkeel node invite`")]
    Expired,
    /// As many nodes have used it as it is for.
    #[error(
        "the token is used up: make another one by `evenkeel node invite`, and look whether you know who used this one: {0}"
    )]
    UsedUp(String),
    /// It is for nodes of other names.
    #[error("the token is for nodes named {0}")]
    Name(String),
    /// The node has used it with another key or name, or another node has that name.
    #[error(
        "the token was used before for this node or this name, with another key: make another one by `evenkeel node invite`"
    )]
    Changed,
}

/// One node that has used a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Use {
    node: String,
    name: String,
    /// Its public key, as hexadecimal text.
    key: String,
}

/// A token as the authority's node keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    id: TokenId,
    key: TokenKey,
    /// In seconds since 1970.
    expires: u64,
    count: usize,
    /// `*` stands for any characters.
    names: String,
    /// The only node that may use it, which is a member already.
    member: Option<String>,
    used: Vec<Use>,
}

impl Invitation {
    /// For a token that `count` nodes may use whose names fit `names`, where `*` stands for any
    /// characters. `member`: the only node that may use it, which is a member already and has lost
    /// its key. `None`: the count is 0 or above [`MAX_COUNT`].
    #[must_use]
    pub fn new(token: &Token, count: usize, names: &str, member: Option<NodeId>) -> Option<Self> {
        (1..=MAX_COUNT).contains(&count).then(|| Self {
            id: token.id(),
            key: token.key(),
            expires: token.expires(),
            count,
            names: names.to_owned(),
            member: member.map(|node| node.to_string()),
            used: Vec::new(),
        })
    }

    /// The token that it belongs to.
    #[must_use]
    pub const fn id(&self) -> TokenId {
        self.id
    }

    /// Whether it is for a node that is a member already.
    #[must_use]
    pub const fn is_for_member(&self) -> bool {
        self.member.is_some()
    }

    /// Whether nobody can use it any more at `now`, in seconds since 1970.
    #[must_use]
    pub const fn has_expired(&self, now: u64) -> bool {
        now >= self.expires
    }

    /// The nodes that have used it with this name. Such a node may not have registered yet, or may
    /// have been removed since.
    pub fn users<'a>(&'a self, name: &'a str) -> impl Iterator<Item = NodeId> + 'a {
        let named = self.used.iter().filter(move |one| one.name == name);
        named.filter_map(|one| one.node.parse().ok())
    }

    /// Lets a node in that asks at `now`, in seconds since 1970, over a connection that exports
    /// `channel`. `true`: this is a use that was not known, and has to be kept before the node is
    /// answered.
    ///
    /// # Errors
    /// If the node is not let in. Nothing has changed then.
    pub fn admit(
        &mut self,
        request: &JoinRequest,
        channel: &[u8; 32],
        now: u64,
    ) -> Result<bool, Refused> {
        let (key, node, name) = (&request.key, request.node, request.name.as_str());
        let asked = Asked { channel, key, node, name };
        if request.token != self.id || !self.key.verify(self.id, &asked, &request.proof) {
            return Err(Refused::Unknown);
        }
        if self.has_expired(now) {
            return Err(Refused::Expired);
        }
        let use_ = Use { node: node.to_string(), name: name.to_owned(), key: hex(key) };
        if self.used.contains(&use_) {
            return Ok(false);
        }
        let is_other = self.member.as_ref().is_some_and(|member| *member != use_.node);
        if is_other || !fits(&self.names, name) {
            return Err(Refused::Name(self.names.clone()));
        }
        let is_like = |known: &Use| known.node == use_.node || known.name == use_.name;
        if self.used.iter().any(is_like) {
            return Err(Refused::Changed);
        }
        if self.used.len() >= self.count {
            let names: Vec<_> = self.used.iter().map(|known| known.name.as_str()).collect();
            return Err(Refused::UsedUp(names.join(", ")));
        }
        self.used.push(use_);
        Ok(true)
    }
}

fn hex(key: &PublicKey) -> String {
    key.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a name fits a pattern, in which `*` stands for any characters, also none.
#[must_use]
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(begin) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        // The first place is the best: it leaves most for what follows.
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests;
