use super::*;

#[test]
fn what_would_lose_data_ends_as_unsafe() {
    for code in [
        ErrorCode::DiskHasData,
        ErrorCode::LastInSync,
        ErrorCode::Incomplete,
        ErrorCode::StaleClone,
        ErrorCode::ReplicaUnusable,
        ErrorCode::SplitBrain,
    ] {
        assert_eq!(code.exit(), Exit::Unsafe, "{code:?}");
    }
}

/// Every code that there is: serde lists them when it meets one that it does not know.
fn all_codes() -> Vec<String> {
    let error = serde_json::from_str::<ErrorCode>("\"?\"").unwrap_err().to_string();
    let (_, list) = error.split_once("expected one of ").expect("a list");
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_manual_has_the_codes_of_what_the_command_finds_out_itself() {
    let page = include_str!("../../../../docs/manual/exit-codes.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| of the command |")).skip(2);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    let all = [
        Exit::Failed,
        Exit::Usage,
        Exit::NotFound,
        Exit::Unsafe,
        Exit::Unreachable,
        Exit::Degraded,
        Exit::TimedOut,
        Exit::Interrupted,
    ];
    let expected: Vec<String> =
        all.iter().map(|exit| format!("| {} | {} |", exit.name(), exit.code())).collect();
    assert_eq!(rows, expected);
}

#[test]
fn the_manual_has_the_exit_code_of_every_error() {
    let codes = all_codes();
    assert!(codes.len() > 30, "{codes:?}");
    let page = include_str!("../../../../docs/manual/exit-codes.md");
    let mut rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for name in codes {
        let code: ErrorCode = serde_json::from_value(name.clone().into()).unwrap();
        let row = format!("| `{name}` | {} |", code.exit().code());
        assert!(rows.contains(&row.as_str()), "docs/manual/exit-codes.md lacks {row}");
        rows.retain(|other| *other != row);
    }
    assert!(rows.is_empty(), "nobody gives these: {rows:?}");
}
