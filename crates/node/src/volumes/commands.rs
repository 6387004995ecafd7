//! What is done to volumes at a command, one module for each.

pub mod assemble;
pub mod attach;
pub mod change;
pub mod create;
pub mod delete;
pub mod detach;
mod fewer;
pub mod grow;
pub mod members;
pub mod plan;
pub mod rename;
pub mod replica;
pub mod reservation;
pub mod retire;
pub mod stop;
mod unclean;
pub mod unmounted;
pub mod unwritable;
pub mod verify;
mod view_change;
