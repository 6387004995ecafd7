use super::*;

#[test]
fn what_goes_on_after_an_interrupt_is_said() {
    let stopped = Failure::new("stopped by Ctrl-C", "").exit(Exit::Interrupted);
    let failure = goes_on(stopped.clone(), "music", "mount");
    let expected = "evenkeel: stopped by Ctrl-C\n  \
                    why: `mount` goes on in the kernel until the volume answers: then the volume may be \
                    mounted; volume music stays attached\n  \
                    do:  see what the volume waits for: evenkeel volume status music; when it answers, end \
                    this: evenkeel umount music\n";
    assert_eq!(failure.render(), expected);
    assert_eq!(failure.exit, Exit::Interrupted);
    let failure = goes_on(stopped, "music", "wipefs");
    assert!(failure.why.contains("then the program ends; volume music stays attached"));
}

#[test]
fn what_could_not_be_taken_back_is_said_after_the_failure() {
    let failed = Failure::new("`mount` failed", "bad option").advise("see dmesg");
    let failed = Failure { json: Some("{}".into()), ..failed };
    let failure = not_taken_back(failed, "music", "the coordinator does not answer");
    let expected = "evenkeel: `mount` failed\n  \
                    why: bad option\n       \
                    what was attached for it may be there still: the coordinator does not answer\n  \
                    do:  see dmesg\n       \
                    see it: evenkeel volume status music; end it: evenkeel umount music\n";
    assert_eq!(failure.render(), expected);
    assert_eq!(failure.json, None);
}
