#!/usr/bin/env bash
# A daemon is killed while it flushes its own device: it waits for an answer that it would have to give itself. It goes
# nevertheless, and nothing is left that waits for it: its next start takes away what it has left, and attaches again.
source "$(dirname "$0")/../lib.sh"
start_nodes 3
# The only replica is on a node that stands still for a while: no view without it can end the flush.
ek 1 volume create $vol --size 64M --replicas 1 --on n2:disk --quiet
ek 3 attach $vol --as device --quiet 2> /dev/null || skip "no block device can be made"
kind=$(ek 3 volume status $vol --json | jq -r '.volume.primaries[0].device_kind')
[ "$kind" = loop ] || skip "the device is a $kind device: it waits for the next daemon"
device=$(readlink -f "/dev/evenkeel/$vol")
point=$work/n3/run/attach/$vol
head -c 8M /dev/urandom > "$work/known"
dd if="$work/known" of="$device" bs=1M conv=fsync status=none || die "the device takes no writes"
# In the page cache only: the detach has to write and flush it.
tr '\0-\377' '\1-\377\0' < "$work/known" > "$work/later"
dd if="$work/later" of="$device" bs=1M seek=16 conv=notrunc status=none || die "the device takes no writes"

daemon=${pids[3]}
frozen=
# let_go: a case that fails must not leave a process that nobody can kill. The end of the connection ends its wait.
let_go() {
    [ -z "$frozen" ] || kill -CONT "$frozen" || true
    ! grep -q " $point " /proc/mounts || umount -f -l "$point" || true
}
trap 'status=$?; set +e; let_go; (exit $status); cleanup' EXIT

# waits: whether a thread of the daemon, or of a process that it began, has waited for a device for half a second.
deaf() { ps -eLo pid=,ppid=,lwp=,state= | awk -v d="$daemon" '($1 == d || $2 == d) && $4 == "D" { print $3 }' | sort; }
waits() {
    local before i
    before=$(deaf)
    for i in 1 2 3 4 5; do
        sleep 0.1
        before=$(comm -12 <(echo "$before") <(deaf))
    done
    [ -n "$before" ]
}
frozen=${pids[2]}
kill -STOP "$frozen"
ek 3 detach $vol > "$work/detach" 2>&1 & client=$!
await "the daemon waits for its own device" waits
kill -0 $client 2> /dev/null || die "the detach has ended: $(cat "$work/detach")"
helpers=$(ps -eo pid=,ppid= | awk -v d="$daemon" '$2 == d { print $1 }')
kill -KILL "$daemon"
gone() { ! kill -0 "$daemon"; }
await "the killed daemon is gone" gone
wait "$daemon" 2> /dev/null || true
wait $client || true
say "killed in the middle of a flush, the daemon is gone"
alone() { for pid in $helpers; do ! kill -0 "$pid" || return 1; done; }
await "what it had begun is gone" alone
listed() { timeout 10 losetup -nO NAME,BACK-FILE; }
listed > "$work/loops" || die "loop devices can't be listed"

kill -CONT "$frozen"
frozen=
start_node 3
attached_again() { [ -b "/dev/evenkeel/$vol" ] || ek 3 attach $vol --as device --quiet; }
await "it is attached again" attached_again
[ "$(grep -c " $point " /proc/mounts)" = 1 ] || die "mounts are left: $(grep " $point " /proc/mounts)"
[ "$(listed | grep -cF "$point/")" = 1 ] || die "loop devices are left: $(listed)"
cmp --bytes=$((8 << 20)) "$work/known" "/dev/evenkeel/$vol" || die "what was flushed is lost"
dd if="$work/later" of="/dev/evenkeel/$vol" bs=1M seek=16 conv=notrunc,fsync status=none || die "the device takes no writes"
ek 3 detach $vol --quiet
! grep -q " $point " /proc/mounts || die "a mount is left"
! listed | grep -F "$point/" || die "a loop device is left"
[ ! -L "/dev/evenkeel/$vol" ] || die "the link is left"
say "its next start took away what it had left, and the data are there"
