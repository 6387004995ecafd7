#!/usr/bin/env bash
# libnbd's and QEMU's tools, in and out.
source "$(dirname "$0")/../lib.sh"
start_nodes 3
ek 1 volume create $vol --size 256M --replicas 3 --quiet
ek 1 volume create other --size 256M --replicas 2 --quiet
uri=$(attach $vol nbd)
other=$(attach other nbd)

nbdinfo --json "$uri" > "$work/info"
jq -e '.exports[0] | ."export-size" == 268435456 and .can_flush and .can_fua and .can_trim and .can_zero and .can_multi_conn and (.is_read_only | not)' \
    "$work/info" > /dev/null || { cat "$work/info"; die "nbdinfo shows something else"; }
nbdinfo --list "$uri" | grep -q "export=\"$vol\"" || die "the export is not listed"
say "nbdinfo is right"

# A disk image with real content and holes.
truncate -s 256M "$work/image"
{ tar -C / -cf - usr/include 2>/dev/null || true; } | head -c 40M | dd of="$work/image" bs=1M seek=8 conv=notrunc iflag=fullblock status=none
nbdcopy --flush "$work/image" "$uri"
nbdcopy "$uri" "$work/back"
cmp "$work/image" "$work/back"
say "nbdcopy in and out"
nbdcopy --flush "$uri" "$other"
qemu-img compare -f raw -F raw "$uri" "$other"
qemu-img compare -f raw -F raw "$work/image" "$uri"

qemu-img convert -f raw -O qcow2 "$uri" "$work/image.qcow2"
qemu-img compare -f qcow2 -F raw "$work/image.qcow2" "$uri"
qemu-img convert -n -f qcow2 -O raw "$work/image.qcow2" "$other"
qemu-img compare -f raw -F raw "$uri" "$other"
say "qemu-img convert and compare"

qemu-io -f raw "$uri" -c 'write -P 0x5a 0 64k' -c 'write -f -P 0xa5 64k 4k' -c 'write -z 1M 1M' \
    -c 'aio_write -P 0x11 4M 1M' -c 'aio_write -P 0x22 6M 1M' -c aio_flush -c flush \
    -c 'discard 2M 1M' -c 'read -P 0x5a 0 64k' -c 'read -P 0xa5 64k 4k' -c 'read -P 0 1M 1M' \
    -c 'read -P 0 2M 1M' -c 'read -P 0x11 4M 1M' -c 'read -P 0x22 6M 1M' > "$work/qemu-io"
if grep -qiE 'failed|error' "$work/qemu-io"; then cat "$work/qemu-io"; die "qemu-io"; fi
say "qemu-io patterns with FUA and discard"

# Discard gives space back, and BLOCK_STATUS tells the truth afterwards.
before=$(du -k "$(replica_files $vol 0 | head -n 1)" | cut -f1)
qemu-io -f raw "$uri" -c 'discard 0 256M' -c flush > /dev/null
after=$(du -k "$(replica_files $vol 0 | head -n 1)" | cut -f1)
[ "$after" -lt $((before / 2)) ] || die "discard gave nothing back: $before KiB before, $after after"
nbdinfo --map "$uri" > "$work/map"
awk '$3 == 0 {data += $2} END {exit data > 1048576}' "$work/map" || { cat "$work/map"; die "the map shows data after a discard"; }
say "space: $before KiB before, $after KiB after the discard"

wait_in_sync $vol
wait_in_sync other
ek 1 detach $vol --quiet
ek 1 detach other --quiet
compare_replicas $vol
compare_replicas other
