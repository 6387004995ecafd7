//! How tests see that a broken invariant is found.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Panics unless this check does, in these words.
pub(super) fn trips(words: &str, check: impl FnOnce()) {
    let failed = catch_unwind(AssertUnwindSafe(check)).expect_err("it holds");
    let text = failed.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| failed.downcast_ref::<&str>().copied()).expect("a text");
    assert!(text.contains(words), "not {words}, but {text}");
}
