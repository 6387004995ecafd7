//! Names of hosts and subsystems (NQNs, Base 4.7).

use evenkeel_core::VolumeId;

/// The most bytes of a name.
const MAX_LENGTH: usize = 223;
/// What names begin with that are made of a UUID.
const OF_UUID: &str = "nqn.2014-08.org.nvmexpress:uuid:";
/// What a name looks like, for messages.
const FORM: &str = "a host's NQN is as in \"nqn.2014-08.org.nvmexpress:uuid:…\" or \"nqn.2026-11.org.example:host1\": `nqn.`, a year and a month, a domain from its end, a colon and a name, 223 bytes at most; a Linux host has its own in /etc/nvme/hostnqn";

/// Whether this is a name.
///
/// # Errors
/// What is wrong with it, and how names are.
pub fn check(name: &str) -> Result<(), String> {
    match fault(name) {
        None => Ok(()),
        Some(fault) => Err(format!("{} {fault}; {FORM}", shown(name))),
    }
}

/// A name for a message, cut if it is longer than names are.
#[must_use]
pub fn shown(name: &str) -> String {
    match name.char_indices().nth(MAX_LENGTH) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}

fn fault(name: &str) -> Option<String> {
    if name.len() > MAX_LENGTH {
        return Some(format!("has {} bytes", name.len()));
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Some("has a blank or a control character".to_owned());
    }
    let Some(rest) = name.strip_prefix("nqn.") else {
        return Some("does not begin with \"nqn.\"".to_owned());
    };
    let dated = rest.split_once('.').filter(|(date, _)| is_date(date));
    let Some((_, rest)) = dated else {
        return Some("has no year and month behind \"nqn.\", as in \"2014-08.\"".to_owned());
    };
    let (domain, own) = rest.split_once(':').map_or((rest, None), |(a, b)| (a, Some(b)));
    if !domain.split('.').all(is_label) {
        return Some("has no domain behind the month".to_owned());
    }
    own.is_some_and(str::is_empty).then(|| "has nothing behind its colon".to_owned())
}

fn is_date(text: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(year, month)| {
        let month_is_one = month.len() == 2 && matches!(month.parse(), Ok(1..=12));
        year.len() == 4 && is_number(year) && is_number(month) && month_is_one
    })
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The subsystem of a volume. It stays when the volume is renamed or attached elsewhere.
#[must_use]
pub fn subsystem(volume: VolumeId) -> String {
    format!("{OF_UUID}{volume}")
}

/// The volume of a subsystem of this name.
#[must_use]
pub fn volume(subsystem: &str) -> Option<VolumeId> {
    let volume = subsystem.strip_prefix(OF_UUID)?.parse().ok()?;
    // One name each, or two hosts could mean two subsystems by it.
    (self::subsystem(volume) == subsystem).then_some(volume)
}

/// SN of a volume's controllers: 20 digits of its identity.
#[must_use]
pub fn serial(volume: VolumeId) -> String {
    let mut digits = format!("{:032x}", volume.0);
    digits.truncate(20);
    digits
}

#[cfg(test)]
mod tests;
