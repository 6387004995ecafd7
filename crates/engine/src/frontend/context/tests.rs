use super::*;

#[test]
fn another_one_waits_until_memory_returns() {
    let mut holder = FrontendContext::detached(8192);
    let mut other = holder.beside();
    let room = holder.allocate(8192).expect("all is free");
    assert!(holder.allocate(4096).is_none());
    assert!(!holder.others_wait(), "it waits itself");
    assert!(other.allocate(4096).is_none() && other.reserve([4096]).is_none());
    assert!(holder.others_wait() && other.others_wait());
    drop(room);
    other.stop_waiting();
    assert!(!holder.others_wait());
    let _room = other.allocate(8192).expect("all is free again");
    let read = Operation::Read { offset: 0, length: 4096 };
    drop(holder);
    let mut holder = other.beside();
    assert!(holder.submit(RequestToken(1), read).is_err());
    assert!(other.others_wait());
    drop(holder);
    assert!(!other.others_wait(), "it is gone");
}
