//! Opens a page in a real browser: everything is there, and the browser complains about nothing.
//! Runs where Chromium is installed.

use std::process::Command;

use evenkeel_bench::{import, report::html};

const FIO: &str = include_str!("../src/import/tests/fio-3.33.txt");
const BONNIE: &str = include_str!("../src/import/tests/bonnie-2.00a.txt");

fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| evenkeel_bench::process::find_program(name).is_some())
}

#[test]
fn a_browser_shows_tables_and_charts_without_a_complaint() {
    let Some(browser) = browser() else {
        eprintln!("there is no Chromium here: apt-get install chromium");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let all = [import::read("fio.txt", FIO), import::read("bonnie.txt", BONNIE)];
    std::fs::write(&page, html::page(&all)).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let logged = String::from_utf8_lossy(&output.stderr);
    assert!(shown.matches("<table").count() >= 2, "{shown}");
    assert!(shown.contains("<polyline") && shown.contains("Latency by percentile"), "{shown}");
    assert!(!logged.contains("CONSOLE"), "{logged}");
}
