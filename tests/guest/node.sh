#!/bin/bash
# A node that attaches by ublk: killed under load and started again, it takes its device over, and the
# programs that use it see a pause and no error.
# takes: 60
# build: --workspace --bin evenkeel --example bench
# copy: debug/evenkeel
# disks: 1 700M
# memory: 1024
set -u
fail() { echo "FAILED: $*"; tail -n 30 /tmp/node.log; dmesg | tail -10; exit 1; }
step() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $*"; }
evenkeel() { /job/evenkeel "$@"; }
await() {
  local what=$1 i
  shift
  for ((i = 0; i < 300; i++)); do "$@" > /tmp/await 2>&1 && return; sleep 0.1; done
  cat /tmp/await
  fail "waited in vain: $what"
}

modprobe -a ublk_drv loop xfs
mkdir -p /etc/evenkeel /tmp/mnt
cat > /etc/evenkeel/evenkeel.toml <<'TOML'
name = "guest"
cluster = "guest"
[coordinator]
here = true
TOML
start() {
  /job/evenkeel node run >> /tmp/node.log 2>&1 &
  node=$!
  await "the node answers" evenkeel node status
}

step "node, disk, volume"
start
grep WARN /tmp/node.log && fail "a node of root has something to complain of"
await "the disk is added" evenkeel disk add /dev/vdb --name disk
evenkeel volume create data --size 500M --replicas 1 --quiet || fail "create"
evenkeel mount data /tmp/mnt --mkfs xfs || fail "mount"
evenkeel volume status data
[ "$(readlink /dev/evenkeel/data)" = /dev/ublkb0 ] || fail "not by ublk"

step "kill -9 under load"
fio --name=load --directory=/tmp/mnt --rw=randwrite --bs=4k --size=8M --direct=1 --loops=3 \
  --ioengine=io_uring --iodepth=8 --verify=crc32c --verify_fatal=1 --minimal > /tmp/load 2>&1 &
load=$!
sleep 1
kill -9 $node
wait $node 2> /dev/null
sleep 1
kill -0 $load 2> /dev/null || { cat /tmp/load; fail "the load did not wait for the node"; }

step "start again"
start
wait $load || { cat /tmp/load; fail "the load saw errors"; }
[ "$(readlink /dev/evenkeel/data)" = /dev/ublkb0 ] || fail "another device"

step "detach"
evenkeel detach data && fail "detached while mounted"
umount /tmp/mnt || fail "umount"
xfs_repair -n /dev/evenkeel/data > /tmp/repair 2>&1 || { cat /tmp/repair; fail "damaged"; }
evenkeel detach data || fail "detach"
[ ! -e /dev/evenkeel/data ] || fail "/dev/evenkeel/data is still there"
kill -TERM $node
wait $node || fail "the node's status"
step "passed"
