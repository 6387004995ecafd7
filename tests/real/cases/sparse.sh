#!/usr/bin/env bash
# What was never written, or was trimmed, is known as such and no rebuild reads it, on files and on block
# devices: cases/sparse.sh file|device
source "$(dirname "$0")/../lib.sh"
what=$1
start_nodes 3
state() { ek 1 volume status $vol --json | jq -r '.volume.mirrors[0].replicas[] | select(.node.name == "n3") | .state'; }
# What the replica on n3 got from another one in its last rebuild, in bytes.
copied() { ek 1 volume status $vol --json | jq '[.volume.mirrors[0].replicas[].rebuild.copied // 0] | max'; }
# Where bytes are allocated, as an NBD client sees it, in MiB.
allocated() { nbdinfo --map "$uri" --json | jq '[.[] | select(.type == 0) | .length] | add // 0 | . / 1048576 | ceil'; }

size=30G source=n1:disk target=n3:disk
if [ "$what" = device ]; then
    size=5G
    for n in 1 3; do
        truncate -s 6G "$work/n$n/image"
        loop=$(losetup --find --show "$work/n$n/image") || skip "no loop device can be made"
        # Old data of somebody else are no data of ours.
        dd if=/dev/urandom of="$loop" bs=1M count=64 seek=100 conv=fsync status=none
        ek $n disk add "$loop" --name loop --quiet
    done
    source=n1:loop target=n3:loop
fi
ek 1 volume create $vol --size $size --replicas 2 --on $source --on $target --thin --quiet
uri=$(attach $vol nbd)
[ "$(allocated)" = 0 ] || die "a new volume has $(allocated) MiB allocated"
io() { qemu-io -f raw "$@" "$uri" > "$work/io.out" 2>&1 || { cat "$work/io.out"; die "$*"; }; }
io -c "write -P 1 0 64M" -c "write -P 2 1G 64M" -c "write -P 3 3G 64M" -c flush
[ "$(allocated)" -ge 192 ] && [ "$(allocated)" -le 200 ] || die "192 MiB were written, $(allocated) MiB are allocated"
# The middle one is trimmed again.
io -c "discard 1G 64M" -c flush
[ "$(allocated)" -ge 128 ] && [ "$(allocated)" -le 136 ] || die "128 MiB are left, $(allocated) MiB are allocated"
say "allocated: $(allocated) MiB of $size"

# The map is there after a restart of the node whose replica is the source.
stop_node 1; start_node 1
wait_in_sync $vol
uri=$(uri_of $vol)
[ "$(allocated)" -le 136 ] || die "after a restart $(allocated) MiB are allocated"

ek 1 replica fail $vol n3 --quiet
ek 1 replica remove $vol n3 --yes --quiet
[ "$what" = file ] || dd if=/dev/urandom of="$loop" bs=1M count=64 seek=2000 conv=fsync status=none
begun=$SECONDS
ek 1 replica add $vol $target --thin --quiet
most=0
until [ "$(state)" = in-sync ]; do
    now=$(copied); [ "$now" -le $most ] || most=$now
    [ $((SECONDS - begun)) -lt 60 ] || die "the rebuild of $size with 128 MiB in it takes more than a minute"
done
say "rebuilt $size in $((SECONDS - begun)) s, $((most >> 20)) MiB were copied"
[ $most -le $((136 << 20)) ] || die "$most bytes were copied"
ek 1 replica fail $vol n1 --quiet # so that all is read from the new one
io -c "read -P 1 0 64M" -c "read -P 0 1G 64M" -c "read -P 3 3G 64M" -c "read -P 0 2G 64M"
ek 1 replica re-add $vol n1 --wait --quiet
[ "$what" = device ] || [ "$(du -m "$work/n3/disk" | tail -n 1 | cut -f 1)" -le 150 ] || die "the new replica takes $(du -m "$work/n3/disk")"
