//! Sizes in messages for people. K, M, G, T and P are powers of 1024.

/// The letters of the units with the powers of two that they stand for, largest first.
const UNITS: [(char, u32); 5] = [('P', 50), ('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// `4G`, `1.5G`, `700`: at most three significant digits, no space.
#[must_use]
pub fn size(bytes: u64) -> String {
    for (letter, shift) in UNITS {
        let one = 1u64 << shift;
        if bytes >= one {
            #[allow(clippy::cast_precision_loss)]
            let value = bytes as f64 / one as f64;
            return format!("{}{letter}", significant(value));
        }
    }
    bytes.to_string()
}

fn significant(value: f64) -> String {
    let text = if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Two sizes of which one is too small: in bytes if they would look the same otherwise.
#[must_use]
pub fn compared(one: u64, other: u64) -> [String; 2] {
    match size(one) == size(other) {
        true => [one, other].map(|bytes| format!("{bytes} bytes")),
        false => [one, other].map(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_with_at_most_three_digits() {
        for (bytes, text) in [
            (0, "0"),
            (700, "700"),
            (1024, "1K"),
            (1536, "1.5K"),
            (4 << 30, "4G"),
            ((4 << 30) - 1, "4G"),
            (1_234_567, "1.18M"),
            (123_456_789, "118M"),
            (12_345_678, "11.8M"),
            (967_807_901_696, "901G"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn sizes_that_differ_by_little_are_told_apart() {
        assert_eq!(compared(103_329_792, 271_065_088), ["98.5M", "259M"]);
        assert_eq!(compared(1 << 30, (1 << 30) + 4096), ["1073741824 bytes", "1073745920 bytes"]);
    }
}
