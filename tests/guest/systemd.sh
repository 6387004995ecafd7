#!/bin/bash
# The packaged unit under a real systemd: with what it forbids the node, disks, both kinds of device,
# growth, exports and names of hosts work; it names who uses a device; killed under load it comes back.
# takes: 120
# build: --workspace --bin evenkeel --example bench
# copy: debug/evenkeel
# with: packaging/evenkeel.service
# init: systemd
# disks: 1 700M
# memory: 1024
# seconds: 360
set -u
fail() { echo "FAILED: $*"; journalctl --no-pager -n 40 -u evenkeel; dmesg | tail -5; exit 1; }
step() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $*"; }
await() {
  local what=$1 i
  shift
  for ((i = 0; i < 300; i++)); do "$@" > /tmp/await 2>&1 && return; sleep 0.1; done
  cat /tmp/await
  fail "waited in vain: $what"
}
main_process() { systemctl show --value -p MainPID evenkeel; }

modprobe -a loop fuse xfs
install -m 755 /job/evenkeel /usr/bin/evenkeel
install -m 644 /job/evenkeel.service /etc/systemd/system/evenkeel.service
mkdir -p /etc/evenkeel /mnt/data
echo "127.0.0.1 localhost" > /etc/hosts
# A name of a host: it has to be looked up.
cat > /etc/evenkeel/evenkeel.toml <<'TOML'
name = "guest"
cluster = "guest"
[coordinator]
here = true
[peer]
listen = ["localhost:7740"]
[metrics]
listen = "127.0.0.1:9740"
TOML

step "start"
evenkeel cluster init || fail "cluster init"
systemctl daemon-reload
systemctl start evenkeel || fail "systemctl start"
evenkeel node status || fail "the node does not answer"
grep -q '^Seccomp:.*2' "/proc/$(main_process)/status" || fail "no call is filtered"
systemd-analyze security --threshold=52 evenkeel > /tmp/rated || { tail -n 3 /tmp/rated; fail "rated worse than 5.2"; }
tail -n 1 /tmp/rated

step "a whole disk, volumes, a device by FUSE"
evenkeel disk add /dev/vdb --name disk || fail "disk add"
evenkeel volume create data --size 300M --replicas 1 --quiet || fail "create"
evenkeel mount data /mnt/data --mkfs xfs || fail "mount"
case $(readlink /dev/evenkeel/data) in /dev/loop*) ;; *) fail "not by a loop device" ;; esac
[ "$(stat -c %a /dev/evenkeel)" = 755 ] || fail "others do not find devices"
[ "$(stat -c %a /run/evenkeel/api.sock)" = 600 ] || fail "others reach the API"
umount /mnt/data
sleep 1000 < /dev/evenkeel/data &
user=$!
evenkeel detach data > /tmp/detach 2>&1 && fail "detached while it is used"
grep -q "sleep" /tmp/detach || { cat /tmp/detach; fail "it does not say who uses the device"; }
kill $user
wait $user 2> /dev/null
evenkeel volume grow data --size 350M || fail "grow"
evenkeel detach data || fail "detach"

step "a directory, NBD"
mkdir /srv/directory
evenkeel disk add /srv/directory || fail "disk add"
evenkeel volume create shown --size 50M --replicas 1 --quiet || fail "create"
evenkeel attach shown --as nbd || fail "attach --as nbd"
[ "$(stat -c %a /run/evenkeel/nbd)" = 755 ] || fail "others do not find NBD sockets"
[ -S /run/evenkeel/nbd/shown.sock ] || fail "no socket"
evenkeel detach shown || fail "detach"

step "ublk, killed under load"
modprobe ublk_drv
evenkeel mount data /mnt/data || fail "mount"
[ "$(readlink /dev/evenkeel/data)" = /dev/ublkb0 ] || fail "not by ublk"
fio --name=load --directory=/mnt/data --rw=randwrite --bs=4k --size=8M --direct=1 --loops=3 \
  --ioengine=io_uring --iodepth=8 --verify=crc32c --verify_fatal=1 --minimal > /tmp/load 2>&1 &
load=$!
sleep 1
first=$(main_process)
kill -9 "$first"
wait $load || { cat /tmp/load; fail "the load saw errors"; }
await "systemd has started another" systemctl is-active --quiet evenkeel
[ "$(main_process)" != "$first" ] || fail "the same process"
umount /mnt/data
evenkeel detach data || fail "detach"

step "stop"
systemctl stop evenkeel
[ "$(systemctl show --value -p Result evenkeel)" = success ] || fail "it did not end well"
journalctl --no-pager -q -u evenkeel > /tmp/journal
grep -iE "not permitted|denied" /tmp/journal && fail "something was forbidden that it wants"
step "passed"
