//! The commands of workloads: as they are run, and as a person would type them.

use std::path::Path;

use crate::fio::{self, FioJob, Reach};
use crate::process;
use crate::target::Target;
use crate::units::short_size;
use crate::workload::{BonnieJob, DdDirection, DdJob, Place, Task, Work};

/// The command of a workload as a person would type it, without what only programs need.
pub fn plain(task: &Task, path: &Path) -> String {
    let words = match &task.work {
        Work::Fio(job) => plain_fio(job, path),
        Work::Bonnie(job) => bonnie_original(*job, &parent(path)),
        other => plain_other(other, path, Path::new("/home/test/iotest")),
    };
    process::shown(&process::command(words))
}

fn plain_fio(job: &FioJob, path: &Path) -> Vec<String> {
    let reach = Reach::File(path.to_owned());
    let mut words = fio::arguments("benchmark", job, &reach, None);
    let machine_only = |word: &String| {
        word.starts_with("--output-format")
            || word.starts_with("--percentile_list")
            || word == "--norandommap"
            || word == "--randrepeat=0"
    };
    words.retain(|word| !machine_only(word));
    for word in &mut words {
        if let Some(number) =
            word.strip_prefix("--runtime=").and_then(|rest| rest.strip_suffix("000ms"))
        {
            *word = format!("--runtime={number}");
        }
    }
    words
}

/// The words of a tool other than fio. `other` is where it puts what is not to be measured.
pub fn plain_other(work: &Work, path: &Path, other: &Path) -> Vec<String> {
    let path_text = path.display().to_string();
    match work {
        Work::Fio(_) => Vec::new(),
        Work::Dd(job) => dd_words(*job, &path_text, &other.display().to_string()),
        Work::Hdparm => vec!["hdparm".to_owned(), "-tT".to_owned(), path_text],
        Work::Bonnie(job) => bonnie_words(*job, &parent(path)),
        Work::Iozone(size) => iozone_words(*size, &path_text, &other.display().to_string()),
    }
}

/// All its tests, and a table for spreadsheets, which is left alone.
fn iozone_words(size: u64, path: &str, table: &str) -> Vec<String> {
    let mut words = vec!["iozone".to_owned()];
    words.extend((0..=8).flat_map(|test| ["-i".to_owned(), test.to_string()]));
    let (smallest, largest) = (short_size(size / 2), short_size(size));
    words.extend(
        ["-f", path, "-Rab", &format!("{table}.xls"), "-g", &largest, "-n", &smallest, "-C"]
            .map(str::to_owned),
    );
    words
}

fn parent(path: &Path) -> String {
    path.parent().unwrap_or(path).display().to_string()
}

fn dd_words(job: DdJob, path: &str, other: &str) -> Vec<String> {
    let (from, to, flags) = match job.direction {
        DdDirection::Read => (path, "/dev/null", vec![format!("iflag={}", job.flags)]),
        DdDirection::Write => ("/dev/zero", path, vec![format!("oflag={}", job.flags)]),
        DdDirection::ReadToFile => {
            (path, other, vec![format!("iflag={}", job.flags), format!("oflag={}", job.flags)])
        }
    };
    let mut words = vec!["dd".to_owned()];
    words.extend(flags);
    words.extend([
        format!("if={from}"),
        format!("of={to}"),
        format!("bs={}", short_size(job.block).to_uppercase().replace('K', "k")),
        format!("count={}", job.count),
    ]);
    words
}

fn bonnie_words(job: BonnieJob, directory: &str) -> Vec<String> {
    let mebibytes = (job.size >> 20).max(1);
    let mut words =
        ["bonnie++", "-q", "-d", directory, "-u", "root", "-b"].map(str::to_owned).to_vec();
    words.extend(["-s".to_owned(), format!("{mebibytes}M")]);
    // It refuses files smaller than twice the memory unless it is told of less memory.
    words.extend(["-r".to_owned(), (mebibytes / 2).max(1).to_string()]);
    words.extend(["-n".to_owned(), job.files.to_string()]);
    words.extend(job.fast.then(|| "-f".to_owned()));
    words
}

/// Without what only a small scale and a program that reads the output need.
fn bonnie_original(job: BonnieJob, directory: &str) -> Vec<String> {
    let (size, files) = (short_size(job.size), job.files.to_string());
    let mut words = ["bonnie++", "-d", directory, "-s", &size, "-u", "USER", "-n", &files]
        .map(str::to_owned)
        .to_vec();
    words.extend(job.fast.then(|| "-f".to_owned()));
    words.push("-b".to_owned());
    words
}

/// Which caches were in play when a task was run on a target.
pub fn cache(task: &Task, target: &Target) -> String {
    if !buffered(task) {
        return target.configuration.cache.clone();
    }
    if matches!(target.reach, Reach::Gfapi { .. }) {
        return "no page cache: the client library".to_owned();
    }
    let place = match task.place {
        Place::Filesystem(_) => "page cache of the filesystem",
        Place::Device | Place::Shortest => "page cache of the device",
    };
    match rustix::process::geteuid().is_root() {
        true => format!("{place}, emptied before each round"),
        false => format!("{place}, not emptied: that takes root"),
    }
}

/// Whether a task goes through the page cache.
pub fn buffered(task: &Task) -> bool {
    match &task.work {
        Work::Fio(job) => !job.direct,
        Work::Dd(job) => !job.flags.contains("direct"),
        Work::Hdparm | Work::Bonnie(_) | Work::Iozone(_) => true,
    }
}
