//! Sizes, rates and times as people write and read them. K, M, G, T and P are powers of 1024.

use std::time::Duration;

use evenkeel_api::types::{NoCoordinator, NoData};

const UNITS: [(char, u32); 5] = [('P', 50), ('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// A number without a unit below this is hardly meant in bytes when it is a volume's size.
const SMALLEST_WITHOUT_UNIT: u64 = 1 << 20;

/// Reads `4G`, `1.5T`, `512` (bytes) or `64MiB`.
///
/// # Errors
/// Says what is wrong with the text, for clap to show.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "`{text}` is not a size; write a number with K, M, G or T (powers of 1024), as in 4G"
        )
    };
    let trimmed = text.trim();
    if trimmed.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        return Err(format!("`{text}` is negative, and a size is not"));
    }
    let digits_end =
        trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits_end);
    let shift = unit_shift(unit).ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = !whole.is_empty() && is_number(whole) && is_number(fraction);
    let too_large = || format!("`{text}` is more than a disk can have; write less than 16384P");
    let scaled = scale(whole, fraction, shift).ok_or_else(|| match is_number {
        true => too_large(),
        false => wrong(),
    })?;
    if scaled == 0 {
        return Err("the size is zero".to_owned());
    }
    Ok(scaled)
}

/// Reads the size of a volume: as [`parse_size`], but a small number without a unit, which
/// probably lacks one, is asked about.
///
/// # Errors
/// Says what is wrong with the text, for clap to show.
pub fn parse_volume_size(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    let number = text.trim();
    if size < SMALLEST_WITHOUT_UNIT && number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "{number} what? write {number}G, {number}M, or {number}B if bytes are meant"
        ));
    }
    Ok(size)
}

/// `whole.fraction` times two to the power of `shift`, rounded down. `None` if it is not a number
/// or too large.
fn scale(whole: &str, fraction: &str, shift: u32) -> Option<u64> {
    let fraction = &fraction[..fraction.len().min(9)];
    let whole: u128 = if whole.is_empty() { return None } else { whole.parse().ok()? };
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let value = whole.checked_mul(1 << shift)?.checked_add((part << shift) / scale)?;
    u64::try_from(value).ok()
}

fn unit_shift(unit: &str) -> Option<u32> {
    let unit = unit.trim().to_ascii_uppercase();
    let bare = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    if bare.is_empty() {
        return Some(0);
    }
    UNITS.iter().find(|(letter, _)| bare == letter.to_string()).map(|(_, shift)| *shift)
}

/// `4G`, `1.5G`, `700`: at most three significant digits, no space.
pub fn size(bytes: u64) -> String {
    evenkeel_api::sizes::size(bytes)
}

/// `210M/s`.
pub fn rate(bytes_per_second: u64) -> String {
    format!("{}/s", size(bytes_per_second))
}

/// `0.42 s`, `11 s`, `2 min 5 s`, `3 h 20 min`, `4 d 2 h`.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=9 if time.subsec_millis() != 0 => format!("{:.2} s", time.as_secs_f64()),
        0..=59 => format!("{seconds} s"),
        60..=3599 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..=86_399 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// Reads `500ms`, `30`, `30s`, `5m`, `2h`.
///
/// # Errors
/// Says what is wrong with the text, for clap to show.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time; write 500ms, 30s, 5m or 2h");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    let milliseconds = match &text[end..] {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(wrong)
}

/// Reads a whole number of at least `least` and at most `most`.
pub fn parse_number<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.trim().parse().ok().filter(|number| (least..=most).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("`{text}` is not a number from {least} to {most}"))
    }
}

/// Reads `suspend`, or a time in whole seconds after which requests fail without the coordinator.
///
/// # Errors
/// Says what is wrong with the text, for clap to show.
pub fn parse_no_coordinator(text: &str) -> Result<NoCoordinator, String> {
    if text == "suspend" {
        return Ok(NoCoordinator::Suspend);
    }
    parse_limit(text, "suspend").map(|seconds| NoCoordinator::Fail { seconds })
}

/// Reads `error`, or a time in whole seconds after which requests fail without data.
///
/// # Errors
/// Says what is wrong with the text, for clap to show.
pub fn parse_no_data(text: &str) -> Result<NoData, String> {
    if text == "error" {
        return Ok(NoData::Error);
    }
    parse_limit(text, "error").map(|seconds| NoData::Suspend { seconds })
}

/// Whole seconds; `word` is what may stand there instead.
fn parse_limit(text: &str, word: &str) -> Result<u64, String> {
    let time = parse_span(text)
        .map_err(|_| format!("`{text}` is neither `{word}` nor a time as in 60s"))?;
    match time.as_secs() {
        seconds @ 1..=86_400 if time.subsec_nanos() == 0 => Ok(seconds),
        _ => Err(format!("`{text}` is not 1 to 86400 whole seconds")),
    }
}

#[cfg(test)]
mod tests;
