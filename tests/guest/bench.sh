#!/bin/bash
# `evenkeel bench` beside the mirrors of the kernel, md RAID1 and DRBD, which it sets up and tears down.
# takes: 240
# build: --workspace --example bench
# copy: debug/examples/bench
# disks: 1 6G
# memory: 1536
# seconds: 900
set -u
fail() { echo "FAILED: $*"; tail -n 40 /tmp/run.log; dmesg | tail -20; exit 1; }
step() { echo "== $(cut -d' ' -f1 /proc/uptime) s: $*"; }
left() {
  {
    grep -E 'evenkeel-bench|/dev/md' /proc/mounts
    losetup -a | grep evenkeel-bench
    grep '^md' /proc/mdstat
    grep -lv '^0$' /sys/block/drbd*/size
    compgen -G "/run/evenkeel-bench/*"
    compgen -G "/scratch/evenkeel-bench*"
  } 2> /dev/null | grep .
}
# run ARGUMENTS…: a profile to its end; nothing may be left of it.
run() {
  step "bench $*"
  (cd /tmp && /job/bench "$@" --scratch /scratch --out /tmp --skip-missing > /tmp/run.log 2>&1) || fail "bench $*"
  sed -n '/^\[/d; /^setting/d; /^warming/d; p' /tmp/run.log
  left > /tmp/left && { cat /tmp/left; fail "left behind"; }
  # A sentence may be broken anywhere.
  tr -s '\n ' ' ' < /tmp/run.log > /tmp/said
  ! grep -q 'NOT read back right' /tmp/said || fail "data read back wrong"
  grep -qE 'the data of [0-9]+ configurations? read back right' /tmp/said || fail "the data was not checked"
}
# measured ID…: these configurations have figures.
measured() {
  local id
  for id in "$@"; do grep -q "\] round 1 .* $id: [0-9]" /tmp/run.log || fail "$id was not measured"; done
}

modprobe -a loop xfs ext4 raid1 drbd
mkdir -p /scratch /run/lock /run/drbd /var/lib/drbd
mkfs.ext4 -q /dev/vdb && mount /dev/vdb /scratch || fail "scratch"

run quick --size 32M --seconds 0.2 --rounds 1 --only md-raid1,drbd-c,drbd-b,drbd-a
measured raw limit-2 md-raid1 drbd-c drbd-b drbd-a
run drbd --scale 0.02 --rounds 1 --only drbd-c,drbd-a
measured raw-loop limit-2 drbd-c drbd-a

step "interrupted"
for signal in INT TERM KILL; do
  (cd /tmp && exec /job/bench quick --size 32M --scratch /scratch --out /tmp --only md-raid1,drbd-c > /tmp/run.log 2>&1) &
  sleep $((4 + RANDOM % 8))
  kill -$signal $!
  wait $! 2> /dev/null
  [ $signal != KILL ] || /job/bench clean || fail "clean"
  left > /tmp/left && { cat /tmp/left; fail "left behind after $signal"; }
done
step "passed"
