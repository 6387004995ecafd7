#!/bin/bash
# A ublk device: attach, verify, kill the daemon under load, take over, verify, detach.
# takes: 85
# build: --workspace --example serve_file
# copy: debug/examples/serve_file
# disks: 1 600M
# memory: 640
set -u
server=/job/serve_file
device=/dev/evenkeel/data
fail() { echo "FAILED: $*"; cat /tmp/serve.*; dmesg | tail -20; exit 1; }
step() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $*"; }

# serve ARGUMENTS: starts a daemon in the background and waits until it has attached the volume.
# Its process is $daemon; a line on descriptor 3 makes it detach.
serves=0
serve() {
  serves=$((serves + 1))
  local log=/tmp/serve.$serves
  rm -f /tmp/commands
  mkfifo /tmp/commands
  $server attach /run/evenkeel data /dev/vdb "$@" < /tmp/commands > $log 2>&1 &
  daemon=$!
  exec 3> /tmp/commands
  local i
  for ((i = 0; i < 600; i++)); do
    grep -q "^$device" $log && return
    kill -0 $daemon 2> /dev/null || break
    sleep 0.1
  done
  fail "not attached"
}

modprobe ublk_drv || fail "no ublk"
modprobe loop

step "attach"
serve ublk
grep -q "PR_SET_IO_FLUSHER\|mlockall\|oom_score" /tmp/serve.1 && fail "root could not prepare"
[ "$(readlink $device)" = /dev/ublkb0 ] || fail "$device points to $(readlink $device)"
queue=/sys/block/ublkb0/queue
[ "$(cat $queue/logical_block_size)" = 512 ] || fail "block size"
[ "$(cat $queue/write_cache)" = "write back" ] || fail "no volatile cache"
[ "$(cat $queue/fua)" = 1 ] || fail "no FUA"
grep -q '\[none\]' $queue/scheduler || fail "scheduler: $(cat $queue/scheduler)"

step "discard, zero, odd blocks"
dd if=/dev/urandom of=/tmp/random bs=512 count=77 status=none
dd if=/tmp/random of=$device bs=512 count=77 seek=3 oflag=direct status=none || fail "write"
dd if=$device bs=512 count=77 skip=3 iflag=direct status=none | cmp - /tmp/random || fail "read"
blkdiscard -f --length 1M $device || fail "discard"
blkdiscard -f -z --length 1M --offset 1M $device || fail "zero"
cmp -n 2M $device /dev/zero || fail "not zero after discard"

step "fio with verification"
fio --name=verify --filename=$device --rw=randwrite --bsrange=512-256k --blockalign=512 \
  --size=16M --direct=1 --ioengine=io_uring --iodepth=16 --verify=crc32c --verify_fatal=1 \
  --minimal > /tmp/fio 2>&1 || { cat /tmp/fio; fail "fio"; }

step "filesystem"
mkfs.xfs -q -f $device || fail "mkfs"
mkdir -p /tmp/mnt
mount $device /tmp/mnt || fail "mount"
cp -r /usr/bin /tmp/mnt/before && sync

step "a mounted device is not detached"
echo detach >&3
for ((i = 0; i < 600; i++)); do grep -q "is in use" /tmp/serve.1 && break; sleep 0.1; done
grep -q "in use (mounted at /tmp/mnt)" /tmp/serve.1 || fail "detached while mounted"

step "kill -9 under load"
fio --name=load --directory=/tmp/mnt --rw=randwrite --bs=4k --size=8M --direct=1 --loops=4 \
  --ioengine=io_uring --iodepth=8 --verify=crc32c --verify_fatal=1 --minimal > /tmp/load 2>&1 &
load=$!
sleep 1
kill -9 $daemon
wait $daemon 2> /dev/null
exec 3>&-
sleep 1
kill -0 $load 2> /dev/null || { cat /tmp/load; fail "the load did not wait for the next daemon"; }
$server waits /run/evenkeel data > /tmp/serve.waits 2>&1 && fail "nobody seems to use it"
grep -q 'InUse .*"/tmp/mnt"' /tmp/serve.waits || fail "$(cat /tmp/serve.waits)"
kill -0 $load 2> /dev/null || { cat /tmp/load; fail "who only looked has ended what waits"; }

step "take over"
serve ublk resume
[ "$(readlink $device)" = /dev/ublkb0 ] || fail "another device"
wait $load || { cat /tmp/load; fail "the load saw errors"; }
diff -r --no-dereference /usr/bin /tmp/mnt/before || fail "files differ"
umount /tmp/mnt || fail "umount"
xfs_repair -n $device > /tmp/repair 2>&1 || { cat /tmp/repair; fail "the filesystem is damaged"; }

step "detach"
echo detach >&3
wait $daemon || fail "detach"
exec 3>&-
[ ! -e $device ] || fail "$device is still there"
for ((i = 0; i < 600; i++)); do [ -e /dev/ublkb0 ] || break; sleep 0.1; done
[ ! -e /dev/ublkb0 ] || fail "/dev/ublkb0 is still there"

step "kill -9, and nobody takes over: errors instead of waiting"
serve ublk
mkfs.ext4 -q -F $device || fail "mkfs"
mount $device /tmp/mnt || fail "mount"
(dd if=/dev/zero of=/tmp/mnt/file bs=4k oflag=direct > /tmp/dd 2>&1; touch /tmp/dd.ended) &
sleep 0.5
kill -9 $daemon
exec 3>&-
sleep 0.5
[ -e /tmp/dd.ended ] && fail "did not wait"
$server clean /run/evenkeel data > /tmp/serve.clean 2>&1 || fail "clean up"
grep -q /tmp/mnt /tmp/serve.clean || fail "did not say what was unmounted: $(cat /tmp/serve.clean)"
for ((i = 0; i < 100; i++)); do [ -e /tmp/dd.ended ] && break; sleep 0.1; done
grep -qi "error\|read-only" /tmp/dd || { cat /tmp/dd; fail "no error"; }
serve ublk
mount $device /tmp/mnt || fail "not mounted again"
umount /tmp/mnt
echo detach >&3
wait $daemon || fail "detach"
echo "passed"
