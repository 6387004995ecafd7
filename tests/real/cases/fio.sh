#!/usr/bin/env bash
# fio with verification through NBD or the attached device: cases/fio.sh nbd|device LAYOUT PROTOCOL
# LAYOUT is the number of replicas, or 2x2 for a stripe of two mirrors of two.
source "$(dirname "$0")/../lib.sh"
through=$1 layout=$2 protocol=$3

case $layout in
2x2) nodes=3 options="--replicas 2 --stripe 2" ;;
*) nodes=$((layout < 3 ? 3 : layout)) options="--replicas $layout" ;;
esac
start_nodes "$nodes"
# shellcheck disable=SC2086
ek 1 volume create $vol --size 256M $options --protocol "$protocol" --quiet
target=$(attach $vol "$through")
if [ "$through" = nbd ]; then engine=(--ioengine=nbd --uri="$target"); else engine=(--ioengine=libaio --direct=1 --filename="$target"); fi

# verify NAME ARGS…: writes and reads back with checksums.
verify() {
    local name=$1; shift
    say "fio $name: $*"
    fio --name="$name" "${engine[@]}" --verify=crc32c --do_verify=1 --verify_fatal=1 --randrepeat=0 \
        --output-format=terse --terse-version=3 "$@" > "$work/fio.out" 2>&1 || { cat "$work/fio.out"; die "fio $name"; }
}

block=$(ek 1 volume status $vol --json | jq .volume.block_size)
[ "$block" -gt 512 ] || verify smallest --rw=randwrite --bs=512 --iodepth=16 --size=4M
for depth in 1 16 64; do
    verify "4k-$depth" --rw=randwrite --bs=4k --iodepth=$depth --size=$((depth == 1 ? 8 : 48))M
done
verify 64k --rw=randwrite --bs=64k --iodepth=8 --size=128M
verify 1m --rw=write --bs=1M --iodepth=8 --size=192M
verify mixed --rw=randwrite --bsrange="$block"-256k --blockalign="$block" --bs_unaligned=0 --iodepth=32 --size=64M
verify jobs --rw=randwrite --bs=8k --iodepth=8 --numjobs=4 --size=32M --offset_increment=48M --group_reporting
verify flushed --rw=randwrite --bs=4k --iodepth=4 --size=4M --fsync=8
wait_in_sync $vol
ek 1 detach $vol --quiet
compare_replicas $vol
