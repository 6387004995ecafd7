#!/usr/bin/env bash
# The commands that the measurement reports used, verbatim but for the device:
# cases/reports.sh raw|xfs|ext4
source "$(dirname "$0")/../lib.sh"
kind=$1
# A flush that takes long is no fault of a replica.
TIMES='deadline_ms = 20000'
start_nodes 3
ek 1 volume create $vol --size 2G --replicas 3 --quiet
DEV=$(attach $vol device)
generation() { ek 1 volume status $vol --json | jq .volume.generation; }
begun=$(generation)

# Each one's output, or its end with an error.
shown() { say "$*"; "$@" > "$work/out" 2>&1 || { cat "$work/out"; die "$*"; }; tail -n "${LINES_SHOWN:-2}" "$work/out"; }

case $kind in
raw)
    shown dd if=/dev/zero of="$DEV" bs=512M count=1 oflag=direct
    shown dd if=/dev/zero of="$DEV" bs=512 count=10000 oflag=direct
    shown dd if=/dev/zero of="$DEV" bs=4k count=10000 oflag=direct
    shown dd iflag=direct,nonblock if="$DEV" of=/dev/null bs=1M
    shown hdparm -tT "$DEV"
    shown dd oflag=direct,nonblock if=/dev/zero of="$DEV" bs=1M count=512
    ;;
*)
    DIR=$work/mnt
    ek 1 mount $vol "$DIR" --mkfs "$kind" --quiet
    LINES_SHOWN=8 shown fio -filename="$DIR/benchmark" -direct=1 -rw=write -bs=4k -size=512M -numjobs=64 -runtime=10 -group_reporting -name=file1
    LINES_SHOWN=8 shown fio -filename="$DIR/benchmark" -direct=1 -rw=randwrite -bs=4k -size=512M -numjobs=64 -runtime=10 -group_reporting -name=file1
    shown dd if=/dev/zero of="$DIR/testfile" bs=128M count=1 oflag=direct
    shown dd if=/dev/zero of="$DIR/testfile" bs=4k count=10000 oflag=direct
    shown dd if=/dev/zero of="$DIR/testfile" bs=512 count=10000 oflag=direct
    ek 1 umount $vol --keep-attached --quiet
    ;;
esac
# A replica that left the mirror, and be it for a moment, would have changed the view.
[ "$(generation)" = "$begun" ] || { ek 1 volume status $vol | sed 's/^/ran: /'; die "a healthy replica was dropped under load"; }
ek 1 detach $vol --quiet
compare_replicas $vol
