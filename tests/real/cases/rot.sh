#!/usr/bin/env bash
# Bits flip on the disk under each replica in turn, while a filesystem is in use on the node that has it: nothing
# wrong is read, what is found is mended, and told.
source "$(dirname "$0")/../lib.sh"
start_nodes 3

replica_of() { ek 1 volume status $vol --json | jq -r ".volume.mirrors[0].replicas[] | select(.node.name == \"n$1\") | $2"; }
# rot FILE COUNT: one bit each in so many blocks of it that hold something.
rot() {
    local file=$1 left=$2 blocks block byte
    blocks=$((($(od -An -t u8 -j 136 -N 8 "$file")) / 4096))
    while [ "$left" -gt 0 ]; do
        block=$((256 + (RANDOM * 32768 + RANDOM) % blocks))
        ! cmp --quiet --ignore-initial=$((block * 4096)):0 --bytes=4096 "$file" /dev/zero || continue
        byte=$(od -An -t u1 -j $((block * 4096 + 1000)) -N 1 "$file")
        printf '%b' "\\x$(printf %02x $((byte ^ 16)))" |
            dd of="$file" bs=1 seek=$((block * 4096 + 1000)) conv=notrunc status=none
        left=$((left - 1))
    done
    sync "$file"
}

ek 1 volume create $vol --size 128M --replicas 3 --quiet
for node in 1 2 3; do
    make=(); [ $node != 1 ] || make=(--mkfs ext4)
    ek $node mount $vol "$work/mnt" "${make[@]}" --quiet
    head -c 24M /dev/urandom > "$work/mnt/file$node"
    (cd "$work/mnt" && sha256sum file? > "$work/sums")
    sync -f "$work/mnt"
    # Few enough for the replica not to be given up.
    rot "$(ls "$work/n$node/disk"/*.replica)" 24
    (while [ -e "$work/mnt/file1" ]; do head -c 1M /dev/urandom > "$work/mnt/busy"; sync -f "$work/mnt"; done) 2> /dev/null &
    busy=$!
    helpers+=($busy)
    for round in 1 2 3; do
        echo 3 > /proc/sys/vm/drop_caches
        (cd "$work/mnt" && sha256sum --quiet --check "$work/sums") || die "something wrong was read"
    done
    kill $busy; wait $busy 2> /dev/null || true
    failed=$(replica_of $node .failed_reads)
    [ "$failed" -gt 0 ] || die "no damage was found on n$node"
    ek 1 volume status $vol | grep -q "did not yield their checksums" || die "the status does not tell"
    say "n$node: $failed reads of damaged blocks were answered by others, and all files are right"
    ek $node umount $vol --keep-attached --quiet
    ek 1 volume verify $vol --repair --wait --quiet || die "the verify could not repair"
    [ "$(replica_of $node .state)" = in-sync ] || die "the replica on n$node is $(replica_of $node .state)"
    ek $node detach $vol --quiet
    compare_replicas $vol
done
