//! A ublk device.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use evenkeel_engine::FrontendMaker;

use super::{Options, note, publish, record_of};
use crate::error::AttachError;
use crate::place::{self, Kind, Place, Record};
use crate::ublk::UblkFrontend;
use crate::ublk::control::{self, Control};

/// Attaches a volume and returns its device.
pub fn attach(
    control: &mut Control,
    place: &Place,
    options: &Options,
    serve: impl FnOnce(FrontendMaker) -> Result<(), String>,
) -> Result<PathBuf, AttachError> {
    let mut record = record_of(options, Kind::Ublk);
    let number = control
        .add(options.size(), options.block_size)
        .map_err(AttachError::system("can't make a ublk device"))?;
    let device = control::block_path(number);
    record.device = Some(device.clone());
    let noted = note(place, &record);
    let served = noted.and_then(|()| serve_device(number, options.size(), serve));
    let started = served.and_then(|()| {
        control.start(number).map_err(AttachError::system("can't start a ublk device"))
    });
    let published = started.and_then(|()| {
        let waited = control::wait_for_block_device(number);
        waited.map_err(AttachError::system(format!("{} does not appear", device.display())))?;
        control::leave_order_to_the_disks(number);
        publish(place, &mut record, &device)
    });
    if published.is_err() {
        // The error at hand says more than what may fail now.
        let _ = control.stop(number);
        let _ = control.delete(number);
    }
    published.map(|()| device)
}

fn serve_device(
    number: u32,
    size: u64,
    serve: impl FnOnce(FrontendMaker) -> Result<(), String>,
) -> Result<(), AttachError> {
    let server_side = control::open_server_side(number)
        .map_err(AttachError::system(format!("can't open /dev/ublkc{number}")))?;
    let server_side = OwnedFd::from(server_side);
    serve(Box::new(move || Box::new(UblkFrontend::new(server_side, size))))
        .map_err(AttachError::Serve)
}

/// The number of the device that the noted daemon has left, if it can be taken over.
pub fn resumable(
    control: &mut Control,
    options: &Options,
    record: &Record,
) -> Result<Option<u32>, AttachError> {
    // A device keeps its size when its volume grows.
    let same = record.size <= options.size() && record.block_size == options.block_size;
    let number = record.device.as_deref().and_then(control::number_of).filter(|_| same);
    let Some(number) = number.filter(|_| record.kind == Kind::Ublk) else { return Ok(None) };
    let action = format!("can't look at ublk device {number}");
    let found = control.device(number).map_err(AttachError::system(action))?;
    Ok(found.filter(|found| found.server == record.daemon && found.outlives).map(|_| number))
}

/// Takes over a device that a killed daemon has left, and returns it.
pub fn resume(
    control: &mut Control,
    place: &Place,
    record: &Record,
    number: u32,
    serve: impl FnOnce(FrontendMaker) -> Result<(), String>,
) -> Result<PathBuf, AttachError> {
    let device = control::block_path(number);
    let action = || format!("can't take over {}", device.display());
    control.start_recovery(number).map_err(AttachError::system(action()))?;
    let daemon = std::process::id();
    let mut record = Record { daemon, began: place::began(), ..record.clone() };
    serve_device(number, record.size, serve)?;
    control.end_recovery(number).map_err(AttachError::system(action()))?;
    publish(place, &mut record, &device)?;
    Ok(device)
}
