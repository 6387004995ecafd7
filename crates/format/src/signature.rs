//! Whose data is on a disk: known signatures, looked for before a disk is formatted.

use std::io;

use crate::COPY_B_OFFSET;
use crate::superblock::MAGIC;

/// Bytes at a fixed distance from the start of the disk.
struct AtStart(&'static str, u64, &'static [u8]);

/// Bytes at a distance from the end of the disk, once that is rounded down to a multiple of the
/// first number.
struct AtEnd(&'static str, u64, u64, &'static [u8]);

const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const MD_BIG_ENDIAN: &[u8] = &[0xa9, 0x2b, 0x4e, 0xfc];
const BCACHE: &[u8] = &[
    0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81,
];
const BCACHEFS: &[u8] = &[
    0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef,
];

/// In the order in which they are looked for: what wraps other things first.
const AT_START: &[AtStart] = &[
    AtStart("an evenkeel replica", 0, MAGIC),
    AtStart("an evenkeel replica", COPY_B_OFFSET, MAGIC),
    AtStart("a LUKS encrypted volume", 0, b"LUKS\xba\xbe"),
    AtStart("a LUKS encrypted volume", 0x4000, b"SKUL\xba\xbe"),
    AtStart("a BitLocker volume", 3, b"-FVE-FS-"),
    AtStart("a member of an md array (metadata 1.1)", 0, MD),
    AtStart("a member of an md array (metadata 1.2)", 4096, MD),
    AtStart("an LVM physical volume", 0, b"LABELONE"),
    AtStart("an LVM physical volume", 512, b"LABELONE"),
    AtStart("an LVM physical volume", 1024, b"LABELONE"),
    AtStart("an LVM physical volume", 1536, b"LABELONE"),
    AtStart("a VDO volume", 0, b"dmvdo001"),
    AtStart("a dm-integrity volume", 0, b"integrt\0"),
    AtStart("a dm-verity volume", 0, b"verity\0\0"),
    AtStart("a bcache device", 4096 + 24, BCACHE),
    AtStart("a bcachefs filesystem", 4096 + 24, BCACHEFS),
    AtStart("a Ceph BlueStore device", 0, b"bluestore block device"),
    AtStart("a Stratis pool", 512 + 4, b"!Stra0tis\x86\xff\x02^\x41rh"),
    AtStart("a GPT partition table", 512, b"EFI PART"),
    AtStart("a GPT partition table", 4096, b"EFI PART"),
    AtStart("an XFS filesystem", 0, b"XFSB"),
    AtStart("a Btrfs filesystem", 0x10040, b"_BHRfS_M"),
    AtStart("an ext2, ext3 or ext4 filesystem", 0x438, &[0x53, 0xef]),
    AtStart("an F2FS filesystem", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    AtStart("a GFS2 filesystem", 0x10000, &[0x01, 0x16, 0x19, 0x70]),
    AtStart("an OCFS2 filesystem", 0x400, b"OCFSV2"),
    AtStart("an OCFS2 filesystem", 0x800, b"OCFSV2"),
    AtStart("an OCFS2 filesystem", 0x1000, b"OCFSV2"),
    AtStart("an OCFS2 filesystem", 0x2000, b"OCFSV2"),
    AtStart("a ReiserFS filesystem", 0x10034, b"ReIsEr"),
    AtStart("a JFS filesystem", 0x8000, b"JFS1"),
    AtStart("a NILFS2 filesystem", 0x406, &[0x34, 0x34]),
    AtStart("an EROFS filesystem", 0x400, &[0xe2, 0xe1, 0xf5, 0xe0]),
    AtStart("a SquashFS filesystem", 0, b"hsqs"),
    AtStart("an ISO 9660 filesystem", 0x8001, b"CD001"),
    AtStart("an APFS container", 32, b"NXSB"),
    AtStart("an HFS+ filesystem", 0x400, b"H+\0\x04"),
    AtStart("an HFS+ filesystem", 0x400, b"HX\0\x05"),
    AtStart("a VMware VMFS volume", 0x100000, &[0x0d, 0xd0, 0x01, 0xc0]),
    AtStart("an NTFS filesystem", 3, b"NTFS    "),
    AtStart("an exFAT filesystem", 3, b"EXFAT   "),
    AtStart("a FAT filesystem", 54, b"FAT1"),
    AtStart("a FAT filesystem", 82, b"FAT32   "),
    AtStart("swap space", 4096 - 10, b"SWAPSPACE2"),
    AtStart("swap space", 8192 - 10, b"SWAPSPACE2"),
    AtStart("swap space", 16384 - 10, b"SWAPSPACE2"),
    AtStart("swap space", 65536 - 10, b"SWAPSPACE2"),
    AtStart("swap space", 4096 - 10, b"SWAP-SPACE"),
    AtStart("a hibernated system", 4096 - 10, b"S1SUSPEND"),
    AtStart("a QEMU disk image (qcow2)", 0, b"QFI\xfb"),
];

/// Distances are from the rounded end to the signature's first byte.
const AT_END: &[AtEnd] = &[
    AtEnd("a member of an md array (metadata 1.0)", 4096, 8192, MD),
    AtEnd("a member of an md array (metadata 0.90)", 65536, 65536, MD),
    AtEnd("a member of an md array (metadata 0.90)", 65536, 65536, MD_BIG_ENDIAN),
    AtEnd("a DRBD replica (internal metadata)", 4096, 4096 - 60, &[0x83, 0x74, 0x02, 0x6b]),
    AtEnd("a DRBD replica (internal metadata)", 4096, 4096 - 60, &[0x83, 0x74, 0x02, 0x6c]),
    AtEnd("a DRBD replica (internal metadata)", 4096, 4096 - 60, &[0x83, 0x74, 0x02, 0x6d]),
    AtEnd("a GPT partition table (its backup)", 512, 512, b"EFI PART"),
    AtEnd("a GPT partition table (its backup)", 4096, 4096, b"EFI PART"),
    AtEnd("a member of an Intel RAID array", 512, 1024, b"Intel Raid ISM Cfg Sig. "),
    AtEnd("a member of a DDF RAID array", 512, 512, &[0xde, 0x11, 0xde, 0x11]),
];

const MAX_SIGNATURE_LENGTH: usize = 24;
/// ZFS keeps 128 uberblocks of 1 KiB in the second half of each 256 KiB label; two labels are at
/// the start of the disk, two at its end.
const ZFS_LABEL: u64 = 256 << 10;
const ZFS_MAGIC: u64 = 0x00ba_b10c;

/// Names what a disk of `size` bytes holds, if it carries a signature known here, in words that
/// fit after "it holds". `read` fills its buffer from the given offset; it is asked for at most
/// 128 KiB at once, and only for what is inside the disk.
///
/// `None` does not mean that the disk is empty.
///
/// # Errors
/// Those of `read`.
pub fn foreign_signature(
    size: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Option<&'static str>> {
    for AtStart(name, offset, magic) in AT_START {
        if holds(size, *offset, magic, &mut read)? {
            return Ok(Some(name));
        }
    }
    for AtEnd(name, unit, distance, magic) in AT_END {
        let offset = (size - size % unit).checked_sub(*distance);
        if let Some(offset) = offset
            && holds(size, offset, magic, &mut read)?
        {
            return Ok(Some(name));
        }
    }
    if holds_zfs(size, &mut read)? {
        return Ok(Some("a member of a ZFS pool"));
    }
    let boots = holds(size, 510, &[0x55, 0xaa], &mut read)?;
    Ok(boots.then_some("an MBR partition table or a boot sector"))
}

fn holds(
    size: u64,
    offset: u64,
    magic: &[u8],
    read: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<bool> {
    if offset + magic.len() as u64 > size {
        return Ok(false);
    }
    let mut buffer = [0; MAX_SIGNATURE_LENGTH];
    let found = &mut buffer[..magic.len()];
    read(offset, found)?;
    Ok(found == magic)
}

fn holds_zfs(
    size: u64,
    read: &mut impl FnMut(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<bool> {
    if size < 4 * ZFS_LABEL {
        return Ok(false);
    }
    let end = size - size % ZFS_LABEL;
    let mut uberblocks = vec![0; (ZFS_LABEL / 2) as usize];
    for label in [0, ZFS_LABEL, end - 2 * ZFS_LABEL, end - ZFS_LABEL] {
        read(label + ZFS_LABEL / 2, &mut uberblocks)?;
        let is_magic = |block: &[u8]| {
            block.starts_with(&ZFS_MAGIC.to_le_bytes())
                || block.starts_with(&ZFS_MAGIC.to_be_bytes())
        };
        if uberblocks.chunks(1024).any(is_magic) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
