#!/usr/bin/env bash
# What `evenkeel bench` refuses, and how it says so: wrong, mounted and non-empty devices, a full
# disk, missing tools, an fio that is too old.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

# refused STATUS WORDS COMMAND…: it ends with this status, and says these words; nothing is left.
refused() {
    local status=$1 words=$2 word found=0
    shift 2
    "$@" > said.log 2>&1 || found=$?
    [ "$found" = "$status" ] || { cat said.log; die "status $found instead of $status: $*"; }
    IFS='|'
    for word in $words; do grep -qF -- "$word" said.log || { cat said.log; die "it does not say \`$word\`: $*"; }; done
    unset IFS
    [ -z "$(ls scratch)" ] || die "files are left: $(ls scratch)"
    say "$(grep -m1 . said.log)"
}
quick() { "$evenkeel" bench quick --seconds 0.1 --rounds 1 --size 32M --only mirror-1 --out "$work/out" "$@"; }
# device NAME SIZE: a loop device over a new file.
device() { truncate -s "$2" "$1"; losetup -f --show "$work/$1"; }

say "devices"
empty=$(device empty 1G) used=$(device used 400M) mounted=$(device mounted 400M)
mkfs.ext4 -q "$used"
mkfs.ext4 -q "$mounted"
mkdir mnt1 mnt2
mount "$mounted" mnt1
refused 4 "No such file" quick --disk /dev/no-such-disk
refused 4 "not a block device|--scratch" quick --disk "$work/empty"
refused 4 "mounted or in use|unmount it" quick --disk "$mounted"
refused 4 "mounted or in use" quick --disk "$mounted" --force
refused 4 "something on it: ext4|--force" quick --disk "$used"
refused 4 "something on it" quick --disk "$empty" --disk "$used"
[ -z "$(wipefs --noheadings "$empty")" ] || die "the empty device was written to before the other was refused"
quick --disk "$empty" > run.log 2>&1 || die "an empty device is not taken"
quick --disk "$used" --force > run.log 2>&1 || die "a device with something on it is not taken with --force"
! grep -qE "^($empty|$used) " /proc/mounts || die "a device is still mounted"
quick --disk "$empty" > run.log 2>&1 && die "what an earlier run left on it is not respected"

say "a full disk"
small=$(device small 64M)
mkfs.ext4 -q "$small"
mount "$small" mnt2
refused 1 "are needed|are free|--scratch" quick --scratch "$work/mnt2"
[ "$(ls mnt2)" = lost+found ] || die "files are left on the full disk"
refused 1 "No such file" quick --scratch "$work/nowhere"

say "tools"
mkdir bin
for program in /usr/bin/* /usr/sbin/* /bin/* /sbin/*; do
    case ${program##*/} in fio | iozone | qemu-nbd) ;; *) ln -sf "$program" bin/ ;; esac
done
without() { env PATH="$work/bin" "$@"; }
refused 1 "fio is not installed|install fio" without "$evenkeel" bench quick --scratch "$work/scratch" --out "$work/out"
printf '#!/bin/sh\necho fio-2.2.10\n' > bin/fio
chmod +x bin/fio
refused 1 "fio is too old|fio-2.2.10|3.16 or later" without "$evenkeel" bench quick --scratch "$work/scratch" --out "$work/out"
ln -sf /usr/bin/fio bin/fio
refused 1 "iozone is not installed|install iozone3|--skip-missing" \
    without "$evenkeel" bench cluster-md --scratch "$work/scratch" --out "$work/out"
refused 1 "qemu-nbd is not installed|install qemu" \
    without "$evenkeel" bench quick --with qemu-nbd --scratch "$work/scratch" --out "$work/out"
without "$evenkeel" bench quick --seconds 0.1 --rounds 1 --size 32M --only qemu-nbd --skip-missing \
    --scratch "$work/scratch" --out "$work/out" > run.log 2>&1 || die "--skip-missing"
grep -q "left out: qemu-nbd: qemu-nbd is not installed" run.log || die "what is left out is not said"

say "numbers"
refused 2 "is not between" "$evenkeel" bench quick --rounds 0
refused 2 "there is no configuration|choose among" "$evenkeel" bench quick --with nonsense
