//! How tests see that a broken invariant is found.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Panics unless this check does, by an assertion of the rule with this label.
pub(crate) fn trips(label: &str, check: impl FnOnce()) {
    let failed = catch_unwind(AssertUnwindSafe(check)).expect_err("it holds");
    let text = failed.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| failed.downcast_ref::<&str>().copied()).expect("a text");
    assert!(text.starts_with(&format!("{label}: ")), "not {label}, but {text}");
}
