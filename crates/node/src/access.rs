//! Who may ask a node for what: users and groups of this machine, each with a role.
//!
//! The kernel says who has connected to the API's socket (`SO_PEERCRED`); names are looked up as by
//! any other program (`/etc/passwd`, `/etc/group`, or what `nsswitch.conf` names).

use std::collections::BTreeSet;
use std::ffi::CString;
use std::{fmt, io};

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use crate::config::{ApiConfig, Called, Principal};

/// What somebody may ask for. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// To see all that is told of nodes, disks and volumes, metrics included.
    View,
    /// To attach and detach volumes, and to re-add replicas.
    Operate,
    /// Everything.
    Administer,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::View => "view",
            Self::Operate => "operate",
            Self::Administer => "administer",
        })
    }
}

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    uid: u32,
    /// `None`: nobody knows a name for this number.
    name: Option<String>,
    groups: BTreeSet<u32>,
}

impl Account {
    /// Root, who needs no look-up.
    #[must_use]
    pub fn root() -> Self {
        Self { uid: 0, name: Some("root".into()), groups: BTreeSet::new() }
    }

    /// The user with this number, in all groups to which that user belongs. A number without a name
    /// has none: in a user namespace somebody may take many numbers, each in a group of their own.
    /// It may block for as long as the look-up of a name takes.
    ///
    /// # Errors
    /// If it cannot be looked up now.
    pub fn look_up(uid: u32) -> io::Result<Self> {
        let groups = |user: &User| -> io::Result<BTreeSet<u32>> {
            let name = CString::new(user.name.as_str())?;
            Ok(getgrouplist(&name, user.gid)?.into_iter().map(Gid::as_raw).collect())
        };
        let user = User::from_uid(Uid::from_raw(uid))?;
        let groups = user.as_ref().map(groups).transpose()?.unwrap_or_default();
        Ok(Self { uid, name: user.map(|user| user.name), groups })
    }

    /// The user's number.
    #[must_use]
    pub const fn uid(&self) -> u32 {
        self.uid
    }

    /// The user's name, if there is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether an entry of the configuration means this user. `group` looks up the number of a
    /// group.
    fn is_meant(&self, entry: &Principal, group: &impl Fn(&str) -> Option<u32>) -> bool {
        match entry {
            Principal::User(Called::Number(number)) => *number == self.uid,
            Principal::User(Called::Name(name)) => self.name.as_ref() == Some(name),
            Principal::Group(Called::Number(number)) => self.groups.contains(number),
            Principal::Group(Called::Name(name)) => {
                group(name).is_some_and(|number| self.groups.contains(&number))
            }
        }
    }
}

/// The number of a group, looked up.
fn group_number(name: &str) -> Option<u32> {
    Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw())
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} (user {})", self.uid),
            None => write!(f, "user {}", self.uid),
        }
    }
}

/// Who has which role on this node.
#[derive(Debug, Clone)]
pub struct Rights {
    /// The user as whom the daemon runs.
    own: u32,
    /// From the highest role to the lowest.
    entries: [(Role, Vec<Principal>); 3],
}

impl Rights {
    /// As the configuration says. Root and the daemon's own user administer in any case.
    #[must_use]
    pub fn new(config: &ApiConfig) -> Self {
        let entries = [
            (Role::Administer, config.administer.clone()),
            (Role::Operate, config.operate.clone()),
            (Role::View, config.view.clone()),
        ];
        Self { own: rustix::process::geteuid().as_raw(), entries }
    }

    /// The mode of the API's socket: for all users only where the configuration names any, because
    /// the kernel does not tell whose connections it refused.
    #[must_use]
    pub fn socket_mode(&self) -> u32 {
        if self.entries.iter().any(|(_, names)| !names.is_empty()) { 0o666 } else { 0o600 }
    }

    /// Root and the daemon's own user, who have every right, without a look-up of groups.
    #[must_use]
    pub fn master(&self, uid: u32) -> Option<Account> {
        match uid {
            0 => Some(Account::root()),
            uid if uid == self.own => Some(Account { uid, name: None, groups: BTreeSet::new() }),
            _ => None,
        }
    }

    /// The highest role of a user; `None`: a stranger. It may block as [`Account::look_up`] may.
    #[must_use]
    pub fn role_of(&self, account: &Account) -> Option<Role> {
        self.role_with(account, &group_number)
    }

    fn role_with(&self, account: &Account, group: &impl Fn(&str) -> Option<u32>) -> Option<Role> {
        if self.master(account.uid).is_some() {
            return Some(Role::Administer);
        }
        let is_meant =
            |names: &[Principal]| names.iter().any(|entry| account.is_meant(entry, group));
        self.entries.iter().find(|(_, names)| is_meant(names)).map(|(role, _)| *role)
    }

    /// The entries that mean nobody on this machine, a sentence each; not those that cannot be
    /// looked up now. It may block as [`Account::look_up`] may.
    #[must_use]
    pub fn unknown(&self) -> Vec<String> {
        let all =
            self.entries.iter().flat_map(|(role, names)| names.iter().map(move |n| (role, n)));
        let sentence = |(role, entry): (&Role, &Principal)| {
            let what = missing(entry)?;
            let entry = entry.to_string();
            Some(format!("api.{role}: {entry:?} gives nobody that right: there is no such {what}"))
        };
        all.filter_map(sentence).collect()
    }
}

/// What an entry names that is not there. A number needs no name.
fn missing(entry: &Principal) -> Option<&'static str> {
    match entry {
        Principal::User(Called::Name(name)) => {
            matches!(User::from_name(name), Ok(None)).then_some("user")
        }
        Principal::Group(Called::Name(name)) => {
            matches!(Group::from_name(name), Ok(None)).then_some("group")
        }
        Principal::User(Called::Number(_)) | Principal::Group(Called::Number(_)) => None,
    }
}

#[cfg(test)]
mod tests;
