#!/usr/bin/env bash
# A filesystem with 10,000 files and more, copied while a replica's node is killed and comes back:
# cases/files.sh xfs|ext4
source "$(dirname "$0")/../lib.sh"
kind=$1
start_nodes 3
ek 1 volume create $vol --size 1G --replicas 3 --quiet
ek 1 mount $vol "$work/mnt" --mkfs "$kind"

# Real files of this machine; made ones only where those are too few.
find /usr/include /usr/share /usr/lib -xdev -type f -size -64k -size +0 -print0 2>/dev/null | sort -z | head -zn 10500 > "$work/list" || true
count=$(tr -cd '\0' < "$work/list" | wc -c)
if [ "$count" -lt 10000 ]; then
    mkdir "$work/made"
    for i in $(seq $((10000 - count))); do head -c $((i % 9000 + 1)) /dev/urandom > "$work/made/$i"; done
    find "$work/made" -type f -print0 >> "$work/list"
fi
say "$(tr -cd '\0' < "$work/list" | wc -c) files"

tar --null -T "$work/list" -cf - 2>/dev/null | tar -C "$work/mnt" -xf - &
copy=$!
sleep 1
kill_node 3
wait $copy
sync -f "$work/mnt"
refused 6 "degraded" ek 1 volume status $vol --check
start_node 3
wait_in_sync $vol
say "rebuilt"
(cd / && xargs -0 sha256sum < "$work/list") | sed 's#  /#  #' > "$work/sums"
ek 1 umount $vol --keep-attached
device=$(device_of $vol)
case $kind in
xfs) xfs_repair -n "$device" > "$work/repair" 2>&1 || { cat "$work/repair"; die "xfs_repair found damage"; } ;;
ext4) e2fsck -fn "$device" > "$work/repair" 2>&1 || { cat "$work/repair"; die "e2fsck found damage"; } ;;
esac
say "the filesystem is clean"
ek 1 mount $vol "$work/mnt" --quiet
(cd "$work/mnt" && sha256sum --quiet -c "$work/sums") || die "files differ"
say "all checksums are the same"
refused 4 "mounted" ek 1 detach $vol
ek 1 umount "$work/mnt" --quiet
compare_replicas $vol
