#!/usr/bin/env bash
# A disk's file system can't be written any more, and nobody writes: every node says so of its replicas.
# cases/read-only.sh ext4    it is read-only after an error: a replica leaves its mirror if another one is in-sync, the
#                            last one can be read still, and a stopped volume is told, too
# cases/read-only.sh xfs     it was shut down, and answers everything with an input/output error: the same, but that
#                            nothing can be read
source "$(dirname "$0")/../lib.sh"
what=${1:-ext4}
[ "$(id -u)" = 0 ] || skip "a filesystem of its own is mounted by root"

make_file_system() {
    truncate -s 320M "$work/image"
    if [ "$what" = xfs ]; then mkfs.xfs -q "$work/image"; else mkfs.ext4 -q -m 0 "$work/image"; fi
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
}

fail_file_system() {
    if [ "$what" = xfs ]; then
        xfs_io -x -c shutdown "$work/mnt" || skip "no file system can be shut down"
    else
        mount -o remount,abort "$work/mnt" || skip "no file system can be made to fail"
    fi
    ! touch "$work/mnt/disk/file" 2> /dev/null || skip "it can be written to all the same"
}

mended() {
    await "the file system is let go of" umount "$work/mnt"
    [ "$what" = xfs ] || e2fsck -fy "$work/image" > /dev/null 2>&1 || [ $? = 1 ] || die "it cannot be repaired"
    mount -o loop "$work/image" "$work/mnt"
    await "the disk is opened again" serves
}
serves() { [ "$(disk_list 2 | jq -r '.disks[] | select(.node.name == "n2") | .state')" = serving ]; }

# tells VOLUME WORDS: each node says that the volume is unhealthy, and why.
tells() {
    local n code text
    for n in 1 2; do
        code=0
        ek $n volume status "$1" --check > "$work/status" 2>&1 || code=$?
        [ $code = 6 ] && grep -qF "$2" "$work/status" || return 1
        # The letter of a replica that is in order says that nothing is wrong with it.
        ! grep -qE "^volume $1 \[U+\]" "$work/status" || return 1
        text=$(ek $n volume list --unhealthy) || true
        grep -q "$1" <<< "$text" && grep -qF "$2" <<< "$text" || return 1
    done
}

# of_n2 FILTER: of the replica of the volume on n2.
of_n2() { ek 1 volume status "$1" --json | jq -re ".volume.mirrors[0].replicas[] | select(.node.name == \"n2\") | $2"; }
has_left() { [ "$(of_n2 "$1" '"\(.state) \(.cause)"')" = "faulty medium" ]; }

for n in 1 2; do prepare_node $n; start_node $n; done
make_file_system
mkdir "$work/mnt/disk"
await "n1 is a member" ek 1 disk add "$work/n1/disk" --name disk
await "n2 is a member" ek 2 disk add "$work/mnt/disk" --name disk
if [ "$what" = xfs ]; then why="reports input/output errors"; else why="its file system is read-only"; fi
ek 1 volume create both$vol --size 16M --replicas 2 --quiet
ek 1 volume create last$vol --size 16M --replicas 1 --on n2:disk --quiet
ek 1 volume create stopped$vol --size 16M --replicas 2 --quiet
attach both$vol nbd > /dev/null
last=$(attach last$vol nbd)
fio --ioengine=nbd --uri="$last" --name=write --rw=write --bs=64k --size=16M --end_fsync=1 > "$work/fio.out" 2>&1 || die "$(< "$work/fio.out")"
ek 1 volume stop stopped$vol --yes --quiet

fail_file_system
await "it is told of a volume that nobody writes to" tells both$vol "$why"
await "it is told of the only replica" tells last$vol "$why"
await "it is told of a stopped volume" tells stopped$vol "$why"
say "told: $(ek 1 volume list --unhealthy)"
if [ "$what" = ext4 ]; then
    await "the replica leaves: another one is in-sync" has_left both$vol
    sleep 4 # a look at the disk, and more
    [ "$(of_n2 last$vol '"\(.state) \(.reach)"')" = "in-sync read-only" ] || die "$(ek 1 volume status last$vol)"
    fio --ioengine=nbd --uri="$last" --name=read --rw=read --bs=64k --size=16M > "$work/fio.out" 2>&1 || die "the last one can't be read: $(< "$work/fio.out")"
fi
timeout 60 "$evenkeel" --socket "$work/n1/run/api.sock" detach last$vol --quiet || true
mended
await "the replica comes back" ek 1 replica re-add both$vol n2:disk --wait --timeout 1m --quiet
ek 1 volume assemble stopped$vol --quiet
# Of the one whose replica did not answer the detach could not be clean.
attach last$vol nbd > /dev/null
for volume in both$vol last$vol stopped$vol; do await "$volume is in order" ek 2 volume status $volume --check; done
