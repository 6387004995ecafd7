//! What giving a disk to this node would take away, told before. Writes nothing.

use std::path::Path;

use evenkeel_api::ApiError;
use evenkeel_format::Superblock;

use super::probe::device_number;
use super::replica_file::read_newest;
use super::{Disks, canonical, default_name, device, directory, system};

/// What adding a disk comes to.
#[derive(Debug)]
pub struct Addition {
    /// The name that it would have.
    pub name: String,
    /// What is there, and what would become of it, in a sentence.
    pub reported: String,
    /// The replica that would be overwritten.
    pub loses: Option<Superblock>,
    /// The replicas that it holds, and that would be served.
    pub finds: Vec<Superblock>,
}

impl Disks {
    /// What [`Disks::add`] would do.
    ///
    /// # Errors
    /// As that, but for what only writing to the disk tells.
    pub fn plan_addition(
        &self,
        path: &Path,
        name: Option<String>,
        force: bool,
    ) -> Result<Addition, ApiError> {
        let what = format!("cannot add {}", path.display());
        let path = canonical(path, &what)?;
        let name = name.unwrap_or_else(|| default_name(&path));
        self.lock().refuse_duplicate(&path, &name, &what)?;
        if device_number(&path).map_err(|e| system(&what, &e))?.is_none() {
            directory::refuse_unusable(&path, &what)?;
            let finds = directory::replicas(&path);
            let reported = match finds.len() {
                0 => "it is a directory, and nothing in it is deleted".to_owned(),
                count => format!("it is a directory that holds {count} replica(s)"),
            };
            return Ok(Addition { name, reported, loses: None, finds });
        }
        let (found, is_kept) = device::look(&path, force, &what)?;
        let newest = read_newest(&path).filter(|_| found.is_some());
        let (finds, loses) = if is_kept { (newest, None) } else { (None, newest) };
        let reported = match found {
            None => "nothing known is on it".to_owned(),
            Some(found) if is_kept => format!("it holds {found}, which would be served"),
            Some(found) => format!("it holds {found}, which would be lost for good"),
        };
        Ok(Addition { name, reported, loses, finds: finds.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::tests::{new, node, place};
    use evenkeel_api::ErrorCode;

    #[test]
    fn a_directory_loses_nothing_and_nothing_is_written_to_it() {
        let place = place();
        let (disks, _) = Disks::open(place.state.clone(), node()).unwrap();
        let planned = disks.plan_addition(&place.disk, None, true).unwrap();
        assert_eq!(planned.name, "disk1");
        assert!(planned.loses.is_none() && planned.finds.is_empty());
        assert_eq!(planned.reported, "it is a directory, and nothing in it is deleted");
        assert_eq!(std::fs::read_dir(&place.disk).unwrap().count(), 0);
        assert!(disks.list().is_empty());
        let file = place.disk.join("file");
        std::fs::write(&file, "").unwrap();
        let refused = disks.plan_addition(&file, None, true).unwrap_err();
        assert_eq!(refused.code, ErrorCode::BadRequest);
        assert_eq!(refused.why, "it is neither a block device nor a directory");

        // Of a disk that another node had.
        disks.add(&place.disk, None, false).unwrap();
        let made = disks.create_replica("disk1", &new(1 << 20)).unwrap();
        let replica = made.newest.superblock.replica;
        let other = self::place();
        let (of_another, _) = Disks::open(other.state.clone(), node()).unwrap();
        let planned = of_another.plan_addition(&place.disk, None, false).unwrap_err();
        let refused = of_another.add(&place.disk, None, false).unwrap_err();
        assert_eq!(planned.code, ErrorCode::DiskInUse);
        assert_eq!(planned, refused, "what would be done is what is done");
        drop((made, disks));
        let disks = of_another;
        let planned = disks.plan_addition(&place.disk, None, false).unwrap();
        assert_eq!(planned.reported, "it is a directory that holds 1 replica(s)");
        assert_eq!(planned.finds[0].replica, replica);
    }
}
