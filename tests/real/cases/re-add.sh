#!/usr/bin/env bash
# A replica is brought back after its disk failed.
# cases/re-add.sh full   while its disk is full, that is refused, and said by each node; with room it works
# cases/re-add.sh medium while its disk reports input/output errors; once it does not, it works
# cases/re-add.sh rot    after too many bad reads; no damaged block is left, also none that nobody has read
source "$(dirname "$0")/../lib.sh"
what=${1:-full}
[ "$(id -u)" = 0 ] || skip "a filesystem of its own is mounted by root"
fio_here() { fio --ioengine=nbd --uri="$uri" "$@" > "$work/fio.out" 2>&1 || { cat "$work/fio.out"; die "the application saw an error"; }; }
of_replica() { ek 1 volume status $vol --json | jq -re --arg node "$1" ".volume.mirrors[0].replicas[] | select(.node.name == \$node) | $2"; }
is_faulty() { [ "$(of_replica "$1" '"\(.state) \(.cause)"')" = "faulty $2" ]; }

# begin SIZE N DIRECTORY: a volume of two replicas, one in that directory of node N, attached on n1.
begin() {
    for n in 1 2; do prepare_node $n; start_node $n; done
    mkdir -p "$3"
    for n in 1 2; do
        local directory=$work/n$n/disk
        [ $n != "$2" ] || directory=$3
        await "n$n is a member" ek $n disk add "$directory" --name disk
    done
    ek 1 volume create $vol --size "$1" --replicas 2 --quiet
    uri=$(attach $vol nbd)
}

full() {
    truncate -s 200M "$work/image"
    mkfs.ext4 -q -m 0 "$work/image"
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    begin 128M 2 "$work/mnt/disk"
    mkdir "$work/mnt/other"
    # A trim gives back the space that was set aside; then something else takes it.
    fio_here --name=trim --rw=trim --bs=1M --size=128M
    for block in 64k 4k; do dd if=/dev/zero of="$work/mnt/filler$block" bs=$block status=none 2> /dev/null || true; done
    fio_here --name=write --rw=write --bs=64k --iodepth=8 --offset=16M --size=64M
    is_faulty n2 no-space || die "$(of_replica n2 .)"
    for n in 1 2; do
        refused 4 "full room replace space free" ek $n replica re-add $vol n2:disk
        ek $n volume status $vol > "$work/status"
        grep -q "its disk is full: make room on it, then bring it back" "$work/status" || die "n$n does not say what to do: $(< "$work/status")"
    done
    refused 4 "full bytes free" ek 2 disk add "$work/mnt/other"
    refused 1 "full bytes free" ek 1 volume create thin$vol --size 32M --replicas 1 --on n2:disk --thin
    rm "$work"/mnt/filler*
    ek 2 replica re-add $vol n2:disk --wait --timeout 1m --quiet
}

# A file system that was shut down answers everything with an input/output error: a disk that fails, until it is
# mounted anew.
medium() {
    truncate -s 300M "$work/image"
    mkfs.xfs -q "$work/image"
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    begin 128M 2 "$work/mnt/disk"
    xfs_io -x -c shutdown "$work/mnt" || skip "no file system can be shut down"
    fio_here --name=write --rw=write --bs=64k --iodepth=8 --offset=16M --size=64M
    is_faulty n2 medium || die "$(of_replica n2 .)"
    for n in 1 2; do
        ek $n volume status $vol > "$work/status"
        grep -q "its disk reported an input/output error: when the disk is in order, bring it back by" "$work/status" || die "n$n does not say why it failed: $(< "$work/status")"
        refused 4 "input/output error" ek $n replica re-add $vol n2:disk
        is_faulty n2 medium || die "$(of_replica n2 .)"
    done
    grep -q "a disk reported an error.*Input/output error" "$work/n2/node.log" || die "the log of its node does not say which error"
    stop_node 2
    umount "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    start_node 2
    ek 1 replica re-add $vol n2:disk --wait --timeout 1m --quiet
}

rot() {
    begin 64M 1 "$work/n1/disk"
    fio_here --name=write --rw=write --bs=64k --size=64M --end_fsync=1
    # Reads go to the replica here.
    local file offset
    file=$(echo "$work/n1/disk"/*.replica)
    offset=$("$evenkeel" examine "$file" --json | jq '.replicas[0].replica.data_offset // .replicas[0].replica.data.offset')
    for block in $(seq 0 63); do
        printf 'rotten' | dd of="$file" bs=1 seek=$((offset + block * 524288 + 300)) conv=notrunc status=none
    done
    fio_here --name=read --rw=randread --bs=4k --iodepth=16 --size=64M
    is_faulty n1 medium || die "$(of_replica n1 .)"
    [ "$(grep -a -o rotten "$file" | wc -l)" -gt 0 ] || die "all blocks were read: this shows nothing"
    ek 2 replica re-add $vol n1:disk --wait --timeout 1m --quiet
    ek 1 volume verify $vol --wait --quiet || die "it is in-sync, and damaged"
    ! grep -a -q rotten "$file" || die "damage is left"
}

"$what"
ek 1 detach $vol --quiet
compare_replicas $vol
