//! What several pages say in the same way: counts, moments, identities, notes.

use std::time::Duration;

use super::{Painted as _, span};

/// `1 replica`, `3 replicas`.
pub fn count(number: usize, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with("sh") => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

/// What could not be found out.
pub fn warnings(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("{} {sentence}\n", "note:".warning())).collect()
}

/// The first digits of an identity, enough to name it.
pub fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// `45%`, never 100 before it is done.
pub fn percent(done: u64, total: u64) -> u64 {
    if total == 0 {
        100
    } else {
        u64::try_from(u128::from(done) * 100 / u128::from(total)).unwrap_or(100)
    }
}

/// `2026-11-24 02:30:01, 5 min ago`.
pub fn moment(seconds: u64) -> String {
    let age = jiff::Timestamp::now().as_second() - i64::try_from(seconds).unwrap_or(i64::MAX);
    let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
    format!("{}, {} ago", date(seconds), span(age))
}

/// `2026-11-24 02:30:01`, here.
pub fn date(seconds: u64) -> String {
    let then = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    let Some(then) = then else { return "a time that nobody can have meant".to_owned() };
    then.to_zoned(jiff::tz::TimeZone::system()).strftime("%F %T").to_string()
}

#[cfg(test)]
mod tests;
