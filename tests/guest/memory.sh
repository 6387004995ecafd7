#!/bin/bash
# Serving a block device while memory is short: more is written through the page cache than there is
# memory, so the kernel must write to the device in order to go on. Nothing may wait for ever.
# takes: 110
# build: --workspace --example serve_file
# copy: debug/examples/serve_file
# disks: 1 400M
# memory: 256
# seconds: 600
set -u
server=/job/serve_file
fail() { echo "FAILED: $*"; cat /tmp/serve; dmesg | tail -20; exit 1; }
step() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $*"; }
available() { awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo; }

modprobe -a ublk_drv loop fuse xfs
mkdir -p /tmp/mnt
mkfifo /tmp/commands
for kind in loop ublk; do
  step "$kind"
  $server attach /run/evenkeel data /dev/vdb $kind < /tmp/commands > /tmp/serve 2>&1 &
  daemon=$!
  exec 3> /tmp/commands
  for ((i = 0; i < 300; i++)); do grep -q '^/dev/evenkeel/data' /tmp/serve && break; sleep 0.1; done
  [ -e /dev/evenkeel/data ] || fail "not attached"
  [ "$(wc -l < /tmp/serve)" = 1 ] || fail "root could not prepare for this"
  [ "$(cat /proc/$daemon/oom_score_adj)" = -1000 ] || fail "may be killed"
  awk '/^VmLck/ {exit $2 < 1000}' /proc/$daemon/status || fail "not locked"
  mkfs.xfs -q -f /dev/evenkeel/data || fail "mkfs"
  mount /dev/evenkeel/data /tmp/mnt || fail "mount"

  # What cannot be written anywhere takes the rest of the memory.
  hog=$(($(available) - 60))
  [ $hog -lt 1 ] || head -c ${hog}M /dev/zero > /dev/shm/hog 2> /dev/null
  step "$(available) MiB available, writing 150 MiB"
  fio --name=pressure --directory=/tmp/mnt --rw=randwrite --bs=64k --size=150M --end_fsync=1 \
    --verify=crc32c --verify_fatal=1 --minimal > /tmp/fio 2>&1 || { cat /tmp/fio; fail "fio"; }
  rm -f /dev/shm/hog
  umount /tmp/mnt || fail "umount"
  xfs_repair -n /dev/evenkeel/data > /tmp/repair 2>&1 || { cat /tmp/repair; fail "damaged"; }
  echo detach >&3
  wait $daemon || fail "detach"
  exec 3>&-
done
dmesg | grep -i "hung task\|blocked for more\|out of memory" && fail "something waited too long"
step "passed"
