#!/bin/bash
# OCFS2 on one volume that two guests have mounted at once: the part inside a guest. ocfs2.host boots them, and
# kills one.
# takes: 280
# memory: 640
# seconds: 900
set -u
role=$(cat /job/role)
case $role in second) me=2 ;; *) me=1 ;; esac
fail() { echo "FAILED ($role): $*"; dmesg | tail -25; exit 1; }
step() { echo "@@ $role: $* ($(cut -d' ' -f1 /proc/uptime) s after boot)"; }
# await WHAT SECONDS COMMAND…
await() {
  local what=$1 end=$((SECONDS + $2)); shift 2
  until "$@" > /tmp/await 2>&1; do
    [ $SECONDS -lt $end ] || { cat /tmp/await; fail "waited in vain: $what"; }
    sleep 0.3
  done
}

hostname guest$me
modprobe virtio_net
ip address add 10.77.0.$me/24 dev eth0 && ip link set eth0 up || fail "no network"
modprobe -a configfs ocfs2_stackglue ocfs2_stack_o2cb ocfs2_dlmfs ocfs2 || fail "no OCFS2 in this kernel"
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
mkdir -p /dlm /mnt /etc/ocfs2
# Where its tools look whether the device is mounted.
ln -sf /proc/self/mounts /etc/mtab
mount -t ocfs2_dlmfs none /dlm
echo o2cb > /sys/fs/ocfs2/cluster_stack
printf 'cluster:\n\tnode_count = 2\n\tname = pair\n' > /etc/ocfs2/cluster.conf
for n in 1 2; do
  printf '\nnode:\n\tip_port = 7777\n\tip_address = 10.77.0.%s\n\tnumber = %s\n\tname = guest%s\n\tcluster = pair\n' $n $n $n
done >> /etc/ocfs2/cluster.conf
o2cb register-cluster pair || fail "register"
# A guest counts as dead after (7 - 1) * 2 s without a heartbeat on the disk.
echo 7 > /sys/kernel/config/cluster/pair/heartbeat/dead_threshold

# fill NAME: files, and their sums when they are all there.
fill() {
  mkdir "/mnt/$1" || fail "mkdir"
  local i
  for i in $(seq 40); do head -c $((i * 1000)) /dev/urandom > "/mnt/$1/$i" || fail "write"; done
  (cd "/mnt/$1" && sha256sum ./*) > "/tmp/$1.sum"
  cp "/tmp/$1.sum" "/mnt/$1.part" && sync && mv "/mnt/$1.part" "/mnt/$1.sum" || fail "sums"
}
# stress SECONDS: files written, read back and compared, renamed, linked, made and removed, all at once.
stress() {
  mkdir -p "/mnt/stress.$me"
  stress-ng --temp-path "/mnt/stress.$me" --timeout "$1s" --verify --metrics-brief --hdd 1 --hdd-bytes 4M --hdd-write-size 16K \
    --rename 1 --link 1 --dentry 1 --dentries 32 > /tmp/stress 2>&1 || { cat /tmp/stress; fail "stress-ng"; }
  step "stressed for $1 s: $(awk '/metrc:/ && $5 ~ /^[0-9]+$/ { ops += $5 } END { print ops }' /tmp/stress) operations"
}
check() { await "$1 is there" 150 test -e "/mnt/$1.sum"; (cd "/mnt/$1" && sha256sum --quiet -c "/mnt/$1.sum") || fail "what $1 wrote differs"; }
mounted() { mount -t ocfs2 /dev/vdb /mnt || fail "mount"; step "mounted"; }

case $role in
first)
  mkfs.ocfs2 -q -F -b 4K -C 4K -N 2 -J size=8M --cluster-stack=o2cb --cluster-name=pair -L shared /dev/vdb < /dev/null || fail "mkfs"
  step "formatted"
  mounted
  stress 10
  fill first
  step "wrote"
  check second
  step "reads what the second one wrote"
  stress 15
  # Nobody else looks at /mnt/held while this guest lives: its lock dies with the guest.
  while echo "$SECONDS" | tee -a /mnt/held >> /mnt/log && sync /mnt/held /mnt/log; do sleep 0.1; done
  fail "writing"
  ;;
second)
  mounted
  check first
  step "reads what the first one wrote"
  fill second
  stress 15
  await "the first one writes on" 150 test -s /mnt/log
  step "goes on"
  # Its longest pause is the time until the dead one's locks and journal are recovered.
  longest=0 still=0
  until [ -e /mnt/again.sum ]; do
    begin=$(date +%s%N)
    date > /mnt/alive && sync /mnt/alive && cat /mnt/log > /tmp/log || fail "the survivor"
    if cmp -s /tmp/log /tmp/before; then still=$((still + 1)); else still=0; fi
    mv /tmp/log /tmp/before
    # When the log has stood still, its writer is dead.
    [ $still -lt 10 ] || cat /mnt/held > /tmp/held || fail "reading what the dead one had locked"
    took=$((($(date +%s%N) - begin) / 1000000))
    [ $took -le $longest ] || longest=$took
    [ $SECONDS -lt 800 ] || fail "nobody came back"
    sleep 0.2
  done
  step "went on; its longest pause was $longest ms"
  # All but the last line of both was on the disk when it died.
  cmp -n "$(head -n -1 /mnt/log | wc -c)" /mnt/held /mnt/log || fail "the dead one's files differ"
  dmesg | grep -q "Begin replay journal" || fail "nobody has recovered the dead one's journal"
  check again
  check first
  sleep 3
  umount /mnt || fail "umount"
  fsck.ocfs2 -fn /dev/vdb > /tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
  ;;
again)
  mounted
  check first
  check second
  fill again
  umount /mnt || fail "umount"
  ;;
esac
step "done"
