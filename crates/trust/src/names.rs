//! The names in certificates: DNS names, because the TLS library checks whether a certificate is
//! valid for one, so that evenkeel need not parse certificates.
//!
//! | name | of |
//! |---|---|
//! | `NAME.node.CLUSTER.evenkeel` | a node, by its name |
//! | `ID.id.CLUSTER.evenkeel` | the same node, by its identity |
//! | `NAME.client.CLUSTER.evenkeel` | a client of exports |
//! | `NAME` | a node, as a host that clients of exports dial, if its name can be a host's |
//!
//! CLUSTER and ID are 32 hexadecimal digits: the coordinator's identity, which outlives a new name
//! of the cluster, and the node's. DNS names ignore case, and a label has no dot, so
//! every character of NAME other than a small letter, digit or inner `-` is written as `_` and its
//! two hexadecimal digits. The encoding is injective, and no encoded name contains a wildcard.

use std::fmt::Write as _;

use evenkeel_core::{CoordinatorId, NodeId};
use evenkeel_format::{NAME_RULE, is_name};

/// Most bytes of a part of a DNS name.
const MAX_LABEL: usize = 63;

/// A name that a certificate cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No node or client may be called so.
    #[error("{0:?} is not permitted: {NAME_RULE}")]
    NotAName(String),
    /// It is a name, and too long as a part of a DNS name.
    #[error(
        "{0:?} is too long for a certificate: it has at most {MAX_LABEL} characters there, and each that is no small letter, digit or '-' counts as three"
    )]
    TooLong(String),
}

/// The name of a node in its certificate.
///
/// # Errors
/// If no node may be called so, or the name is too long.
pub fn node(name: &str, cluster: CoordinatorId) -> Result<String, NameError> {
    Ok(format!("{}.node.{}", label(name)?, suffix(cluster)))
}

/// The identity of a node in its certificate.
#[must_use]
pub fn identity(node: NodeId, cluster: CoordinatorId) -> String {
    format!("{:032x}.id.{}", node.0, suffix(cluster))
}

/// The name of a client in its certificate.
///
/// # Errors
/// If no client may be called so, or the name is too long.
pub fn client(name: &str, cluster: CoordinatorId) -> Result<String, NameError> {
    Ok(format!("{}.client.{}", label(name)?, suffix(cluster)))
}

/// Whether a certificate can have such a name of a node or client.
///
/// # Errors
/// If none may be called so, or the name is too long.
pub fn check(name: &str) -> Result<(), NameError> {
    label(name).map(drop)
}

/// Whether a node's name is one that a host can have: small letters, digits and inner `-`, so that
/// it means the same in a certificate.
#[must_use]
pub fn is_host(name: &str) -> bool {
    label(name).is_ok_and(|label| label == name)
}

fn suffix(cluster: CoordinatorId) -> String {
    format!("{:032x}.evenkeel", cluster.0)
}

fn label(name: &str) -> Result<String, NameError> {
    if !is_name(name) {
        return Err(NameError::NotAName(name.to_owned()));
    }
    let mut label = String::with_capacity(name.len());
    for (index, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => label.push(char::from(byte)),
            b'-' if index + 1 < name.len() => label.push('-'),
            // Writing to a text does not fail.
            _ => drop(write!(label, "_{byte:02x}")),
        }
    }
    match label.len() <= MAX_LABEL {
        true => Ok(label),
        false => Err(NameError::TooLong(name.to_owned())),
    }
}

#[cfg(test)]
mod tests;
