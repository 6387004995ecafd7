#!/usr/bin/env bash
# A volume grows while its block device is mounted and written. (XFS: ext4 wants CAP_SYS_RESOURCE to
# grow while it is mounted, which not every container has.)
source "$(dirname "$0")/../lib.sh"
start_nodes 3
ek 1 volume create $vol --size 320M --replicas 3 --quiet
ek 1 mount $vol "$work/mnt" --mkfs xfs
device=$(device_of $vol)
bytes() { blockdev --getsize64 "$device"; }
[ "$(bytes)" = $((320 << 20)) ] || die "the device has $(bytes) bytes at first"

fio --name=beside --directory="$work/mnt" --rw=randwrite --bs=4k --size=64M --direct=1 --ioengine=libaio --iodepth=8 \
    --time_based --runtime=8 --verify=crc32c --verify_fatal=1 > "$work/fio.out" 2>&1 &
load=$!
sleep 2
ek 3 volume grow $vol --size 640M > "$work/grow.out" || die "it does not grow"
cat "$work/grow.out"
[ "$(bytes)" = $((640 << 20)) ] || die "the device has $(bytes) bytes after the volume has grown"
grep -q "so has its block device" "$work/grow.out" || die "it does not say that the device has grown"
xfs_growfs "$work/mnt" > "$work/growfs.out" 2>&1 || { cat "$work/growfs.out"; die "the filesystem does not grow"; }
wait $load || { cat "$work/fio.out"; die "fio beside it"; }
say "the filesystem has $(df --output=size -BM "$work/mnt" | tail -n 1 | tr -d ' ')"

# More than would have fitted before, read back past every cache.
head -c 400M /dev/urandom > "$work/image"
cp "$work/image" "$work/mnt/image"
ek 1 umount $vol --keep-attached --quiet
xfs_repair -n "$device" > "$work/repair" 2>&1 || { cat "$work/repair"; die "xfs_repair found damage"; }
ek 1 mount $vol "$work/mnt" --quiet
cmp "$work/image" "$work/mnt/image" || die "the file differs"
ek 1 umount $vol --quiet
compare_replicas $vol
