#!/bin/bash
# What scripts/instruction-figures counts, on RAM disks and on virtio disks: each line that begins with @ is one run
# of writes.c.
# build: --release -p evenkeel
# copy: release/evenkeel figures/writes figures/rounds
# disks: 2 128M
# memory: 1536
# seconds: 900
set -u
rounds=$(cat /job/rounds)
fail() { echo "FAILED: $*"; tail -n 20 /tmp/*.log; exit 1; }
await() {
  local what=$1 i
  shift
  for ((i = 0; i < 200; i++)); do "$@" > /tmp/await 2>&1 && return; sleep 0.1; done
  cat /tmp/await
  fail "waited in vain: $what"
}
# ek NODE ARGUMENTS…
ek() { local n=$1; shift; /job/evenkeel --socket "/run/$n/api.sock" "$@"; }

zeroes() { for disk in $one $two; do dd if=/dev/zero of="$disk" bs=1M count=128 oflag=direct status=none; done; }
# counted NAME DEVICE
counted() {
  local depth round
  dd if=/dev/zero of="$2" bs=1M count=64 oflag=direct status=none || fail "filling $2"
  for depth in 32 1; do
    for ((round = 0; round < rounds; round++)); do
      echo "@ $disks|$1|$depth"
      /job/writes "$2" 3000 $depth || fail "$1"
    done
  done
}
# node NAME ROLE: a node that does not poll, so that nothing depends on the emulation's speed. It listens on its unix
# socket, so nothing is encrypted, as with DRBD.
node() {
  mkdir -p "/etc/$1"
  printf 'name = "%s"\ncluster = "guest"\nstate = "/var/lib/%s"\nruntime = "/run/%s"\n[coordinator]\n%s\n[data]\nmax_poll_us = 0\n' \
    "$1" "$1" "$1" "$2" > "/etc/$1/evenkeel.toml"
  /job/evenkeel node run --config "/etc/$1/evenkeel.toml" > "/tmp/$1.log" 2>&1 &
  nodes+=($!)
  await "node $1 answers" ek "$1" node status
}
# mirror NAME ARGUMENTS…: evenkeel's, attached by ublk to node a.
mirror() {
  local name=$1
  shift
  ek a volume create data --size 80M --same-node --quiet "$@" || fail "create"
  ek a attach data --as device --quiet || fail "attach"
  [ "$(readlink /dev/evenkeel/data)" = /dev/ublkb0 ] || fail "not by ublk"
  counted "$name" /dev/evenkeel/data
  ek a detach data --quiet && ek a volume delete data --yes --quiet || fail "detach and delete"
}

modprobe -a ublk_drv raid1 || fail "modules"
modprobe brd rd_nr=2 rd_size=131072 || fail "brd"
for disks in RAM virtio; do
  if [ $disks = RAM ]; then one=/dev/ram0 two=/dev/ram1; else one=/dev/vdb two=/dev/vdc; fi
  zeroes
  counted "the disk itself" $one
  for bitmap in none internal; do
    mdadm -q --create /dev/md0 --level=1 --raid-devices=2 --bitmap=$bitmap --assume-clean --run $one $two || fail "md"
    counted "md RAID1, bitmap: $bitmap" /dev/md0
    mdadm -q --stop /dev/md0
    mdadm -q --zero-superblock $one $two
  done

  zeroes
  nodes=()
  node a 'here = true'
  await "a disk" ek a disk add $one --name one
  await "a disk" ek a disk add $two --name two
  mirror "evenkeel, 2 replicas" --replicas 2 --on a:one --on a:two
  mirror "the same without checksums" --replicas 2 --on a:one --on a:two --checksums none
  mirror "evenkeel, 1 replica" --replicas 1 --on a:one
  kill "${nodes[@]}"
  wait "${nodes[@]}"
  rm -rf /var/lib/a
  zeroes

  nodes=()
  node a 'here = true'
  node b 'join = "unix:/run/a/peer.sock"'
  await "a disk" ek a disk add $one --name one
  await "a disk" ek b disk add $two --name two
  mirror "evenkeel, 1 local, 1 remote: both nodes" --replicas 2 --on a:one --on b:two
  kill "${nodes[@]}"
  wait "${nodes[@]}"
  rm -rf /var/lib/a /var/lib/b
done
