#!/bin/bash
# A target of NVMe over TCP, and this kernel's initiator over loopback.
# takes: 380
# build: --workspace --example serve_nvme
# copy: debug/examples/serve_nvme
# seconds: 380
# memory: 1024
set -u
subsystem=nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-123456789abc
discovery=nqn.2014-08.org.nvmexpress.discovery
host=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
# Before and after it grows.
size=$((320 << 20)) full=$((640 << 20))
device=/dev/nvme0n1
fail() {
  echo "FAILED: $*"
  tail -30 /tmp/target
  dmesg | grep -i nvme | tail -20
  # The initiator would try for ten minutes, and keep the guest from ending.
  local controller
  for controller in /sys/class/nvme/nvme*/delete_controller; do echo 1 > "$controller"; done
  exit 1
}
step() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $*"; }

# connect SUBSYSTEM HOST OPTIONS
connect() {
  echo "transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=$1,hostnqn=$2,hostid=11111111-2222-3333-4444-555555555555,keep_alive_tmo=30${3:-}" \
    2> /dev/null > /dev/nvme-fabrics
}
# attached: waits for the device.
attached() {
  local i
  for ((i = 0; i < 300; i++)); do [ -b $device ] && return; sleep 0.1; done
  fail "there is no device"
}
disconnect() {
  local controller
  for controller in /sys/class/nvme/nvme*; do echo 1 > "$controller/delete_controller"; done
  local i
  for ((i = 0; i < 100; i++)); do ls /sys/class/nvme/nvme* > /dev/null 2>&1 || return; sleep 0.1; done
  fail "a controller is still there"
}
# verify NAME OPTIONS: writes, and compares.
verify() {
  local name=$1
  shift
  fio --name="$name" --filename=$device --direct=1 --ioengine=libaio --size=24M --verify=crc32c --verify_fatal=1 \
    --do_verify=1 --randrepeat=0 "$@" > "/tmp/fio.$name" 2>&1 || { cat "/tmp/fio.$name"; fail "fio $name"; }
}
state() { cat /sys/block/nvme0c0n1/ana_state /sys/block/nvme0n1/ana_state 2> /dev/null; }
queue() { cat /sys/block/nvme0n1/queue/"$1"; }

modprobe nvme-tcp || fail "no initiator"
mkfifo /tmp/end
/job/serve_nvme 4420 $host $full < /tmp/end > /tmp/target 2>&1 &
exec 3> /tmp/end
for ((i = 0; i < 300; i++)); do grep -q '^listening' /tmp/target && break; sleep 0.1; done

step "only the host that is permitted is let in"
connect $subsystem nqn.other && fail "another host was let in"
connect nqn.2014-08.org.nvmexpress:uuid:none $host && fail "there is no such subsystem"
grep -q 'refused: ConnectHost (0)' /tmp/target || fail "it was not refused"
grep -q 'refused: ConnectParameters (10100)' /tmp/target || fail "it was not told why"

step "connect"
connect $subsystem $host || fail "not connected"
attached
[ "$(blockdev --getsize64 $device)" = $size ] || fail "size $(blockdev --getsize64 $device)"
[ "$(queue logical_block_size)" = 512 ] || fail "block size"
[ "$(queue write_cache)" = 'write back' ] || fail "no write cache"
[ "$(queue fua)" = 1 ] || fail "no FUA"
[ "$(queue max_hw_sectors_kb)" = 1024 ] || fail "at most $(queue max_hw_sectors_kb) KiB"
[ "$(queue discard_max_bytes)" -gt 0 ] || fail "no discard"
[ "$(queue write_zeroes_max_bytes)" -gt 0 ] || fail "no write-zeroes"
[ "$(cat /sys/block/nvme0n1/uuid)" = 00000000-0000-0000-0000-123456789abc ] || fail "another UUID"
[ "$(state)" = optimized ] || fail "its path is $(state)"

step "write and compare"
verify small --rw=randwrite --bs=4k --iodepth=32
verify mixed --rw=randwrite --bsrange=512-256k --blockalign=512 --iodepth=16 --numjobs=1
verify large --rw=write --bs=1M --iodepth=4 --fsync=8

step "discard"
blkdiscard $device || fail "discard"
cmp -n $((32 << 20)) $device /dev/zero || fail "what was discarded is not zero"
dd if=/dev/urandom of=$device bs=1M count=8 oflag=direct 2> /dev/null
blkdiscard -z -o 1M -l 4M $device || fail "write-zeroes"
cmp -n $((4 << 20)) -i $((1 << 20)):0 $device /dev/zero || fail "what was zeroed is not zero"

step "file systems"
for type in xfs ext4; do
  if [ $type = xfs ]; then mkfs.xfs -q -f $device; else mkfs.ext4 -q -F $device; fi || fail "mkfs.$type"
  mount $device /mnt || fail "mount $type"
  cp -r /usr/sbin /mnt/ && sync
  umount /mnt
  mount $device /mnt || fail "mount $type again"
  diff -r --no-dereference /usr/sbin /mnt/sbin || fail "$type lost something"
  umount /mnt
done

step "reset under load"
fio --name=reset --filename=$device --direct=1 --ioengine=libaio --size=64M --rw=randwrite --bs=4k --iodepth=16 \
  --verify=crc32c --verify_fatal=1 --time_based --runtime=12 > /tmp/fio.reset 2>&1 &
load=$!
for ((i = 0; i < 4; i++)); do
  sleep 2
  echo 1 > /sys/class/nvme/nvme0/reset_controller || fail "reset $i"
done
wait $load || { cat /tmp/fio.reset; fail "fio saw the reset"; }

step "growth, and a path that is lost and found"
# becomes WHAT COMMAND: waits until the command says so.
becomes() {
  local what=$1 i
  shift
  for ((i = 0; i < 300; i++)); do [ "$("$@")" = "$what" ] && return; sleep 0.1; done
  fail "it is $("$@"), not $what"
}
echo grow >&3
becomes $full blockdev --getsize64 $device
verify grown --rw=randwrite --bs=64k --iodepth=8 --offset=$((full - (32 << 20)))
echo lost >&3
becomes inaccessible state
echo found >&3
becomes optimized state

step "disconnect, and again with digests"
disconnect
connect $subsystem $host ,hdr_digest,data_digest,nr_io_queues=1,queue_size=16 || fail "not connected with digests"
attached
verify digests --rw=randwrite --bsrange=512-256k --blockalign=512 --iodepth=16
verify deep --rw=randwrite --bs=4k --iodepth=64

step "discovery"
connect $discovery $host || fail "not connected to discovery"
grep -l discovery /sys/class/nvme/nvme*/subsysnqn > /dev/null || fail "no discovery controller"
disconnect

step "the end"
exec 3>&-
for ((i = 0; i < 300; i++)); do grep -q '^replicas' /tmp/target && break; sleep 0.1; done
grep -q '^replicas: identical' /tmp/target || fail "replicas"
# Two connections were meant to be refused.
dmesg | grep -E 'nvme.*(timeout|error|failed|digest)' | grep -v 'failed to connect queue: 0' > /tmp/complaints
[ -s /tmp/complaints ] && { cat /tmp/complaints; fail "the kernel complains"; }
echo passed
