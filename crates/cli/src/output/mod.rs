//! What people see: tables, sizes, colours, progress, and the pages of each kind of thing.

pub mod assemble;
pub mod changes;
pub mod client;
mod colour;
pub mod examine;
pub mod harmless;
pub mod node;
pub mod phrases;
pub mod plan;
pub mod reservation;
mod size;
mod table;
pub mod verify;
pub mod volume;

use std::io::Write as _;

pub use colour::{Painted, decide as decide_colours};
pub use size::{
    parse_no_coordinator, parse_no_data, parse_number, parse_size, parse_span, parse_volume_size,
    rate, size, span,
};

/// Writes to standard output. Whoever closed it does not want to know more: not an error.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
