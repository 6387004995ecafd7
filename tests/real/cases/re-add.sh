#!/usr/bin/env bash
# A replica is brought back after its disk failed.
# cases/re-add.sh full   while its disk is full, that is refused, and said by each node; with room it works
# cases/re-add.sh medium [ext4] while its disk reports input/output errors; once it is mounted anew, under
#                     the daemon that runs, it works
# cases/re-add.sh read_only  while its file system is read-only after an error, each node says so, nothing is placed
#                     there, and it can be unmounted; mounted anew, it works
# cases/re-add.sh deleted    its file was deleted in use: each node says so, and it is replaced
# cases/re-add.sh unmounted  its disk was unmounted lazily, and is put back: each node says so, and nothing is copied
# cases/re-add.sh rot    after too many bad reads; no damaged block is left, also none that nobody has read
# cases/re-add.sh rot detached   failed once more and brought back while the volume is attached nowhere: the same
source "$(dirname "$0")/../lib.sh"
what=${1:-full} where=${2:-attached}
[ "$(id -u)" = 0 ] || skip "a filesystem of its own is mounted by root"
fio_here() { fio --ioengine=nbd --uri="$uri" "$@" > "$work/fio.out" 2>&1 || { cat "$work/fio.out"; die "the application saw an error"; }; }
of_replica() { ek 1 volume status $vol --json | jq -re --arg node "$1" ".volume.mirrors[0].replicas[] | select(.node.name == \$node) | $2"; }
is_faulty() { [ "$(of_replica "$1" '"\(.state) \(.cause)"')" = "faulty $2" ]; }

# begin SIZE N DIRECTORY: a volume of two replicas, one in that directory of node N, attached on n1.
begin() {
    for n in 1 2; do prepare_node $n; start_node $n; done
    mkdir -p "$3"
    for n in 1 2; do
        local directory=$work/n$n/disk
        [ $n != "$2" ] || directory=$3
        await "n$n is a member" ek $n disk add "$directory" --name disk
    done
    ek 1 volume create $vol --size "$1" --replicas 2 --quiet
    uri=$(attach $vol nbd)
}

full() {
    truncate -s 200M "$work/image"
    mkfs.ext4 -q -m 0 "$work/image"
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    begin 128M 2 "$work/mnt/disk"
    mkdir "$work/mnt/other"
    # A trim gives back the space that was set aside; then something else takes it.
    fio_here --name=trim --rw=trim --bs=1M --size=128M
    for block in 64k 4k; do dd if=/dev/zero of="$work/mnt/filler$block" bs=$block status=none 2> /dev/null || true; done
    fio_here --name=write --rw=write --bs=64k --iodepth=8 --offset=16M --size=64M
    is_faulty n2 no-space || die "$(of_replica n2 .)"
    for n in 1 2; do
        refused 4 "full room replace space free" ek $n replica re-add $vol n2:disk
        ek $n volume status $vol > "$work/status"
        grep -q "its disk was full: make room on it, then bring it back" "$work/status" || die "n$n does not say what to do: $(< "$work/status")"
    done
    refused 4 "full are free" ek 2 disk add "$work/mnt/other"
    refused 1 "full are free" ek 1 volume create thin$vol --size 32M --replicas 1 --on n2:disk --thin
    rm "$work"/mnt/filler*
    ek 2 replica re-add $vol n2:disk --wait --timeout 1m --quiet
}

# says_why N: node N says why the replica has left; before, that it leaves as soon as the coordinator answers.
says_why() { ek "$1" volume status $vol | grep "its disk reported an error: when the disk is in order, bring it back by"; }

# A file system that was shut down answers everything with an input/output error: a disk that fails, until it is
# mounted anew.
medium() {
    truncate -s 300M "$work/image"
    if [ "$where" = ext4 ]; then mkfs.ext4 -q -m 0 "$work/image"; else mkfs.xfs -q "$work/image"; fi
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    begin 128M 2 "$work/mnt/disk"
    xfs_io -x -c shutdown "$work/mnt" || skip "no file system can be shut down"
    fio_here --name=write --rw=write --bs=64k --iodepth=8 --offset=16M --size=64M
    is_faulty n2 medium || die "$(of_replica n2 .)"
    for n in 1 2; do
        await "n$n says why it has left" says_why $n
        refused 4 "reported an error" ek $n replica re-add $vol n2:disk
        is_faulty n2 medium || die "$(of_replica n2 .)"
    done
    grep -q "a disk reported an error.*Input/output error" "$work/n2/node.log" || die "the log of its node does not say which error"
    await "the file system is let go of" umount "$work/mnt"
    ek 1 disk list > "$work/disks" || true
    grep -q "unmount it, repair it, and mount it again\|No such file or directory" "$work/disks" || die "it is not said what to do: $(< "$work/disks")"
    mount -o loop "$work/image" "$work/mnt"
    await "the disk is opened again" serves
    await "its replica is served" ek 1 replica re-add $vol n2:disk --wait --timeout 1m --quiet
}

# says_read_only VOLUME BEGINS: each node says why the replica of n2 is away.
says_read_only() {
    local n
    for n in 1 2; do
        ek $n volume status "$1" | grep -qF "$2: disk disk of node n2: its file system is read-only" || return 1
    done
}

# An error of its disk makes an ext4 read-only: what is open there can be read, and nothing can be written.
read_only() {
    truncate -s 300M "$work/image"
    mkfs.ext4 -q -m 0 "$work/image"
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    begin 64M 2 "$work/mnt/disk"
    ek 1 volume create last$vol --size 16M --replicas 1 --on n2:disk --quiet
    ek 1 volume create read$vol --size 16M --replicas 1 --on n2:disk --quiet
    local read
    read=$(attach read$vol nbd)
    fail_file_system
    # Nobody has opened it since, so nobody could write to it: it is closed, and each node knows why.
    await "why the last replica is away is said" says_read_only last$vol "it does not answer"
    ek 1 volume status last$vol | grep -qF "no other in-sync replica answers" || die "$(ek 1 volume status last$vol)"
    sleep 7
    fio --ioengine=nbd --uri="$read" --name=read --rw=read --bs=64k --size=16M > "$work/fio.out" 2>&1 || die "what is read stays open: $(< "$work/fio.out")"
    fio_here --name=write --rw=write --bs=64k --iodepth=8 --offset=16M --size=16M
    await "why it failed is said" says_read_only $vol "it failed"
    for n in 1 2; do
        refused 4 "read-only" ek $n replica re-add $vol n2:disk
        disk_list $n | jq -e '.disks[] | select(.node.name == "n2") | .problem | contains("its file system is read-only")' > /dev/null || die "$(ek $n disk list)"
    done
    refused 1 "cannot be used read-only" ek 1 volume create other$vol --size 8M --replicas 1 --on n2:disk
    refused 1 "" ek 1 volume create other$vol --size 8M --replicas 2 --dry-run
    [ "$(grep -c "a disk reported an error" "$work/n2/node.log")" -lt 20 ] || die "the log fills with one error"
    timeout 60 "$evenkeel" --socket "$work/n1/run/api.sock" detach read$vol || true
    mended
    ek 1 replica re-add $vol n2:disk --wait --timeout 1m --quiet

    # The same while the volume is attached nowhere.
    ek 1 detach $vol --quiet
    fail_file_system
    await "it is closed" is_closed
    uri=$(attach $vol nbd)
    await "why it lacks writes is said" says_read_only $vol "it lacks writes"
    refused 4 "read-only" ek 1 replica re-add $vol n2:disk
    mended
    await "it returns by itself" ek 1 volume status $vol --check
}

is_closed() { disk_list 2 | jq -e '.disks[] | select(.node.name == "n2") | .replicas | all(.problem != null)'; }

fail_file_system() {
    mount -o remount,abort "$work/mnt" || skip "no file system can be made to fail"
    ! touch "$work/mnt/disk/file" 2> /dev/null || skip "it can be written to all the same"
}

# mended: the file system is let go of, so it can be unmounted, repaired and mounted again.
mended() {
    await "the file system is let go of" umount "$work/mnt"
    e2fsck -fy "$work/image" > /dev/null 2>&1 || [ $? = 1 ] || die "it cannot be repaired"
    mount -o loop "$work/image" "$work/mnt"
    await "the disk is opened again" serves
}
serves() { [ "$(disk_list 2 | jq -r '.disks[] | select(.node.name == "n2") | .state')" = serving ]; }

# is_gone WHY: each node says within seconds why the replica of n2 is gone when the daemon there ends.
is_gone() {
    local n status
    for n in 1 2; do
        status=$(ek $n volume status $vol --json) || return 1
        [ "$(jq -r '.volume.health' <<< "$status")" = degraded ] || return 1
        jq -e --arg why "$1" '.volume.mirrors[0].replicas[] | select(.node.name == "n2")
            | .reach == "file-gone" and .lost and (.reason | contains($why))' <<< "$status" > /dev/null || return 1
    done
}

# gone WHY PROBLEM: it is told within 45 s, by each node and in each way; PROBLEM is the state of its disk.
gone() {
    local begun=$SECONDS n
    until is_gone "$1"; do
        [ $((SECONDS - begun)) -le 45 ] || die "not told after 45 s: $(ek 1 volume status $vol; ek 2 volume status $vol)"
        sleep 0.2
    done
    say "told by both nodes after $((SECONDS - begun)) s: $(ek 1 volume status $vol | grep -m 1 why)"
    for n in 1 2; do
        refused 6 "degraded" ek $n volume status $vol --check
        refused 4 "$1 replace" ek $n replica re-add $vol n2:disk
    done
    [ "$(ek 2 disk list --json | jq -r '.disks[] | select(.node.name == "n2") | .state')" = "$2" ] || die "$(ek 2 disk list)"
    ek 2 node status | grep -qF "$1" || die "no warning: $(ek 2 node status)"
    curl -fsS --unix-socket "$work/n2/run/api.sock" http://n/metrics | grep 'evenkeel_disk_problem{disk="disk"} 1' > /dev/null || die "the metric does not tell"
    fio_here --name=more --rw=write --bs=64k --size=16M --end_fsync=1
}

deleted() {
    begin 64M 2 "$work/n2/disk"
    fio_here --name=write --rw=write --bs=64k --size=64M --end_fsync=1
    rm "$work"/n2/disk/*.replica
    gone "there is no file at" serving
    # It is as good as before as long as its node runs; it is replaced by one on the same disk.
    mkdir "$work/n2/other"
    ek 2 disk add "$work/n2/other" --name other
    ek 1 replica replace $vol n2:disk n2:other --quiet
    wait_in_sync $vol
    await "all is well again" ek 1 volume status $vol --check
    await "nobody speaks of the file that is gone any more" no_file_gone
}
no_file_gone() { ! { ek 1 disk list; ek 2 node status; } | grep -E "file gone|there is no file at"; }

unmounted() {
    truncate -s 300M "$work/image"
    mkfs.ext4 -q -m 0 "$work/image"
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    begin 64M 2 "$work/mnt/disk"
    fio_here --name=write --rw=write --bs=64k --size=64M --end_fsync=1
    local device
    device=$(findmnt -no SOURCE "$work/mnt")
    umount --lazy "$work/mnt"
    gone "there is no directory at" absent
    mkdir "$work/mnt/disk"
    gone "another directory is at" absent
    refused 1 "another directory is at" ek 1 volume create other$vol --size 16M --replicas 1 --on n2:disk
    [ -z "$(ls -A "$work/mnt/disk")" ] || die "something was made in what is no disk: $(ls -lA "$work/mnt/disk")"
    rmdir "$work/mnt/disk"
    mount "$device" "$work/mnt"
    await "it is as before" ek 1 volume status $vol --check
    ek 1 volume verify $vol --wait --quiet
}

rot() {
    begin 64M 1 "$work/n1/disk"
    fio_here --name=write --rw=write --bs=64k --size=64M --end_fsync=1
    # Reads go to the replica here.
    local file offset
    file=$(echo "$work/n1/disk"/*.replica)
    offset=$("$evenkeel" examine "$file" --json | jq '.replicas[0].replica.data_offset // .replicas[0].replica.data.offset')
    for block in $(seq 0 63); do
        printf 'rotten' | dd of="$file" bs=1 seek=$((offset + block * 524288 + 300)) conv=notrunc status=none
    done
    fio_here --name=read --rw=randread --bs=4k --iodepth=16 --size=64M
    is_faulty n1 medium || die "$(of_replica n1 .)"
    [ "$(grep -a -o rotten "$file" | wc -l)" -gt 0 ] || die "all blocks were read: this shows nothing"
    if [ "$where" = detached ]; then
        ek 1 detach $vol --quiet
        ek 2 replica fail $vol n1:disk
        is_faulty n1 medium || die "why it failed is forgotten: $(of_replica n1 .)"
        ek 2 replica re-add $vol n1:disk
        uri=$(attach $vol nbd)
        wait_in_sync $vol
    else
        ek 2 replica re-add $vol n1:disk --wait --timeout 1m --quiet
    fi
    ek 1 volume verify $vol --wait --quiet || die "it is in-sync, and damaged"
    ! grep -a -q rotten "$file" || die "damage is left"
}

"$what"
ek 1 detach $vol --quiet
compare_replicas $vol
