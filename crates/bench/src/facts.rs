//! What is known of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::process;
use crate::result::Machine;
use crate::tools;

/// Looks at this machine, at the disks below the scratch directories, and at the versions of the
/// tools and of the `evenkeel` program that is measured.
pub fn machine(places: &[PathBuf], evenkeel: &Path) -> Machine {
    let mut disks: Vec<String> = places.iter().map(|place| disk(place)).collect();
    disks.dedup();
    let own = process::quiet([evenkeel.as_os_str(), "--version".as_ref()]).unwrap_or_default();
    let mut tools = tools::versions();
    tools.insert(0, ("evenkeel".to_owned(), own.trim().to_owned()));
    Machine {
        kernel: read("/proc/sys/kernel/osrelease"),
        system: field(&read("/etc/os-release"), "PRETTY_NAME", '=').trim_matches('"').to_owned(),
        processor: field(&read("/proc/cpuinfo"), "model name", ':'),
        processors: std::thread::available_parallelism()
            .map_or(0, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        memory_bytes: memory(),
        disk: disks.join("; "),
        tools,
        foreign_load: None,
        load_average: read("/proc/loadavg").split(' ').next().and_then(|word| word.parse().ok()),
        raw_spread: None,
    }
}

/// Now, in UTC, as in `2026-11-20T20:15:00Z`.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, rest) = (since / 86_400, since % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// The date of a day counted from 1970-01-01 (Howard Hinnant's algorithm).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The device and filesystem below a path, and the device's model, size and scheduler as far as it
/// tells them.
pub fn disk(path: &Path) -> String {
    let found = process::quiet([
        "findmnt".as_ref(),
        "-n".as_ref(),
        "-o".as_ref(),
        "SOURCE,FSTYPE".as_ref(),
        "-T".as_ref(),
        path.as_os_str(),
    ]);
    let words = found.unwrap_or_default();
    let mut words = words.split_whitespace();
    let (source, kind) = (words.next().unwrap_or("unknown"), words.next().unwrap_or("unknown"));
    let model = process::quiet(["lsblk", "-n", "-d", "-o", "MODEL,SIZE,SCHED", source]);
    let model = model.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    match model.is_empty() {
        true => format!("{kind} on {source}"),
        false => format!("{kind} on {source} ({model})"),
    }
}

fn memory() -> u64 {
    let line = field(&read("/proc/meminfo"), "MemTotal", ':');
    line.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn field(text: &str, name: &str, separator: char) -> String {
    text.lines()
        .filter_map(|line| line.split_once(separator))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(20_777), (2026, 11, 20));
    }

    #[test]
    fn the_machine_is_known() {
        let machine = machine(&["/".into(), "/".into()], Path::new("/no/such/program"));
        assert!(!machine.kernel.is_empty());
        assert!(machine.processors > 0 && machine.memory_bytes > 0, "{machine:?}");
    }
}
