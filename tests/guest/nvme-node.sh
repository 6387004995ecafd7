#!/bin/bash
# A node that exports a volume of two replicas by NVMe over TCP, and this kernel's initiator over loopback, by keys.
# takes: 185
# build: --workspace --bin evenkeel --example bench
# copy: debug/evenkeel
# disks: 2 900M
# memory: 1024
# seconds: 900
set -u
host=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
discovery=nqn.2014-08.org.nvmexpress.discovery
device=/dev/nvme0n1
size=$((320 << 20)) full=$((640 << 20))
fail() {
  echo "FAILED: $*"
  tail -30 /tmp/node.log
  dmesg | grep -i nvme | tail -20
  # The initiator would try for ten minutes, and keep the guest from ending.
  local controller
  for controller in /sys/class/nvme/nvme*/delete_controller; do echo 1 > "$controller"; done
  exit 1
}
step() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $*"; }
evenkeel() { /job/evenkeel "$@"; }
await() {
  local what=$1 i
  shift
  for ((i = 0; i < 300; i++)); do "$@" > /tmp/await 2>&1 && return; sleep 0.1; done
  cat /tmp/await
  fail "waited in vain: $what"
}
# connect SUBSYSTEM HOST OPTIONS
connect() {
  echo "transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=$1,hostnqn=$2,hostid=11111111-2222-3333-4444-555555555555,keep_alive_tmo=30,reconnect_delay=1${3:-}" \
    2> /dev/null > /dev/nvme-fabrics
}
# refused WHY SUBSYSTEM HOST OPTIONS: it isn't let in, and the node says why; of each address, once in 10 s.
refused() {
  local why=$1 i
  shift
  for ((i = 0; i < 60; i++)); do
    connect "$@" && fail "it was let in: $why"
    grep -q "refused an NVMe host.*$why" /tmp/node.log && return
    sleep 0.5
  done
  fail "it was not told why: $why"
}
disconnect() {
  local controller
  for controller in /sys/class/nvme/nvme*; do echo 1 > "$controller/delete_controller"; done
  await "the controllers are gone" gone
}
gone() { ! ls /sys/class/nvme/nvme* > /dev/null 2>&1; }
# verify NAME OPTIONS: writes, and compares.
verify() {
  local name=$1
  shift
  fio --name="$name" --filename=$device --direct=1 --ioengine=libaio --size=24M --verify=crc32c --verify_fatal=1 \
    --do_verify=1 --randrepeat=0 "$@" > "/tmp/fio.$name" 2>&1 || { cat "/tmp/fio.$name"; fail "fio $name"; }
}
# is WHAT COMMAND: whether the command says so.
is() { local what=$1; shift; [ "$("$@")" = "$what" ]; }
state() { cat /sys/block/nvme0c0n1/ana_state /sys/block/nvme0n1/ana_state 2> /dev/null; }
queue() { cat /sys/block/nvme0n1/queue/"$1"; }

modprobe -a nvme-tcp loop xfs || fail "no initiator"
mkdir -p /etc/evenkeel
cat > /etc/evenkeel/evenkeel.toml <<'TOML'
name = "guest"
cluster = "guest"
[coordinator]
here = true
[nvme]
listen = ["0.0.0.0:4420"]
TOML
start() {
  /job/evenkeel node run >> /tmp/node.log 2>&1 &
  node=$!
  await "the node answers" evenkeel node status
}

step "node, disks, volume"
start
await "a disk is added" evenkeel disk add /dev/vdb --name one
await "a disk is added" evenkeel disk add /dev/vdc --name two
evenkeel volume create data --size 320M --replicas 2 --same-node --quiet || fail "create"
evenkeel attach data --as none || fail "attach"
evenkeel export nvme data --host "$host" > /tmp/refused 2>&1 && fail "a name is enough where others reach the node"
grep -q 'generate-key' /tmp/refused || { cat /tmp/refused; fail "it was not told why"; }
evenkeel export nvme data --host "$host" --generate-key --both-ways > /tmp/export || fail "export"
subsystem=$(evenkeel volume status data | grep -o 'nqn.2014-08.org.nvmexpress:uuid:[0-9a-f-]*' | head -1)
key=$(grep -o 'dhchap-secret DHHC-1:[^ ]*' /tmp/export | cut -d' ' -f2)
own=$(grep -o 'dhchap-ctrl-secret DHHC-1:[^ ]*' /tmp/export | cut -d' ' -f2)
[ -n "$key" ] && [ -n "$own" ] || { cat /tmp/export; fail "no keys were shown"; }
evenkeel volume status data --json | grep -q DHHC && fail "the status shows keys"
both=,dhchap_secret=$key,dhchap_ctrl_secret=$own

step "only the host that is permitted is let in, and only by its key"
# Another key: of the right form, and not this one.
wrong=DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:
connect "$subsystem" "$host" && fail "a host without a key was let in"
refused 'another key than the export' "$subsystem" "$host" ",dhchap_secret=$wrong"
refused 'another key of this side' "$subsystem" "$host" ",dhchap_secret=$key,dhchap_ctrl_secret=$wrong"
[ "$(evenkeel volume status data | grep -c 'used by')" = 0 ] || fail "somebody was let in"
refused 'the export names other hosts' "$subsystem" nqn.2026-11.org.example:other
connect nqn.2014-08.org.nvmexpress:uuid:none "$host" && fail "there is no such subsystem"

step "connect"
connect "$subsystem" "$host" ",dhchap_secret=$key" || fail "not connected one way"
await "the device" test -b $device
disconnect
connect "$subsystem" "$host" "$both" || fail "not connected"
await "the device" test -b $device
[ "$(blockdev --getsize64 $device)" = $size ] || fail "size $(blockdev --getsize64 $device)"
[ "$(queue write_cache)" = 'write back' ] || fail "no write cache"
[ "$(queue fua)" = 1 ] || fail "no FUA"
[ "nqn.2014-08.org.nvmexpress:uuid:$(cat /sys/block/nvme0n1/uuid)" = "$subsystem" ] || fail "another UUID"
[ "$(state)" = optimized ] || fail "its path is $(state)"
evenkeel volume status data > /tmp/status
grep -q "used by $host from 127.0.0.1:[0-9]*, 2 I/O queues" /tmp/status || { cat /tmp/status; fail "status"; }
evenkeel volume stop data --yes && fail "stopped under a host"

step "write and compare"
verify small --rw=randwrite --bs=4k --iodepth=32
verify large --rw=write --bs=1M --iodepth=4 --fsync=8

step "a file system"
mkfs.xfs -q -f $device || fail "mkfs.xfs"
mount $device /mnt || fail "mount"
cp -r /usr/sbin /mnt/ && sync
umount /mnt

step "restarts under load"
fio --name=restart --filename=$device --direct=1 --ioengine=libaio --offset=256M --size=64M --rw=randwrite --bs=4k \
  --iodepth=16 --verify=crc32c --verify_fatal=1 --time_based --runtime=60 > /tmp/fio.restart 2>&1 &
load=$!
sleep 3
kill -TERM $node
wait $node || fail "the node's status"
start
sleep 8
kill -9 $node
wait $node 2> /dev/null
start
kill -0 $load 2> /dev/null || { cat /tmp/fio.restart; fail "the load did not wait for the node"; }
wait $load || { cat /tmp/fio.restart; fail "fio saw a restart"; }
mount $device /mnt || fail "mount again"
diff -r --no-dereference /usr/sbin /mnt/sbin || fail "something was lost"
umount /mnt
# Whoever was killed may have left writes that differ.
await "the replicas are in-sync" evenkeel volume status data --wait in-sync --timeout 60s

step "reservations"
nvme resv-register $device -n 1 --nrkey 0x11 --rrega 0 --cptpl 3 || fail "register"
nvme resv-register $device -n 1 --nrkey 0x22 --rrega 0 && fail "registered twice"
nvme resv-acquire $device -n 1 --crkey 0x11 --rtype 1 --racqa 0 || fail "acquire"
nvme resv-report $device -n 1 --eds > /tmp/report || fail "report"
grep -q 'rtype *: 1' /tmp/report && grep -q 'rkey *: 11' /tmp/report || { cat /tmp/report; fail "another report"; }
evenkeel reservation show data > /tmp/shown
grep -q '0x11' /tmp/shown || { cat /tmp/shown; fail "the node does not show it"; }
block() { dd if=/dev/zero of=$device bs=4k count=1 oflag=direct 2> /tmp/dd; }
block || fail "the holder may not write"
evenkeel reservation register data --key 2 || fail "register the node"
evenkeel reservation preempt data --key 2 --victim 0x11 --kind write-exclusive || fail "preempt"
block && fail "who was fenced wrote"
grep -q 'Invalid exchange' /tmp/dd || { cat /tmp/dd; fail "another error"; }
dd if=$device of=/dev/null bs=4k count=1 iflag=direct 2> /tmp/dd || fail "who was fenced may read"
# Type 1 stands behind the count: the registration was preempted.
is 01 sh -c "nvme get-log /dev/nvme0 -i 0x80 -l 64 -b | od -An -tx1 -j8 -N1 | tr -d ' '" || fail "no notice"
nvme resv-release $device -n 1 --crkey 0x11 --rtype 1 --rrela 0 && fail "it is not registered"
nvme resv-register $device -n 1 --nrkey 0x33 --rrega 2 --iekey || fail "register again"
nvme resv-release $device -n 1 --crkey 0x33 --rrela 1 --rtype 1 || fail "clear"
block || fail "nobody has reserved it"

step "growth"
evenkeel volume grow data --size 640M || fail "grow"
await "the new size" is $full blockdev --getsize64 $device
verify grown --rw=randwrite --bs=64k --iodepth=8 --offset=$((full - (32 << 20)))

step "digests"
disconnect
connect "$subsystem" "$host" ",hdr_digest,data_digest,nr_io_queues=1,queue_size=16$both" || fail "not connected with digests"
await "the device" test -b $device
verify digests --rw=randwrite --bsrange=4k-256k --blockalign=4k --iodepth=16
sync

step "the export ends"
evenkeel unexport data --only nvme || fail "unexport"
await "the host has given up" gone
connect "$subsystem" "$host" "$both" && fail "it is let in still"
connect $discovery "$host" || fail "not connected to discovery"
disconnect

step "detach"
evenkeel volume verify data --wait > /tmp/verify 2>&1 || { cat /tmp/verify; fail "verify"; }
cat /tmp/verify
evenkeel detach data || fail "detach"
kill -TERM $node
wait $node || fail "the node's status"
echo passed
