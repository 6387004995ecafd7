//! `vectors.txt`, which `vectors.py` has made.

use std::collections::HashMap;

pub(in crate::nvme) const HOST: &str =
    "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";
pub(in crate::nvme) const SUBSYSTEM: &str =
    "nqn.2014-08.org.nvmexpress:uuid:0198f3a0-1111-7222-8333-944444444444";

/// A conversation both ways.
#[derive(Debug, Clone)]
pub(in crate::nvme) struct Vector {
    pub(in crate::nvme) hash: u8,
    pub(in crate::nvme) group: u8,
    pub(in crate::nvme) host_secret: String,
    pub(in crate::nvme) controller_secret: String,
    pub(in crate::nvme) transaction: u16,
    pub(in crate::nvme) s1: u32,
    pub(in crate::nvme) s2: u32,
    pub(in crate::nvme) c1: Vec<u8>,
    pub(in crate::nvme) c2: Vec<u8>,
    /// The controller's.
    pub(in crate::nvme) exponent: [u8; 64],
    /// The controller's value, and the host's.
    pub(in crate::nvme) ours: Vec<u8>,
    pub(in crate::nvme) theirs: Vec<u8>,
    pub(in crate::nvme) session: Vec<u8>,
    pub(in crate::nvme) host_response: Vec<u8>,
    pub(in crate::nvme) controller_response: Vec<u8>,
}

impl Vector {
    pub(in crate::nvme) fn all() -> Vec<Self> {
        include_str!("vectors.txt").lines().map(Self::read).collect()
    }

    /// That of this hash and group.
    pub(in crate::nvme) fn of(hash: u8, group: u8) -> Self {
        let mut all = Self::all().into_iter();
        all.find(|vector| (vector.hash, vector.group) == (hash, group)).unwrap()
    }

    fn read(line: &str) -> Self {
        let fields: HashMap<_, _> =
            line.split(' ').map(|field| field.split_once('=').unwrap()).collect();
        let number = |name| fields[name].parse::<u32>().unwrap();
        let bytes = |name| unhex(fields.get(name).copied().unwrap_or_default());
        Self {
            hash: number("hash") as u8,
            group: number("group") as u8,
            host_secret: fields["host_secret"].to_owned(),
            controller_secret: fields["controller_secret"].to_owned(),
            transaction: number("transaction") as u16,
            s1: number("s1"),
            s2: number("s2"),
            c1: bytes("c1"),
            c2: bytes("c2"),
            exponent: bytes("exponent").try_into().unwrap_or([3; 64]),
            ours: bytes("ours"),
            theirs: bytes("theirs"),
            session: bytes("session"),
            host_response: bytes("host_response"),
            controller_response: bytes("controller_response"),
        }
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
