use super::*;

#[test]
fn the_first_signal_is_named() {
    let interrupt = Interrupt { wanted: Arc::new(OnceLock::new()) };
    assert!(interrupt.check().is_ok());
    interrupt.wanted.set(Signal::Terminate).unwrap();
    assert!(interrupt.wanted.set(Signal::ControlC).is_err());
    let failure = interrupt.check().unwrap_err();
    assert!(failure.render().contains("stopped by SIGTERM"), "{}", failure.render());
}
