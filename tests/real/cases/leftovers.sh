#!/usr/bin/env bash
# What a killed daemon leaves of a volume that is attached elsewhere by then: a dead mount and a loop device. Its next
# start takes them away; a device that somebody has open gives errors, and the statuses of that node tell of it.
source "$(dirname "$0")/../lib.sh"
start_nodes 3
ek 1 volume create $vol --size 64M --replicas 2 --on n1:disk --on n2:disk --quiet
ek 3 attach $vol --as device --quiet 2> /dev/null || skip "no block device can be made"
kind=$(ek 3 volume status $vol --json | jq -r '.volume.primaries[0].device_kind')
[ "$kind" = loop ] || skip "the device is a $kind device: it waits for the next daemon"
device=$(readlink -f "/dev/evenkeel/$vol")
exec 7< "$device"
kill_node 3
await "it is taken over" ek 1 attach $vol --as nbd --quiet
grep -q "$work/n3/run/attach/$vol " /proc/mounts || die "the killed daemon left no mount"

start_node 3
told() { ek 3 "$@" | grep -q "device $device on node n3 gives errors, .* in use still (.*open in process .*: unmount or close it"; }
await "its status tells of the device" told volume status $vol
told node status || die "$(ek 3 node status)"
told volume list || die "$(ek 3 volume list)"
! grep -q "$work/n3/run/attach/$vol " /proc/mounts || die "the mount is left"
[ ! -L "/dev/evenkeel/$vol" ] || die "the link is left"
[ ! -e "$work/n3/run/attach/$vol.json" ] || die "the note is left"
# Somebody on node 3 gets errors, and nobody elsewhere does.
refused 6 "gives errors" ek 3 volume status $vol --check
ek 1 volume status $vol --check --quiet || die "the volume itself is well: $(ek 1 volume status $vol)"
exec 7<&-
quiet() { ! told volume status $vol && ! told node status; }
await "nothing is told of a device that nobody uses" quiet
! losetup -nO NAME,BACK-FILE | grep -q "$work/n3/run/attach" || die "the loop device is left"
say "the mount and the loop device of the killed daemon are gone"

# A mount that outlives the daemon of the node that goes on: nothing says that all is well, and the
# advice ends it.
ek 1 detach $vol --quiet
ek 2 mount $vol "$work/mount" --mkfs ext4 --quiet
kill_node 2
start_node 2
! touch "$work/mount/file" 2> /dev/null || die "the mount of a killed daemon lives on"
missed() { ek 2 volume list --unhealthy | grep -q "its block device could not be made yet: .*mounted at $work/mount"; }
await "the list names the volume whose mount is dead" missed
refused 6 "could not be made yet" ek 2 volume status $vol --check
ek 2 node status | grep -q "cannot show volume $vol again" || die "$(ek 2 node status)"
ek 2 umount $vol --keep-attached --quiet
await "its device is there again" test -b "/dev/evenkeel/$vol"
well() { ek 2 volume status $vol --check --quiet; }
await "all is well again" well
! ek 2 node status | grep -q "cannot show volume" || die "what is over is told still: $(ek 2 node status)"
ek 2 mount $vol "$work/mount" --quiet
touch "$work/mount/file" || die "the filesystem does not take writes"
kill_node 2
start_node 2
await "the list names the volume again" missed
ek 2 umount "$work/mount" --quiet
detached() { ek 2 volume status $vol | grep -q detached && ! ek 2 volume status $vol | grep -q "gives errors"; }
await "the volume is detached, and nothing is left of its device" detached
say "a mount that outlived its daemon is told, and unmounted by the volume's name"
