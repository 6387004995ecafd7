#!/usr/bin/env bash
# Bits flip on the disk under each replica in turn, while a filesystem is in use on the node that has it: nothing
# wrong is read, what is found is repaired, and told. Then in blocks that nobody reads: a verify names them.
source "$(dirname "$0")/../lib.sh"
start_nodes 3

replica_of() { ek 1 volume status $vol --json | jq -r ".volume.mirrors[0].replicas[] | select(.node.name == \"n$1\") | $2"; }
# in_use FILE: the number, in the volume, of a block of it that holds something.
in_use() {
    local blocks block
    blocks=$((($(od -An -t u8 -j 136 -N 8 "$1")) / 4096))
    while block=$(((RANDOM * 32768 + RANDOM) % blocks))
        cmp --quiet --ignore-initial=$(((256 + block) * 4096)):0 --bytes=4096 "$1" /dev/zero; do :; done
    echo $block
}
# flip FILE BLOCK: one bit of this block of the volume.
flip() {
    local at=$(((256 + $2) * 4096 + 1000)) byte
    byte=$(od -An -t u1 -j $at -N 1 "$1")
    printf '%b' "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek=$at conv=notrunc,fsync status=none
}
# rot FILE COUNT: one bit each in so many blocks of it that hold something.
rot() {
    local left
    for left in $(seq "$2"); do flip "$1" "$(in_use "$1")"; done
}

ek 1 volume create $vol --size 128M --replicas 3 --quiet
for node in 1 2 3; do
    make=(); [ $node != 1 ] || make=(--mkfs ext4)
    ek $node mount $vol "$work/mnt" "${make[@]}" --quiet
    head -c 24M /dev/urandom > "$work/mnt/file$node"
    (cd "$work/mnt" && sha256sum file? > "$work/sums")
    sync -f "$work/mnt"
    # Few enough for the replica not to be given up after 32 failed reads: the read of a range fails, then that of
    # the block in it, and reads ahead may meet it once more before it is repaired.
    rot "$(ls "$work/n$node/disk"/*.replica)" 10
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
    ek 1 volume status $vol | grep -q "contradicted their checksums" || die "the status does not tell"
    say "n$node: $failed reads of damaged blocks were answered by others, and all files are right"
    ek $node umount $vol --keep-attached --quiet
    ek 1 volume verify $vol --repair --wait --quiet || die "the verify could not repair"
    [ "$(replica_of $node .state)" = in-sync ] || die "the replica on n$node is $(replica_of $node .state)"
    wait_in_sync $vol
    ek $node detach $vol --quiet
    compare_replicas $vol
done

# What nobody reads: on each node another block, and one block on two nodes. The volume has grown since they were
# written: their checksums have moved.
ek 1 attach $vol --as none --quiet
ek 2 volume grow $vol --size 512M > /dev/null
declare -A damaged=()
while [ ${#damaged[@]} -lt 4 ]; do damaged[$(in_use "$(ls "$work/n1/disk"/*.replica)")]=; done
numbers=("${!damaged[@]}") node=0
for block in "${numbers[@]}"; do
    nodes=$((node++ % 3 + 1)); [ $node -lt 4 ] || nodes="1 3"
    damaged[$block]=$nodes
    for n in $nodes; do flip "$(ls "$work/n$n/disk"/*.replica)" "$block"; done
done
# named VERDICT WORDS: it tells of each of these blocks and of no other one, with its nodes.
named() {
    [ "$(grep -c '^  bytes' "$1")" = 4 ] || die "other ranges than four: $(cat "$1")"
    for block in "${numbers[@]}"; do
        places=$(printf 'n%s:[^ ,;]*, ' ${damaged[$block]})
        grep -q "^  bytes $((block * 4096)) to $(((block + 1) * 4096)): damaged on ${places%, }$2\$" "$1" \
            || die "block $block on ${damaged[$block]}: $(cat "$1")"
    done
}
status=0; ek 2 volume verify $vol --wait > "$work/verdict" || status=$?
[ $status = 1 ] || die "exit code $status although blocks are damaged: $(cat "$work/verdict")"
grep -q "0 differ between replicas, 16K contradict their checksums, 0 could not be read, 0 repaired" "$work/verdict" \
    || die "$(cat "$work/verdict")"
named "$work/verdict" ""
grep -q "^  n2:[^ ]*: 4K contradict their checksums$" "$work/verdict" || die "$(cat "$work/verdict")"
for n in 1 3; do grep -q "^  n$n:[^ ]*: 8K contradict their checksums$" "$work/verdict" || die "$(cat "$work/verdict")"; done
ek 3 volume verify $vol --repair --wait > "$work/verdict" || die "the verify could not repair: $(cat "$work/verdict")"
grep -q "16K repaired" "$work/verdict" || die "$(cat "$work/verdict")"
named "$work/verdict" "; repaired"
ek 1 volume verify $vol --wait | grep -q "all in-sync replicas identical" || die "still damaged"
say "a verify named ${#numbers[@]} damaged blocks with their replicas, and repaired them"
wait_in_sync $vol
ek 1 detach $vol --quiet
compare_replicas $vol
