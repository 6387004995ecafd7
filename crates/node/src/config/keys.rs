//! The known keys. A misspelt key is refused, not ignored, and the nearest known one is named.

use toml::{Table, Value};

/// Every key, with the table that it stands in.
const KEYS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "name",
            "cluster",
            "state",
            "runtime",
            "log",
            "api",
            "metrics",
            "peer",
            "coordinator",
            "data",
            "times",
            "nbd",
            "nvme",
        ],
    ),
    ("log", &["level", "format"]),
    ("api", &["socket", "view", "operate", "administer"]),
    ("metrics", &["listen", "insecure"]),
    ("peer", &["listen", "advertise", "tls", "handshake_seconds", "max_unauthenticated"]),
    ("peer.tls", &["certificate", "key", "authority", "nodes"]),
    ("coordinator", &["here", "join", "expiry_seconds"]),
    ("data", &["workers", "memory_per_volume", "memory_per_worker", "max_poll_us"]),
    (
        "times",
        &[
            "deadline_ms",
            "lease_ms",
            "lease_margin_ms",
            "reconnect_grace_ms",
            "coordinator_patience_seconds",
            "concurrent_copies",
            "rebuild_share",
            "stabilize_after_ms",
            "lag_window_ms",
            "lag_times",
            "lag_least_ms",
            "lag_pause_seconds",
            "lag_longest_pause_seconds",
            "spare_takes_over_after_ms",
        ],
    ),
    ("nbd", &["listen", "max_clients", "insecure", "tls"]),
    ("nvme", &["listen", "insecure"]),
    ("nbd.tls", &["certificate", "key", "authority"]),
];

/// Keys that were called otherwise: their table, and the names before and now.
const RENAMED: &[(&str, &str, &str)] = &[
    ("peer", "most_unproved", "max_unauthenticated"),
    ("data", "longest_poll_us", "max_poll_us"),
    ("times", "settle_after_ms", "stabilize_after_ms"),
    ("nbd", "most_clients", "max_clients"),
];

/// Keys that are gone: their table, their name, and what does their work.
const GONE: &[(&str, &str, &str)] = &[
    (
        "api",
        "group",
        "its members get the right to do everything by `administer = [\"@GROUP\"]`, or less by `view` or `operate`",
    ),
    (
        "peer",
        "key_file",
        "over TCP nodes prove by certificates who they are: take the line away, run `evenkeel cluster init` on the coordinator's node while it does not run, start the nodes, and let each other one join by `evenkeel node join ADDRESS --token TOKEN` (`evenkeel node invite --member NODE` on the coordinator's node makes the token of a member); or set [peer.tls]",
    ),
];

/// Checks that every key of the file is known.
pub(super) fn check(table: &Table) -> Result<(), String> {
    check_table("", table)
}

/// All keys with the names of their tables, as in `peer.listen`.
#[cfg(test)]
pub(super) fn all() -> Vec<String> {
    let tables: Vec<&str> = KEYS.iter().map(|(table, _)| *table).collect();
    let full = |table: &str, key: &str| path(table, key);
    KEYS.iter()
        .flat_map(|(table, keys)| keys.iter().map(move |key| full(table, key)))
        .filter(|key| !tables.contains(&key.as_str()))
        .collect()
}

/// What is wrong with a value, without the names of types.
pub(super) fn in_words(error: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected u16", "expected a whole number"),
        ("expected u8", "expected a whole number"),
        ("expected usize", "expected a whole number"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected a list, as in [\"one\", \"two\"]"),
        ("expected a map", "expected a table"),
        ("expected a string", "expected a text in quotation marks"),
        ("expected path string", "expected a path in quotation marks"),
        ("invalid type: string", "this is a text:"),
        ("invalid type: integer", "this is a number:"),
        ("invalid type: floating point", "this is a number with a fraction:"),
        ("invalid type: boolean", "this is true or false:"),
        ("invalid type: sequence", "this is a list"),
        ("invalid value: integer", "this is out of range:"),
    ];
    WORDS.iter().fold(error.to_owned(), |text, (type_name, words)| text.replace(type_name, words))
}

fn check_table(name: &str, table: &Table) -> Result<(), String> {
    let known = KEYS.iter().find(|(table, _)| *table == name).map_or(&[][..], |(_, keys)| keys);
    for (key, value) in table {
        if !known.contains(&key.as_str()) {
            return Err(unknown(name, key, known));
        }
        if let Value::Table(inner) = value {
            check_table(&path(name, key), inner)?;
        }
    }
    Ok(())
}

fn path(table: &str, key: &str) -> String {
    if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
}

fn unknown(table: &str, key: &str, known: &[&str]) -> String {
    let renamed = RENAMED.iter().find(|(of, before, _)| (*of, *before) == (table, key));
    if let Some((_, before, now)) = renamed {
        return format!("`{before}` in [{table}] is called `{now}` now");
    }
    if let Some((.., instead)) = GONE.iter().find(|(of, before, _)| (*of, *before) == (table, key))
    {
        return format!("`{key}` in [{table}] is gone; {instead}");
    }
    let place = if table.is_empty() { "at the top".into() } else { format!("in [{table}]") };
    let everywhere = KEYS.iter().flat_map(|(t, keys)| keys.iter().map(move |k| (*t, *k)));
    let same_name = everywhere.filter(|(t, k)| *k == key && *t != table).map(|(t, _)| t).next();
    let nearest = known.iter().min_by_key(|k| distance(k, key));
    let advice = match (same_name, nearest) {
        (Some(other), _) if !other.is_empty() => format!("there is one in [{other}]"),
        (Some(_), _) => "there is one at the top, before the first [table]".into(),
        (None, Some(nearest)) if distance(nearest, key) <= key.len().max(4) / 2 => {
            format!("did you mean `{nearest}`?")
        }
        _ => format!("known are: {}", known.join(", ")),
    };
    format!("unknown key `{key}` {place}; {advice}")
}

/// How many letters must be put in, left out or changed to turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
