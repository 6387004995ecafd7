//! Numbers with units, as tools print them.

/// A number with the suffix that fio puts on large ones: `1674.4k`, `2629.1K`, `1.2M`.
pub fn scaled(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, factor) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1e3),
        'm' | 'M' => (&text[..text.len() - 1], 1e6),
        'g' | 'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    number(digits).map(|value| value * factor)
}

/// A plain number: digits with at most one point. No signs, exponents, infinities.
pub fn number(text: &str) -> Option<f64> {
    let plain = text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    // More digits than a double holds are damage.
    if !plain || text.len() > 17 {
        return None;
    }
    text.parse().ok()
}

/// Bytes of a unit. Binary where the tool says so (`MiB`), else as `thousand` says.
pub fn unit(text: &str, thousand: f64) -> Option<f64> {
    let text = text.trim().trim_end_matches("/s").trim_end_matches("/sec");
    if text == "B" {
        return Some(1.0);
    }
    let prefix = text.strip_suffix("iB").or_else(|| text.strip_suffix('B'))?;
    let base = if text.ends_with("iB") { 1024.0_f64 } else { thousand };
    let power = match prefix.trim() {
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    Some(base.powi(power))
}

/// Microseconds of a unit of time as fio writes it.
pub fn micros(unit: &str) -> Option<f64> {
    match unit {
        "nsec" => Some(1e-3),
        "usec" => Some(1.0),
        "msec" => Some(1e3),
        "sec" => Some(1e6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_strictly() {
        assert_eq!(scaled("1674.4k"), Some(1_674_400.0));
        assert_eq!(scaled("39.7k"), Some(39_700.0));
        for damaged in
            ["", "-1", "1e5", "inf", "NaN", "1.2.3", "4O96", "..", ".5", "k", "123456789012345678"]
        {
            assert_eq!(scaled(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn units_are_binary_where_they_say_so() {
        assert_eq!(unit("MiB/s", 1000.0), Some(1_048_576.0));
        assert_eq!(unit("KB/s", 1024.0), Some(1024.0));
        assert_eq!(unit("GB/s", 1000.0), Some(1e9));
        assert_eq!(unit("XB", 1000.0), None);
    }
}
