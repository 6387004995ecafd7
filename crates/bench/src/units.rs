//! Figures for people, and sizes from them.

/// Reads a size as in `512`, `4k`, `256M` or `10G`; powers of 1024.
///
/// # Errors
/// If it is none.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        other => return Err(format!("`{other}` is not a unit: use K, M, G or T")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a size as in 256M"))?;
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large"))
}

/// A size in the unit that makes it short and exact, as fio and dd take it: `4k`, `512M`.
pub fn short_size(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "k")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Operations per second: `950`, `12.3 k`, `1.2 M`.
pub fn rate(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", digits(value / 1e6)),
        value if value >= 1e3 => format!("{} k", digits(value / 1e3)),
        value => digits(value),
    }
}

/// Bytes per second: `1.90 GB/s`, powers of 1000 as on a disk's label.
pub fn bandwidth(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{} GB/s", digits(value / 1e9)),
        value if value >= 1e6 => format!("{} MB/s", digits(value / 1e6)),
        value if value >= 1e3 => format!("{} kB/s", digits(value / 1e3)),
        value => format!("{} B/s", digits(value)),
    }
}

/// A time from microseconds: `85 µs`, `1.20 ms`, `2.50 s`.
pub fn micros(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} s", digits(value / 1e6)),
        value if value >= 1e3 => format!("{} ms", digits(value / 1e3)),
        value => format!("{} µs", digits(value)),
    }
}

/// A ratio in percent: `78 %`, `4.2 %`.
pub fn percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    match value.abs() {
        size if size < 9.95 => format!("{value:.1} %"),
        _ => format!("{value:.0} %"),
    }
}

/// Seconds for people: `40 s`, `3 min 5 s`.
pub fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Three significant digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_and_go() {
        for (text, bytes) in [("512", 512), ("4k", 4096), ("256M", 256 << 20), ("10G", 10 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes));
            assert_eq!(short_size(bytes), text);
        }
        for wrong in ["", "k", "1.5G", "4x", "-1", "99999999999999T", "4µ"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(rate(12_345.0), "12.3 k");
        assert_eq!(rate(950.0), "950");
        assert_eq!(bandwidth(1.9e9), "1.90 GB/s");
        assert_eq!(micros(85.4), "85.4 µs");
        assert_eq!(micros(1_200.0), "1.20 ms");
        assert_eq!(percent(0.784), "78 %");
        assert_eq!(percent(0.0421), "4.2 %");
        assert_eq!(span(185.0), "3 min 5 s");
    }
}
