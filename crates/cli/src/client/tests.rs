use super::*;

#[test]
fn what_would_lose_data_ends_as_unsafe() {
    for code in [
        ErrorCode::DiskHasData,
        ErrorCode::LastInSync,
        ErrorCode::Incomplete,
        ErrorCode::OldCopy,
        ErrorCode::ReplicaUnusable,
        ErrorCode::SplitBrain,
    ] {
        assert_eq!(exit_code(code), Exit::Unsafe, "{code:?}");
    }
}
