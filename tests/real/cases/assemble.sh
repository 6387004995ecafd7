#!/usr/bin/env bash
# Volumes from the disks alone: cases/assemble.sh stop|stop_device|moved|grown|lost|behind|behind_made|behind_deleted|lost_attached|killed|forced|split|split_stripe|split_nodes
# stop: stopped, closed over a restart, assembled. moved: old disks in a new machine, whole and not.
# lost: the coordinator's database is gone. behind: it was restored from an old backup,
# behind_made: made while the replica was made that is now the only one; behind_deleted: while the volume was deleted. forced: only a stale replica is left.
# killed: the node that assembles is killed in the midst of it, at several moments.
# split: two halves that diverged, shown and resolved;
# split_nodes: the same on two nodes, whose coordinator knows neither side.
source "$(dirname "$0")/../lib.sh"
how=$1
# What is written is settled soon: then a replica that was away gets only what it lacks.
TIMES="stabilize_after_ms = 200"
list_state() { ek "$1" volume list --json | jq -r --arg v $vol '.volumes[] | select(.name == $v) | .state'; }
replica_of() { echo "$work/$1"/*.replica; }
examined() { "$evenkeel" examine --json "$@" || true; }
# io VOLUME NODE COMMAND…: qemu-io on an attached volume.
io() {
    local n=$1 out; shift
    out=$(qemu-io -f raw "$(uri_of $vol "$n")" "$@" -c flush 2>&1)
    ! grep -qiE 'failed|error' <<< "$out" || die "$* : $out"
}
# alone N: a machine that is a cluster of its own.
alone() { prepare_node "$1"; sed -i 's/^join.*/here = true/' "$work/n$1/evenkeel.toml"; rmdir "$work/n$1/disk"; start_node "$1"; }
in_sync_on() { ek "$1" volume status $vol --wait in-sync --timeout 2m --quiet; }

stop() {
    start_nodes 3
    ek 1 volume create $vol --size 64M --replicas 3 --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 8M'
    if [ "$(id -u)" = 0 ] && ek 1 attach $vol --as device --quiet 2> /dev/null; then
        exec 7< "$(device_of $vol)"
        refused 4 "" ek 1 volume stop $vol --yes
        exec 7<&-
        ek 1 volume status $vol --check --quiet || die "a refused stop left something undone"
    fi
    ek 2 volume stop $vol --yes
    ek 2 volume stop $vol --yes | grep -q already || die "a second stop does not say that it is stopped"
    [ "$(list_state 3)" = stopped ] || die "volume list does not show it as stopped"
    for n in 1 2 3; do
        examined "$work/n$n/disk" | jq -e '.replicas[0].used_by == null' > /dev/null || die "n$n keeps its replica open"
    done
    refused 1 "stopped assemble" ek 1 attach $vol
    for n in 3 2 1; do stop_node $n; done
    for n in 1 2 3; do start_node $n; done
    examined "$work/n2/disk" | jq -e '.replicas[0].used_by == null' > /dev/null || die "a restart opened it again"
    [ "$(list_state 2)" = stopped ] || die "a restart forgot that it is stopped"
    ek 3 volume assemble $vol
    ek 3 volume assemble $vol | grep -q already || die "a second assemble does not say that nothing was to be done"
    await "it can be attached" ek 1 attach $vol --as nbd
    io 1 -c 'read -P 0x77 0 8M'
    ek 1 volume status $vol --check --quiet || die "a replica was lost by the stop"
    ek 1 detach $vol --quiet
    compare_replicas $vol
    ek 1 volume stop $vol --yes --quiet
    ek 1 volume delete $vol --yes
    [ "$(find "$work"/n?/disk -name '*.replica' | wc -l)" = 0 ] || die "replicas of a deleted volume are left"
}

stop_device() {
    local loop
    start_nodes 2
    truncate -s 100M "$work/n1/image"
    loop=$(losetup --find --show "$work/n1/image") || skip "no loop device can be made"
    ek 1 disk add "$loop" --name loop --quiet
    ek 1 volume create $vol --size 64M --replicas 2 --on n1:loop --on n2:disk --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 8M'
    ek 1 volume stop $vol --yes
    # The kernel lets somebody else have it for himself.
    python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)' "$loop" || die "the device is still held"
    ek 1 disk list | grep -q stopped || die "disk list does not say why it is not used"
    stop_node 1; start_node 1
    python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)' "$loop" || die "the device is held after a restart"
    ek 1 volume assemble $vol
    ! python3 -c 'import os, sys; os.open(sys.argv[1], os.O_RDWR | os.O_EXCL)' "$loop" 2> /dev/null || die "the device is not held"
    await "it can be attached" ek 1 attach $vol --as nbd
    io 1 -c 'read -P 0x77 0 8M'
    ek 1 volume status $vol --check --quiet || die "a replica was lost by the stop"
    ek 1 detach $vol --quiet
    ek 1 volume stop $vol --yes --quiet
    ek 1 volume delete $vol --yes
    [ -b "$loop" ] || die "the device's file is gone"
    "$evenkeel" examine "$loop" > "$work/told" && die "a replica is left on the device"
    say "$(head -n 2 "$work/told" | tail -n 1)"
}

moved() {
    start_nodes 3
    ek 1 volume create $vol --size 64M --replicas 3 --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 8M'
    # Not detached: as after a power cut. The primary's node first, or it would drop the others.
    for n in 1 2 3; do kill_node $n; done
    alone 4
    for n in 1 2 3; do mv "$work/n$n/disk" "$work/n4/d$n"; done
    refused 3 "" ek 4 volume assemble $vol
    # With two of three in-sync replicas it is refused, and says who is missing and how old the rest is.
    refused 4 "n4/d1 n4/d2 generation in-sync saved" ek 4 volume assemble $vol "$work/n4/d1" "$work/n4/d2"
    ek 4 disk list --json | jq -e '.disks == []' > /dev/null || die "a refused assembly took disks"
    ek 4 volume assemble --scan "$work/n4/d1" "$work/n4/d2" "$work/n4/d3"
    ek 4 volume assemble --scan | grep -q already || die "a second assembly is not told as such"
    ek 4 attach $vol --as nbd --quiet
    io 4 -c 'read -P 0x77 0 8M' -c 'write -P 0x78 8M 1M'
    in_sync_on 4
    examined "$work/n4/d1" | jq -e '.replicas[0].replica.view.epochs | length == 1' > /dev/null || die "the epochs do not tell of the assembly"
    ek 4 detach $vol --quiet
    compare_on 4
    stop_node 4
    # Only one of them, by force: what was missing returns and is copied as a whole.
    alone 5
    mv "$work/n4/d2" "$work/n5/d2"
    refused 4 "force" ek 5 volume assemble $vol "$work/n5/d2"
    refused 4 "in-sync newer" ek 5 volume assemble $vol --dry-run "$work/n5/d2"
    ek 5 volume assemble $vol --force --dry-run "$work/n5/d2"
    ek 5 volume assemble $vol --force --dry-run "$work/n5/d2" --json | jq -e '.volumes[0] | (.keeps | length) == 1 and [.discards[].loses] == [null, null]' > /dev/null \
        || die "the plan does not tell what is lost"
    ek 5 volume list --json | jq -e '.volumes == []' > /dev/null || die "a dry run assembled"
    ek 5 volume assemble $vol --force "$work/n5/d2"
    ek 5 attach $vol --as nbd --quiet
    io 5 -c 'read -P 0x78 8M 1M' -c 'write -P 0x79 9M 1M'
    refused 6 "" ek 5 volume status $vol --check
    ek 5 detach $vol --quiet
    mv "$work/n4/d1" "$work/n4/d3" "$work/n5/"
    ek 5 volume assemble $vol "$work/n5/d1" "$work/n5/d3"
    ek 5 attach $vol --as nbd --quiet
    in_sync_on 5
    io 5 -c 'read -P 0x79 9M 1M' -c 'read -P 0x77 0 8M'
    ek 5 detach $vol --quiet
    compare_on 5
}

# compare_on N: the replicas of each mirror of the volume on one node are identical.
compare_on() {
    local mirror path size
    local -A first=()
    while read -r mirror path; do
        [ -n "${first[$mirror]:-}" ] || { first[$mirror]=$path; continue; }
        size=$(od -An -t u8 -j 136 -N 8 "$path" | tr -d ' ')
        cmp --ignore-initial=1048576 --bytes="$size" "${first[$mirror]}" "$path" || die "replicas differ: ${first[$mirror]} $path"
    done < <(disk_list "$1" | jq -r --arg v $vol '.disks[].replicas[] | select(.volume == $v) | "\(.mirror) \(.path)"')
    [ ${#first[@]} -gt 0 ] || die "no replica found on n$1"
    say "the replicas on n$1 are identical on disk"
}

# A volume that was grown, on disks in a new machine.
grown() {
    start_nodes 3
    ek 1 volume create $vol --size 64M --replicas 3 --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 8M'
    ek 1 detach $vol --quiet
    ek 1 volume grow $vol --size 128M --quiet
    ek 1 attach $vol --as nbd --quiet
    io 1 -c 'write -P 0x78 100M 8M'
    ek 1 detach $vol --quiet
    for n in 1 2 3; do stop_node $n; done
    alone 4
    ek 4 volume assemble --scan "$work/n1/disk" "$work/n2/disk" "$work/n3/disk"
    ek 4 attach $vol --as nbd --quiet
    io 4 -c 'read -P 0x77 0 8M' -c 'read -P 0x78 100M 8M' -c 'write -P 0x79 120M 4M'
    ek 4 volume status $vol --check --quiet || die "a replica was lost by the move"
    ek 4 detach $vol --quiet
    compare_on 4
}

lost() {
    start_nodes 3
    ek 1 volume create $vol --size 256M --replicas 3 --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 64M'
    settled() { "$evenkeel" examine --json "$work"/n?/disk | jq -e '[.replicas[].replica.intents.slots[].bytes] | add == 0'; }
    await "what was written is settled" settled
    kill_node 3
    ek 1 volume status $vol --wait degraded --timeout 1m --quiet || die "n3's replica does not leave"
    io 1 -c 'write -P 0x78 0 1M'
    ek 1 detach $vol --quiet
    stop_node 1
    say "the coordinator's database is lost"
    rm "$work/n1/state/coordinator.redb"
    start_node 1
    await "n2 is a member again" bash -c "[ \$('$evenkeel' --socket '$work/n1/run/api.sock' node status --json | jq '[.nodes[] | select(.alive)] | length') = 2 ]"
    ek 1 volume list --json | jq -e '.volumes == []' > /dev/null || die "the volume is known"
    ek 1 volume assemble $vol
    ek 1 attach $vol --as nbd --quiet
    io 1 -c 'read -P 0x78 0 1M' -c 'read -P 0x77 1M 63M'
    # The stale replica comes late, is recognised, and gets only what it lacks.
    start_node 3
    in_sync_on 1
    local copied
    copied=$(curl -s --unix-socket "$work/n3/run/api.sock" http://x/metrics | awk '/^evenkeel_replica_written_bytes_total|^evenkeel_disk_written_bytes_total/ {sum += $2} END {printf "%d", sum}')
    say "written on n3 since its start: $copied bytes, of 1 MiB that it lacked and 256 MiB in all"
    [ "$copied" -ge 1048576 ] && [ "$copied" -le 4194304 ] || die "not only what it lacked was copied"
    io 1 -c 'read -P 0x78 0 1M' -c 'read -P 0x77 1M 63M'
    ek 1 detach $vol --quiet
    compare_replicas $vol
}

behind() {
    start_nodes 3
    ek 1 volume create $vol --size 64M --replicas 3 --quiet
    stop_node 1
    cp "$work/n1/state/coordinator.redb" "$work/backup"
    start_node 1
    for value in 1 2; do
        await "it can be attached" ek 1 attach $vol --as nbd
        in_sync_on 1
        io 1 -c "write -P $value 0 8M"
        ek 1 detach $vol --quiet
    done
    stop_node 1
    say "the coordinator's database is restored from an old backup"
    cp "$work/backup" "$work/n1/state/coordinator.redb"
    start_node 1
    await "all are members again" bash -c "[ \$('$evenkeel' --socket '$work/n1/run/api.sock' node status --json | jq '[.nodes[] | select(.alive)] | length') = 3 ]"
    refused 1 "backup assemble" ek 1 attach $vol --as nbd
    ek 1 volume assemble $vol
    ek 1 attach $vol --as nbd --quiet
    in_sync_on 1
    io 1 -c 'read -P 2 0 8M'
    ek 1 detach $vol --quiet
    compare_replicas $vol
}

# put_back: the coordinator's database is the backup again, and each replica that is left is kept.
put_back() {
    for n in 3 2 1; do stop_node $n; done
    say "the coordinator's database is restored from an old backup"
    cp "$work/backup" "$work/n1/state/coordinator.redb"
    for n in 1 2 3; do start_node $n; done
    await "a replica is kept, and that is said" grep -h "replica.*is kept: the coordinator does not know it" "$work"/n?/node.log
}

behind_made() {
    [ "$(id -u)" = 0 ] || skip "a filesystem of its own is mounted by root"
    truncate -s 300M "$work/image"
    mkfs.ext4 -q -m 0 "$work/image"
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    start_nodes 3
    mkdir "$work/mnt/slow"
    ek 3 disk add "$work/mnt/slow" --name slow
    ek 1 volume create $vol --size 64M --replicas 1 --on n2:disk --quiet
    # Nothing is made on it meanwhile.
    fsfreeze --freeze "$work/mnt" || skip "no file system can be frozen"
    local adding
    ek 2 replica add $vol n3:slow --quiet & adding=$!
    await "the coordinator notes that it is made" grep -qa '"maker":{' "$work/n1/state/coordinator.redb"
    kill -STOP "${pids[1]}"
    cp "$work/n1/state/coordinator.redb" "$work/backup"
    kill -CONT "${pids[1]}"
    fsfreeze --unfreeze "$work/mnt"
    wait $adding || die "no replica was added"
    ek 2 attach $vol --as nbd --quiet
    in_sync_on 2
    ek 2 replica fail $vol n2:disk --quiet
    ek 2 replica remove $vol n2:disk --yes --quiet
    io 2 -c 'write -P 9 0 8M'
    ek 2 detach $vol --quiet
    put_back
    ek 1 volume assemble $vol
    ek 3 attach $vol --as nbd --quiet
    io 3 -c 'read -P 9 0 8M'
    ek 3 detach $vol --quiet
}

behind_deleted() {
    start_nodes 3
    ek 1 volume create $vol --size 64M --replicas 2 --on n2:disk --on n3:disk --quiet
    stop_node 3
    ek 1 volume delete $vol --yes
    mkdir "$work/back"
    mv "$work"/n3/disk/*.replica "$work/back/"
    start_node 3
    kill -STOP "${pids[1]}"
    cp "$work/n1/state/coordinator.redb" "$work/backup"
    kill -CONT "${pids[1]}"
    ek 2 volume assemble $vol "$work/back" --force
    ek 2 attach $vol --as nbd --quiet
    io 2 -c 'write -P 9 0 8M'
    ek 2 detach $vol --quiet
    put_back
    ek 2 volume assemble $vol
    ek 2 attach $vol --as nbd --quiet
    io 2 -c 'read -P 9 0 8M'
    ek 2 detach $vol --quiet
}

lost_attached() {
    start_nodes 3
    ek 1 volume create $vol --size 64M --replicas 2 --on n2:disk --on n3:disk --quiet
    ek 2 attach $vol --as nbd --quiet
    io 2 -c 'write -P 0x77 0 8M'
    stop_node 1
    rm "$work/n1/state/coordinator.redb"
    start_node 1
    await "all are members again" bash -c "[ \$('$evenkeel' --socket '$work/n1/run/api.sock' node status --json | jq '[.nodes[] | select(.alive)] | length') = 3 ]"
    # It goes on where it is attached, and is not put together under it.
    refused 4 "attached n2" ek 1 volume assemble $vol
    refused 4 "attached n2" ek 3 volume assemble $vol --force
    ek 2 detach $vol || say "it was detached uncleanly"
    ek 3 volume assemble $vol
    ek 1 attach $vol --as nbd --quiet
    in_sync_on 1
    io 1 -c 'read -P 0x77 0 8M'
    ek 1 detach $vol --quiet
    compare_replicas $vol
}

killed() {
    start_nodes 3
    ek 1 volume create $vol --size 64M --replicas 3 --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 8M'
    for n in 3 2 1; do kill_node $n; done
    alone 4
    for n in 1 2 3; do mv "$work/n$n/disk" "$work/n4/d$n"; done
    local delay assembling status round=0
    for delay in 0.005 0.02 0.04 0.06 0.08 0.1 0.15 0.2; do
        round=$((round + 1)) status=0
        ek 4 volume assemble --scan "$work"/n4/d? > "$work/answer" 2>&1 & assembling=$!
        sleep $delay
        kill_node 4 > /dev/null
        wait $assembling || status=$?
        start_node 4
        say "killed after $delay s: code $status; again: $(ek 4 volume assemble --scan "$work"/n4/d?)"
        await "it can be attached" ek 4 attach $vol --as nbd
        [ $round = 1 ] || io 4 -c "read -P $((round - 1)) 8M 1M"
        io 4 -c 'read -P 0x77 0 8M' -c "write -P $round 8M 1M"
        in_sync_on 4
        # Killed again before it detaches, and everything but the disks is lost.
        kill_node 4 > /dev/null
        rm -r "$work/n4/state"
        start_node 4
    done
    ek 4 volume assemble --scan "$work"/n4/d?
    ek 4 attach $vol --as nbd --quiet
    in_sync_on 4
    io 4 -c 'read -P 0x77 0 8M' -c "read -P $round 8M 1M"
    ek 4 detach $vol --quiet
    compare_on 4
    examined "$work/n4/d1" | jq -e '.replicas[0].replica.view.epochs | length == 8' > /dev/null || die "there are more than eight epochs"
}

forced() {
    start_nodes 3
    ek 1 volume create $vol --size 64M --replicas 2 --on n2:disk --on n3:disk --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 8M'
    kill_node 3
    ek 1 volume status $vol --wait degraded --timeout 1m --quiet || die "n3's replica does not leave"
    io 1 -c 'write -P 0x78 0 1M'
    ek 1 detach $vol --quiet
    stop_node 2
    start_node 3
    await "n3 is a member" bash -c "[ \$('$evenkeel' --socket '$work/n1/run/api.sock' node status --json | jq '[.nodes[] | select(.alive)] | length') -ge 2 ]"
    refused 1 "in-sync" ek 1 attach $vol --as nbd
    ek 1 volume assemble $vol --force
    ek 1 attach $vol --as nbd --quiet
    io 1 -c 'read -P 0x77 0 8M'
    say "the only in-sync replica returns: it has what was lost, and is not overwritten"
    start_node 2
    tells_of_split_brain() { ek 1 volume status $vol | grep 'split brain'; }
    sleep 3
    examined "$work/n2/disk" > "$work/told"
    file=$(replica_of n2/disk)
    dd if="$file" bs=1M skip=1 count=1 status=none | tr -d '\170' | wc -c | grep -qx 0 || die "what only n2 had was overwritten"
    await "the status tells of a split brain" tells_of_split_brain
    ek 1 detach $vol --quiet
    refused 4 "split diverged" ek 1 volume assemble $vol
    ek 1 volume assemble $vol --keep n2:disk --save-differing "$work/lost.img"
    ek 1 attach $vol --as nbd --quiet
    in_sync_on 1
    io 1 -c 'read -P 0x78 0 1M' -c 'read -P 0x77 1M 7M'
    ek 1 detach $vol --quiet
    compare_replicas $vol
}

split() {
    start_nodes 2
    ek 1 volume create $vol --size 64M --replicas 2 --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 8M'
    ek 1 detach $vol --quiet
    stop_node 2; stop_node 1
    alone 3; alone 4
    mv "$work/n1/disk" "$work/n3/left"
    mv "$work/n2/disk" "$work/n4/right"
    say "each half is run alone, and written"
    ek 3 volume assemble $vol --force "$work/n3/left"
    ek 3 attach $vol --as nbd --quiet
    io 3 -c 'write -P 0x0a 1M 40k'
    ek 3 detach $vol --quiet
    sleep 1.2 # superblocks tell the time in seconds
    ek 4 volume assemble $vol --force "$work/n4/right"
    ek 4 attach $vol --as nbd --quiet
    io 4 -c 'write -P 0x0b 1044k 60k' -c 'write -P 0x0c 5M 8k'
    ek 4 detach $vol --quiet
    stop_node 4
    mv "$work/n4/right" "$work/n3/right"

    say "both together: md says [UU]"
    refused 4 "split diverged" ek 3 volume assemble $vol "$work/n3/right"
    ek 3 volume assemble $vol "$work/n3/right" || true
    ek 3 volume assemble $vol "$work/n3/right" --json > "$work/told" || true
    # 40K and 60K that overlap by 20K, and 8K: 88K in two ranges.
    jq -e '.volumes[0] | .outcome == "refused" and .error.code == "split-brain" and (.split.branches | length) == 2
        and .split.differences[0].bytes == 90112 and .split.differences[0].blocks == 22 and .split.differences[0].complete
        and [.split.differences[0].ranges[] | [.offset, .length]] == [[1048576, 81920], [5242880, 8192]]' "$work/told" > /dev/null \
        || { jq . "$work/told"; die "the branches are not told as they differ"; }
    jq -e '.volumes[0].split.branches[0].replicas[0].place | contains("right")' "$work/told" > /dev/null || die "the branch that was written last is not the newest"
    ek 3 volume status $vol --json | jq -e '.volume.mirrors[0].summary == "[U_]" or .volume.mirrors[0].summary == "[_U]"' > /dev/null || die "two halves are taken for one"

    say "even with its disk on the node it is not let in"
    ek 3 disk add "$work/n3/right" --name right --quiet
    ek 3 attach $vol --as nbd --quiet
    sleep 2
    io 3 -c 'read -P 0x0a 1M 40k'
    refused 6 "" ek 3 volume status $vol --check
    ek 3 volume status $vol
    ek 3 detach $vol --quiet

    say "what keeping the left branch would discard"
    refused 4 "split diverged" ek 3 volume assemble $vol --dry-run
    refused 3 "nobody" ek 3 volume assemble $vol --keep nobody --dry-run
    touch "$work/there"
    refused 1 "there exists" ek 3 volume assemble $vol --keep n3:left --save-differing "$work/there" --dry-run
    ek 3 volume assemble $vol --keep n3:left --dry-run
    ek 3 volume assemble $vol --keep n3:left --dry-run --json > "$work/told"
    jq -e '.volumes[0] | .outcome == "assembled" and [.keeps[].place] == ["n3:left"] and [.discards[] | [.place, .loses]] == [["n3:right", 90112]]' "$work/told" > /dev/null \
        || { jq . "$work/told"; die "the plan does not tell what is discarded"; }
    refused 4 "split diverged" ek 3 volume assemble $vol

    say "the left branch is kept"
    refused 3 "nobody" ek 3 volume assemble $vol --keep nobody
    ek 3 volume assemble $vol --keep n3:left --save-differing "$work/lost.img"
    ek 3 volume assemble $vol | grep -q already || die "it is not resolved"
    [ "$(stat -c %s "$work/lost.img")" = $((64 << 20)) ] || die "the saved file has another length"
    [ "$(stat -c %b "$work/lost.img")" -lt 2000 ] || die "the saved file is not sparse"
    grep -v '^#' "$work/lost.img.list" > "$work/ranges"
    printf '1048576 81920\n5242880 8192\n' | cmp - "$work/ranges" || { cat "$work/ranges"; die "the list of what was saved is wrong"; }
    qemu-io -r -f raw "$work/lost.img" -c 'read -P 0x0b 1044k 60k' -c 'read -P 0x0c 5M 8k' > "$work/io"
    ! grep -qiE 'failed|error' "$work/io" || { cat "$work/io"; die "what was overwritten is not in the saved file"; }
    ek 3 attach $vol --as nbd --quiet
    in_sync_on 3
    io 3 -c 'read -P 0x0a 1M 40k' -c 'read -P 0x77 1064k 40k' -c 'read -P 0x77 5M 8k'
    ek 3 detach $vol --quiet
    compare_on 3
    "$evenkeel" examine "$work/n3/right"
}

# A stripe of two mirrors: each branch has a replica of either mirror.
split_stripe() {
    start_nodes 2
    mkdir "$work/n1/more" "$work/n2/more"
    for n in 1 2; do ek $n disk add "$work/n$n/more" --name more --quiet; done
    ek 1 volume create $vol --size 64M --replicas 2 --stripe 2 --on n1:disk --on n2:disk --on n1:more --on n2:more --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 8M'
    ek 1 detach $vol --quiet
    stop_node 2; stop_node 1
    alone 3; alone 4
    for n in 3 4; do
        ek $n volume assemble $vol --force "$work/n$((n - 2))/disk" "$work/n$((n - 2))/more"
        ek $n attach $vol --as nbd --quiet
        io $n -c "write -P $n 1M 256k"
        ek $n detach $vol --quiet
        sleep 1.2
    done
    stop_node 4
    ek 3 volume assemble $vol "$work/n2/disk" "$work/n2/more" --json > "$work/told" || true
    jq -e '.volumes[0].split | .differences[0].bytes == 262144 and [.differences[0].ranges[] | [.mirror, .length]] == [[0, 131072], [1, 131072]]
        and ([.branches[].replicas[].mirror] | sort) == [0, 0, 1, 1]' "$work/told" > /dev/null || { jq . "$work/told"; die "a stripe's branches are not told as they differ"; }
    # Half of a branch is enough to be recognised, and not to be kept.
    refused 4 "split diverged" ek 3 volume assemble $vol "$work/n2/disk"
    refused 4 "in-sync newer" ek 3 volume assemble $vol "$work/n2/disk" --keep "$work/n2/disk/$(basename "$work"/n2/disk/*.replica)"
    ek 3 volume assemble $vol "$work/n2/disk" "$work/n2/more" --keep n3:disk --dry-run --json > "$work/told"
    jq -e '.volumes[0] | [.discards[] | [.mirror, .loses]] | sort == [[0, 131072], [1, 131072]]' "$work/told" > /dev/null || { jq . "$work/told"; die "a stripe's plan is wrong"; }
    ek 3 volume assemble $vol "$work/n2/disk" "$work/n2/more" --keep n3:disk --save-differing "$work/lost.img"
    [ "$(ls "$work"/lost.img.*.list | wc -l)" = 2 ] || die "not a file for each mirror"
    ek 3 attach $vol --as nbd --quiet
    in_sync_on 3
    io 3 -c 'read -P 3 1M 256k' -c 'read -P 0x77 2M 6M'
    ek 3 detach $vol --quiet
    compare_on 3
}

split_nodes() {
    start_nodes 2
    ek 1 volume create $vol --size 64M --replicas 2 --quiet
    attach $vol nbd > /dev/null
    io 1 -c 'write -P 0x77 0 8M'
    ek 1 detach $vol --quiet
    stop_node 2; stop_node 1
    for n in 3 4; do
        alone $n
        mv "$work/n$((n - 2))/disk" "$work/n$n/disk"
        ek $n volume assemble $vol --force "$work/n$n/disk"
        ek $n attach $vol --as nbd --quiet
        io $n -c "write -P $n 1M 40k"
        ek $n detach $vol --quiet
        stop_node $n
        mv "$work/n$n/disk" "$work/n$((n - 2))/disk"
    done
    start_node 1; start_node 2
    await "n2 is a member" bash -c "[ \$('$evenkeel' --socket '$work/n1/run/api.sock' node status --json | jq '[.nodes[] | select(.alive)] | length') = 2 ]"
    ek 1 volume assemble $vol --json > "$work/told" || true
    jq -e '.volumes[0] | .error.code == "split-brain" and .split.differences[0].bytes == 40960' "$work/told" > /dev/null \
        || { jq . "$work/told"; die "the branches are not told as they differ"; }
    refused 1 "" ek 1 attach $vol --as nbd
    # The other node's side is kept; this one's blocks are saved, and read from there.
    ek 1 volume assemble $vol --keep n2:disk --save-differing "$work/lost.img"
    qemu-io -r -f raw "$work/lost.img" -c 'read -P 3 1M 40k' > "$work/io"
    ! grep -qiE 'failed|error' "$work/io" || { cat "$work/io"; die "what was overwritten is not in the saved file"; }
    # It was resolved, so nothing is refused any more; a file that is there is not overwritten.
    ek 2 volume assemble $vol | grep -q already || die "it is not resolved"
    ek 1 attach $vol --as nbd --quiet
    in_sync_on 1
    io 1 -c 'read -P 4 1M 40k' -c 'read -P 0x77 2M 6M'
    ek 1 detach $vol --quiet
    compare_replicas $vol
}

"$how"
