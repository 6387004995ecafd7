#!/bin/bash
# A virtual machine that moves to another node while it writes: the part inside the guest, which does not notice.
# migrate.host boots it at one node and moves it to the other.
# takes: 120
# memory: 512
# seconds: 300
set -u
fail() { echo "FAILED: $*"; dmesg | tail -25; exit 1; }
# differs FILE ROUND: tells whether the disk has it wrong, or one reading did.
differs() {
  echo 1 > /proc/sys/vm/drop_caches
  cmp "/mnt/$1" "/tmp/$1" && echo "the second time it is as it was written"
  fail "file $1 differs in round $2"
}
# The scratch disk under / does not move: nothing is written there from now on.
mkdir -p /mnt
mount -t tmpfs none /tmp
mount -o remount,ro / || fail "remount"
mkfs.ext4 -q -F /dev/vdb || fail "mkfs"
mount /dev/vdb /mnt || fail "mount"
# Each round writes a file, and reads and compares all that were written before.
for round in $(seq 16); do
  head -c 1000000 /dev/urandom > "/tmp/$round"
  cp "/tmp/$round" "/mnt/$round" && sync "/mnt/$round" || fail "write"
  echo 1 > /proc/sys/vm/drop_caches
  for old in $(seq "$round"); do
    cmp "/mnt/$old" "/tmp/$old" || differs "$old" "$round"
  done
  echo "@@ round $round"
done
umount /mnt || fail "umount"
e2fsck -fn /dev/vdb > /tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
echo "@@ done"
