use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use super::*;

const SIZE: u64 = 4 << 20;

fn name_of(disk: &[u8]) -> Option<&'static str> {
    foreign_signature(disk.len() as u64, |offset, buffer| {
        let offset = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&disk[offset..offset + buffer.len()]);
        Ok(())
    })
    .unwrap()
}

fn with(offset: u64, magic: &[u8], size: u64) -> Vec<u8> {
    let mut disk = vec![0; usize::try_from(size).unwrap()];
    let offset = usize::try_from(offset).unwrap();
    disk[offset..offset + magic.len()].copy_from_slice(magic);
    disk
}

#[test]
fn every_signature_of_the_tables_is_found() {
    for AtStart(name, offset, magic) in AT_START {
        assert_eq!(name_of(&with(*offset, magic, SIZE)), Some(*name));
    }
    for AtEnd(name, unit, distance, magic) in AT_END {
        for size in [SIZE, SIZE + 512, SIZE + 70_000] {
            let offset = size - size % unit - distance;
            assert_eq!(name_of(&with(offset, magic, size)), Some(*name), "{size}");
        }
    }
    assert_eq!(name_of(&with(510, &[0x55, 0xaa], SIZE)).map(|name| &name[..6]), Some("an MBR"));
}

#[test]
fn zfs_is_found_by_any_label_in_either_byte_order() {
    for label in [0, ZFS_LABEL, SIZE - 2 * ZFS_LABEL, SIZE - ZFS_LABEL] {
        for magic in [ZFS_MAGIC.to_le_bytes(), ZFS_MAGIC.to_be_bytes()] {
            let disk = with(label + ZFS_LABEL / 2 + 77 * 1024, &magic, SIZE);
            assert_eq!(name_of(&disk), Some("a member of a ZFS pool"));
        }
    }
}

#[test]
fn an_empty_disk_of_any_size_has_none() {
    for size in [0, 1, 511, 512, 4096, 65536, 1 << 20, SIZE] {
        assert_eq!(name_of(&vec![0; size as usize]), None);
    }
}

#[test]
fn a_replica_is_known_by_either_slot() {
    let slot = crate::superblock::tests::sample().encode().unwrap();
    for offset in [crate::COPY_A_OFFSET, crate::COPY_B_OFFSET] {
        assert_eq!(name_of(&with(offset, &slot.0, SIZE)), Some("an evenkeel replica"));
    }
}

#[test]
fn a_disk_that_cannot_be_read_is_an_error() {
    assert!(foreign_signature(SIZE, |_, _| Err(io::Error::other("no"))).is_err());
}

/// Lets a real tool format a file of 320 MiB; `None` if the machine does not have the tool.
fn formatted_by(directory: &Path, tool: &str, options: &[&str]) -> Option<File> {
    let path = directory.join(tool);
    let file = File::create_new(&path).unwrap();
    file.set_len(320 << 20).unwrap();
    let path_with_system_tools = "/usr/sbin:/sbin:/usr/bin:/bin";
    let command =
        Command::new(tool).env("PATH", path_with_system_tools).args(options).arg(&path).output();
    let output = command.ok()?;
    assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    Some(File::open(path).unwrap())
}

#[test]
fn what_real_tools_write_is_found() {
    let directory = tempfile::tempdir().unwrap();
    for (tool, options, name) in [
        ("mkfs.xfs", &["-q"][..], "an XFS filesystem"),
        ("mkfs.ext4", &["-q"], "an ext2, ext3 or ext4 filesystem"),
        ("mkfs.btrfs", &["-q"], "a Btrfs filesystem"),
        ("mkfs.vfat", &[], "a FAT filesystem"),
        ("mkfs.ntfs", &["-q", "-F"], "an NTFS filesystem"),
        ("mkswap", &[], "swap space"),
    ] {
        let Some(file) = formatted_by(directory.path(), tool, options) else { continue };
        let size = file.metadata().unwrap().len();
        let found = foreign_signature(size, |offset, buffer| file.read_exact_at(buffer, offset));
        assert_eq!(found.unwrap(), Some(name));
    }
}
