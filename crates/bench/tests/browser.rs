//! Opens pages in a real browser, wide and narrow: tables and charts are there and have a size,
//! nothing sticks out, and the browser complains about nothing.
//!
//! Skipped with a note where Chromium is not installed, unless EVENKEEL_BENCH_NEEDS_BROWSER is set.
//! EVENKEEL_BENCH_PAGE names the page of a measurement to be opened too.

use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_bench::process::find_program;
use evenkeel_bench::report::html;
use evenkeel_bench::{import, result::Results};
use serde_json::Value;

const FIO: &str = include_str!("../src/import/tests/fio-3.33.txt");
const BONNIE: &str = include_str!("../src/import/tests/bonnie-2.00a.txt");
/// A run of `quick`, shortened: every part that a page can have.
const RUN: &str = include_str!("browser/run.json");

/// Put at the end of a copy of the page: looks at it when it is laid out, and writes down what it
/// sees. The page itself has no script.
const PROBE: &str = r#"<script>
addEventListener("load", () => {
  const seen = selector => [...document.querySelectorAll(selector)]
    .filter(e => e.getBoundingClientRect().width > 20 && e.getBoundingClientRect().height > 0).length;
  const ink = e => { const b = e.getBBox(); return b.width > 20 && getComputedStyle(e).stroke != "none"; };
  const found = {
    tables: seen("table"), rows: seen("tbody tr"), charts: seen("svg.chart"), summary: seen(".summary p"),
    lines: [...document.querySelectorAll("svg .line")].filter(ink).length,
    bars: [...document.querySelectorAll(".track i")].filter(e => e.getBoundingClientRect().height > 4).length,
    commands: document.querySelectorAll("details pre code").length,
    pictures: seen(".picture .row"), warnings: seen(".warning"), width: innerWidth,
    loose: [...document.querySelectorAll("table")]
      .filter(e => e.scrollWidth > e.parentElement.clientWidth + 1)
      .filter(e => !["auto", "scroll"].includes(getComputedStyle(e.parentElement).overflowX)).length,
    small: [...document.querySelectorAll(".picture span, .summary p, td")]
      .filter(e => e.textContent && parseFloat(getComputedStyle(e).fontSize) < 11).length,
    sticksOut: document.documentElement.scrollWidth - innerWidth,
    paper: getComputedStyle(document.body).backgroundColor,
  };
  const out = parent.document, pre = out.createElement("pre");
  pre.id = "probe"; pre.textContent = JSON.stringify(found); out.body.append(pre);
});
</script>"#;

fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| find_program(name).is_some())
}

/// What the probe saw on a page in a window of this width.
fn look(browser: &str, page: &Path, width: u32, dark: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("page.html");
    let text = std::fs::read_to_string(page).unwrap();
    assert!(!text.contains("<script"), "the page has a script");
    let text = text + PROBE;
    // A window is never narrower than 500: a frame has the width of a phone.
    let framed = match width < 500 {
        true => format!(
            "<!doctype html><iframe style=\"border:0;width:{width}px;height:900px\" srcdoc=\"{}\"></iframe>",
            text.replace('&', "&amp;").replace('"', "&quot;")
        ),
        false => text,
    };
    std::fs::write(&copy, framed).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", copy.display()))
        .output()
        .unwrap();
    let (shown, logged) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!logged.contains("CONSOLE"), "{logged}");
    let probe = shown.split_once("id=\"probe\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (probe, _) = probe.unwrap_or_else(|| panic!("the page was not laid out: {logged}"));
    serde_json::from_str(&probe.replace("&amp;", "&")).unwrap()
}

fn number(found: &Value, what: &str) -> i64 {
    found[what].as_i64().unwrap_or_else(|| panic!("no {what} in {found}"))
}

/// Opens a page in several ways; it must have at least so many of each.
fn check(browser: &str, page: &Path, least: &[(&str, i64)]) {
    let mut papers = Vec::new();
    for (width, dark) in [(1280, false), (1280, true), (500, false), (360, false), (360, true)] {
        let found = look(browser, page, width, dark);
        for (what, least) in least {
            assert!(number(&found, what) >= *least, "{what} at {width}: {found}");
        }
        if width < 500 {
            assert_eq!(number(&found, "width"), i64::from(width), "{found}");
        }
        assert!(number(&found, "sticksOut") <= 0, "it is wider than a window of {width}: {found}");
        assert_eq!(number(&found, "loose"), 0, "a table does not scroll by itself: {found}");
        assert_eq!(number(&found, "small"), 0, "letters are too small at {width}: {found}");
        papers.push(found["paper"].clone());
    }
    assert_ne!(papers[0], papers[1], "dark is as light");
}

#[test]
fn a_browser_shows_tables_and_charts_without_a_complaint() {
    let Some(browser) = browser() else {
        assert!(std::env::var_os("EVENKEEL_BENCH_NEEDS_BROWSER").is_none(), "there is no Chromium");
        eprintln!("skipped: there is no Chromium here: apt-get install chromium");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, all: &[Results]| -> PathBuf {
        let page = folder.path().join(name);
        std::fs::write(&page, html::page(all)).unwrap();
        page
    };
    let run = Results::from_json(RUN).unwrap();
    let workloads = i64::try_from(run.workloads.len()).unwrap();
    let page = write("run.html", &[run]);
    // Each workload has a table, one of processor time, and two charts of some lines each; but the
    // latencies of the one with flushes, which an earlier version measured, lack the flushes.
    let least = [
        ("tables", 2 * workloads + 2),
        ("charts", 2 * workloads - 1),
        ("lines", 6 * workloads - 3),
        ("bars", 6 * workloads),
        ("commands", 3 * workloads),
        ("summary", 3),
        ("pictures", 3 * workloads),
        // Two rounds are too few.
        ("warnings", 1),
    ];
    check(browser, &page, &least);
    let imported = [import::read("fio.txt", FIO), import::read("bonnie.txt", BONNIE)];
    let page = write("imported.html", &imported);
    check(browser, &page, &[("tables", 2), ("charts", 1), ("summary", 3)]);
    if let Some(page) = std::env::var_os("EVENKEEL_BENCH_PAGE") {
        check(
            browser,
            Path::new(&page),
            &[("tables", 4), ("charts", 1), ("rows", 16), ("bars", 8)],
        );
    }
}

#[test]
fn a_page_can_be_printed() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (page, paper) = (folder.path().join("page.html"), folder.path().join("page.pdf"));
    std::fs::write(&page, html::page(&[Results::from_json(RUN).unwrap()])).unwrap();
    let status = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--print-to-pdf={}", paper.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    let bytes = std::fs::read(paper).unwrap();
    let pages = bytes.windows(10).filter(|window| *window == b"/Type /Pag").count();
    assert!(bytes.starts_with(b"%PDF-") && pages >= 2, "{} bytes, {pages} pages", bytes.len());
}
