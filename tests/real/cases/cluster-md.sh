#!/usr/bin/env bash
# The report on cluster-md, section by section and with its numbers: one volume that is attached on three
# nodes at once, each in a network namespace of its own; the coordinator is on a fourth.
# cases/cluster-md.sh [report]       2.1 to 2.10
# cases/cluster-md.sh add [ROUNDS]   2.10 alone, so often, each node in turn giving the commands, under load
# cases/cluster-md.sh stress         3: writers on all nodes at once, one of which is killed
# cases/cluster-md.sh pause HOW N SECONDS   node N is cut off (cut_off) or stands still (freeze); n1 uses the volume, too
# cases/cluster-md.sh pause evicted  a node is cut off for longer than the others wait for it
# cases/cluster-md.sh pause deserted   the same, and the others detach before it is there again
# cases/cluster-md.sh care           a scrub that repairs while all nodes write; reservations, a fenced node
source "$(dirname "$0")/../lib.sh"
what=${1:-report} rounds=${2:-1}
[ "$(id -u)" = 0 ] || skip "network namespaces are made by root"
users="2 3 4" # the nodes that use the volume; n1 has the coordinator and nothing else
[ "$what" != pause ] || users="1 2 3 4"

case "$what ${2:-}" in "pause evicted" | "pause deserted") TIMES=$'deadline_ms = 2000\nlease_ms = 2000' ;; esac
namespaces 4
for n in 1 2 3 4; do prepare_node $n; start_node $n; done
for n in $users; do await "n$n is a member" ek $n disk add "$work/n$n/disk" --name disk; done
say "4 nodes run, each in its own network namespace"

# status N FILTER: what node N says of the volume.
status() { ek "$1" volume status $vol --json | jq -r "$2"; }
uri() { uri_of $vol "$1"; }
# at_each_node COMMAND…: runs it for each node, whose number comes first.
at_each_node() { local n; for n in $users; do "$@" "$n" || return 1; done; }
attach_at() { ek "$1" attach $vol --as nbd --quiet; }
detach_at() { ek "$1" detach $vol --quiet; }
in_sync_at() { [ "$(status "$1" .volume.health)" = in-sync ] && [ "$(status "$1" '.volume.mirrors[0].replicas | length')" = "${copies:-2}" ]; }
attached_on() { status "$1" '[.volume.primaries[].node.name] | sort | join(" ")'; }
all_attached_at() { [ "$(attached_on "$1")" = "$(printf 'n%s ' $users | sed 's/ $//')" ]; }
generation() { status "${1:-2}" .volume.generation; }
# copied N: what the last rebuild copied, by the events of node N.
copied() { status "$1" '[.volume.events[].message | select(test("in-sync again"))] | last'; }
qio() { local n=$1; shift; qemu-io -f raw "$@" "$(uri "$n")" > "$work/qemu-io.out" 2>&1 || { cat "$work/qemu-io.out"; return 1; }; ! grep -q "verification failed" "$work/qemu-io.out"; }
pass() { results+=("$1 PASS $((SECONDS - section)) s"); say "$1: PASS"; section=$SECONDS; }
results=() section=$SECONDS

create() {
    ek 2 volume create $vol --size 128M --replicas 2 --on n2:disk --on n3:disk --bitmap clustered --primaries 3 --quiet
    refused 1 "protocol C" ek 2 volume create other --size 64M --replicas 2 --primaries 2 --protocol A
    [ "$(status 2 '"\(.volume.bitmap) \(.volume.slots)"')" = "clustered 3" ] || die "$(status 2 .volume)"
    pass "2.1 create"
}

assemble() {
    ek 3 volume stop $vol --yes --quiet
    ek 4 volume assemble $vol --quiet
    at_each_node attach_at
    at_each_node await "all nodes see all primaries" all_attached_at
    refused 4 "already" ek 3 attach $vol --as nbd
    pass "2.2 assemble on all nodes"
}

resync_status() {
    local n seen=0
    head -c 96M /dev/urandom > "$work/content"
    truncate -s 128M "$work/content"
    nbdcopy --flush "$work/content" "$(uri 2)"
    ek 2 volume rebuild $vol --limit 24M --quiet
    ek 3 replica fail $vol n3:disk --quiet
    ek 3 replica remove $vol n3:disk --yes --quiet
    ek 3 replica add $vol n3:disk --quiet
    for _ in $(seq 100); do
        for n in $users; do
            status "$n" '.volume.mirrors[0].replicas[] | select(.rebuild) | .rebuild | "\(.done) of \(.total), \(.rate) B/s, ETA \(.eta_seconds) s"' > "$work/progress.$n" || true
        done
        [ -s "$work/progress.2" ] && [ -s "$work/progress.3" ] && [ -s "$work/progress.4" ] && seen=$((seen + 1))
        [ $seen -lt 5 ] || break
        sleep 0.1
    done
    [ $seen -ge 5 ] || die "not every node shows the progress"
    for n in $users; do say "n$n: $(cat "$work/progress.$n")"; done
    ek 2 volume rebuild $vol --resume --quiet
    for n in $users; do await "n$n sees it in-sync" in_sync_at "$n"; done
    say "$(copied 4)"
    for n in $users; do nbdcopy "$(uri $n)" "$work/read"; cmp "$work/content" "$work/read" || die "n$n reads something else"; done
    pass "2.3 status, resync checking"
}

filesystem() {
    detach_at 4
    ek 4 attach $vol --as device --quiet
    local device mounted=$work/mnt
    device=$(status 4 '.volume.primaries[] | select(.here) | .device')
    mkdir -p "$mounted"
    # As a local filesystem it belongs to one node at a time; the volume does not mind where.
    mkfs.ext4 -q -F "$device"
    mount "$device" "$mounted"
    head -c 32M /dev/urandom > "$mounted/file"
    sha256sum < "$mounted/file" > "$work/sum"
    umount "$mounted"
    detach_at 4
    attach_at 4
    nbdcopy "$(uri 3)" "$work/image"
    e2fsck -fn "$work/image" > "$work/fsck" 2>&1 || { cat "$work/fsck"; die "another node reads a broken filesystem"; }
    mount -o loop,ro,noload "$work/image" "$mounted"
    sha256sum < "$mounted/file" | cmp - "$work/sum" || die "the file differs on another node"
    umount "$mounted"
    pass "2.4 make filesystem"
}

read_write() {
    local n at=0
    for n in $users; do
        qio $n -c "write -P $((64 + n)) $((at))k 256k" -c "flush" || die "n$n cannot write"
        at=$((at + 256))
    done
    for n in $users; do
        qio $n -c "read -P 66 0 256k" -c "read -P 67 256k 256k" -c "read -P 68 512k 256k" || die "n$n does not read what the others wrote"
    done
    # Half a block each: nobody's write is lost in another one's.
    qio 2 -c "write -P 1 1M 512" && qio 3 -c "write -P 2 1049088 512" && qio 4 -c "read -P 1 1M 512" -c "read -P 2 1049088 512" || die "halves of one block"
    pass "2.5 read and write on all nodes"
}

nodes_update() {
    local before
    before=$(generation)
    ek 3 volume change $vol --primaries 8 --quiet
    [ "$(status 3 .volume.slots) $(generation 3)" = "8 $((before + 1))" ] || die "$(status 3 '.volume | {slots, generation}')"
    refused 1 "holds slot" ek 4 volume change $vol --primaries 2
    ek 4 volume change $vol --primaries 4 --quiet
    for n in $users; do await "n$n knows it" slots_are 4 "$n"; done
    pass "2.6 nodes update"
}
slots_are() { [ "$(status "$2" .volume.slots)" = "$1" ]; }

cluster_name_update() {
    [ "$(ek 3 node status --json | jq -r .node.cluster)" = real ] || die "$(ek 3 node status --json | jq .node.cluster)"
    ek 3 cluster rename renamed
    for n in 1 $users; do await "n$n knows the new name" is_named renamed "$n"; done
    qio 4 -c "write -P 9 2M 64k" && qio 2 -c "read -P 9 2M 64k" || die "the volume is not served as before"
    # A node that was away meanwhile, and whose configuration has the old name.
    stop_node 4
    ek 2 cluster rename again
    start_node 4
    await "n4 knows the name" is_named again 4
    await "it is attached there again" uri 4
    at_each_node await "all nodes see all primaries" all_attached_at
    pass "2.7 cluster name update"
}
is_named() { [ "$(ek "$2" node status --json | jq -r .node.cluster)" = "$1" ]; }

examine() {
    local n file
    for n in $users; do qio $n -c "write -P $n $((n * 8))M 1M" || die "n$n cannot write"; done
    file=$(echo "$work/n2/disk"/*.replica)
    "$evenkeel" examine "$file" | grep "intent log"
    "$evenkeel" examine "$file" --json > "$work/examined"
    jq -e --argjson slots "$(status 2 .volume.slots)" '.replicas[0].replica.intents.slots | length == $slots' "$work/examined" > /dev/null || die "not every slot is shown"
    jq -e '[.replicas[0].replica.intents.slots[] | select(.holder != null)] | length == 3' "$work/examined" > /dev/null || die "not every holder is shown"
    jq -e '[.replicas[0].replica.intents.slots[] | select(.holder != null and .events > 0 and .cleared != null and (.open | length) > 0)] | length == 3' "$work/examined" > /dev/null || die "$(jq '.replicas[0].replica.intents.slots' "$work/examined")"
    await "what nobody holds is closed" unheld_are_closed "$file"
    pass "2.8 examine every slot"
}

unheld_are_closed() { "$evenkeel" examine "$1" --json | jq -e '[.replicas[0].replica.intents.slots[] | select(.holder == null and (.all_open or (.open | length) > 0))] == []'; }

grow_and_switch() {
    local before kind
    ek 3 volume grow $vol --size 160M --quiet
    for n in $users; do await "n$n is larger" size_is 167772160 "$n"; done
    qio 4 -c "write -P 7 150M 1M" && qio 2 -c "read -P 7 150M 1M" -c "read -P 0 140M 1M" || die "what is new"
    # As md demands, only one node has it while the bitmap is not clustered: the one with the first slot.
    local first=$(status 2 '.volume.primaries[] | select(.slot == 0) | .node.name')
    for n in $users; do [ "n$n" = "$first" ] || detach_at "$n"; done
    local at=${first#n}
    before=$(generation "$at")
    for kind in none clustered internal none internal clustered; do
        local primaries=(); [ $kind != clustered ] || primaries=(--primaries 4)
        # Fewer slots only when nothing is open in those that go.
        await "the bitmap is $kind" ek "$at" volume change $vol --bitmap $kind "${primaries[@]}" --quiet
        before=$((before + 1))
        [ "$(status "$at" '"\(.volume.bitmap) \(.volume.generation)"')" = "$kind $before" ] || die "wanted $kind $before: $(status "$at" '"\(.volume.bitmap) \(.volume.generation)"')"
        qio "$at" -c "write -P 3 4M 64k" -c "flush" || die "not written with a bitmap of $kind"
    done
    for n in $users; do [ "n$n" = "$first" ] || attach_at "$n"; done
    at_each_node await "all nodes see all primaries" all_attached_at
    pass "2.9 grow and switch the bitmap"
}
size_is() { [ "$(status "$2" .volume.size)" = "$1" ]; }

# load: a writer that verifies on each node, each on a third of the first 96 MiB.
load() {
    local n
    for n in $users; do
        fio --name="load$n" --ioengine=nbd --uri="$(uri $n)" --rw=randrw --bs=4k --iodepth=4 --size=32M --offset=$(((n - ${users%% *}) * 32))M \
            --verify=crc32c --verify_backlog=256 --verify_fatal=1 --rate_iops="${1:-400}" --time_based --runtime=3600 --eta=never \
            > "$work/fio.$n" 2>&1 &
        loads+=($!); helpers+=($!)
    done
}
loads=()
# ended PID…: whether none of these processes runs any more, waited for or not.
ended() {
    local pid
    for pid in "$@"; do case $(ps -o stat= -p "$pid") in "" | Z*) ;; *) return 1 ;; esac; done
}
end_load() {
    local pid
    [ ${#loads[@]} -gt 0 ] || return 0 # they have ended before
    for pid in "${loads[@]}"; do kill -0 "$pid" 2> /dev/null || { cat "$work"/fio.*; die "a writer has failed"; }; done
    kill -INT "${loads[@]}"
    await "the writers end" ended "${loads[@]}"
    for pid in "${loads[@]}"; do wait "$pid" || true; done
    ! grep -hE "verify: bad|err=|error=" "$work"/fio.* | grep -v "err= 0" || die "a writer has failed"
    loads=()
}

# add_and_re_add N: a failed device leaves for good and is added, and fails and is re-added, with all nodes
# assembled; node N gives the commands.
add_and_re_add() {
    local by=$1 n
    ek "$by" replica fail $vol n3:disk --quiet || die "n$by: fail"
    ek "$by" replica remove $vol n3:disk --yes --quiet || die "n$by: remove"
    ek "$by" replica add $vol n3:disk --quiet || die "n$by: add"
    for n in $users; do await "n$n sees it in-sync" in_sync_at "$n"; done
    say "added by n$by: $(copied "$by")"
    ek "$by" replica fail $vol n3:disk --quiet || die "n$by: fail"
    sleep 0.3
    ek "$by" replica re-add $vol n3:disk --quiet || die "n$by: re-add"
    for n in $users; do await "n$n sees it in-sync" in_sync_at "$n"; done
    say "re-added by n$by: $(copied "$by")"
}

add() {
    local round by
    load
    for round in $(seq "$1"); do
        by=$((2 + round % 3))
        add_and_re_add $by
        at_each_node all_attached_at || die "somebody is not attached any more"
    done
    end_load
    pass "2.10 add and re-add, $1 times, all nodes assembled, under load"
}

stress() {
    local n before after
    load 2000
    sleep 10
    # One of them dies in the midst of it; the others go on, and what it left open is resynced.
    kill -KILL "${pids[4]}"; wait "${pids[4]}" 2> /dev/null || true; unset "pids[4]"
    before=$(date +%s%N)
    await "n4 is a primary no more" buried
    after=$(date +%s%N)
    await "its slot is replayed" in_sync_at 2
    say "a dead primary was taken out after $(((after - before) / 1000000)) ms, and its slot replayed after $((($(date +%s%N) - before) / 1000000)) ms; $(copied 2)"
    # Its writer has lost its server; fio may wait for that for ever, and asked politely, too.
    pkill -KILL --parent "${loads[2]}" || true
    kill -KILL "${loads[2]}" 2> /dev/null || true; wait "${loads[2]}" 2> /dev/null || true; unset 'loads[2]'
    say "its writer is gone"
    rm -f "$work/fio.4"
    start_node 4
    say "n4 runs again"
    await "it is attached again" uri 4
    at_each_node await "all nodes see all primaries" all_attached_at
    sleep 5
    end_load
    pass "3 stress on all nodes, one of them killed"
}
buried() { [ "$(attached_on 2)" = "n2 n3" ]; }

# scrub: a block that one replica's disk has changed is found and repaired while all nodes write.
scrub() {
    local by file offset told
    qio 2 -c "write -P 85 100M 4M" -c "flush"
    file=$(echo "$work/n3/disk"/*.replica)
    offset=$("$evenkeel" examine "$file" --json | jq '.replicas[0].replica.data_offset // .replicas[0].replica.data.offset')
    load 2000
    for by in $users; do
        printf 'rot' | dd of="$file" bs=1 seek=$((offset + (100 + by) * 1048576 - 1048576)) conv=notrunc status=none
        ek "$by" volume verify $vol --repair --wait --json > "$work/verified" || { cat "$work/verified"; die "n$by: verify"; }
        told=$(status "$by" '.volume.verify | "\(.state) \(.damaged) \(.different) \(.repaired) \(.checked == .total)"')
        [ "$told" = "done 4096 0 4096 true" ] || die "n$by: $told"
    done
    at_each_node all_attached_at || die "somebody is not attached any more"
    end_load
    ek 2 volume verify $vol --wait > "$work/verified" || { cat "$work/verified"; die "not all is repaired"; }
    qio 4 -c "read -P 85 100M 4M" || die "not what was written"
    pass "scrub while all nodes write"
}

may_write() { qio "$1" -c "write -P $1 1M 64k" > "$work/may"; }
fenced() { ! may_write "$1" && grep -q "Operation not permitted" "$work/may"; }

reservations() {
    local n
    for n in 2 3; do ek $n reservation register $vol --key $n --quiet; done
    ek 2 reservation reserve $vol --key 2 --quiet
    may_write 2 && may_write 3 || die "who is registered cannot write"
    fenced 4 || die "who is not registered writes"
    qio 4 -c "read -P 3 1M 64k" || die "it cannot read"
    refused 4 "another host has reserved" ek 4 reservation reserve $vol --key 4
    # n3 is fenced by n2, as a cluster's resource manager does it; also when the command is given elsewhere.
    ek 4 reservation preempt $vol --host n2 --key 2 --victim 3 --quiet
    fenced 3 || die "who was preempted writes"
    refused 4 "another host has reserved" ek 3 reservation release $vol --key 3
    may_write 2 || die "who has preempted cannot write"
    ek 3 reservation show $vol
    ek 2 reservation register $vol --key 2 --persistent yes --quiet
    at_each_node detach_at
    attach_at 4
    await "it is served" uri 4
    fenced 4 || die "a persistent reservation is gone"
    ek 4 reservation drop $vol --yes --quiet
    may_write 4 || die "dropped, and yet refused"
    ek 4 reservation register $vol --key 4 --persistent no --quiet
    ek 4 reservation reserve $vol --key 4 --quiet
    detach_at 4
    at_each_node attach_at
    at_each_node await "all nodes see all primaries" all_attached_at
    may_write 3 || die "a reservation that is not persistent is still there"
    pass "reservations, valid on every node"
}

# cut_off N SECONDS, freeze N SECONDS: the node is there again afterwards.
cut_off() { ip -n "$netns" link set "port$1" down; sleep "$2"; ip -n "$netns" link set "port$1" up; }
freeze() { kill -STOP "${pids[$1]}"; sleep "$2"; kill -CONT "${pids[$1]}"; }

# evicted: a node is cut off for so long that the others go on without it; it comes back by itself, with its export.
evicted() {
    local uri n
    uri=$(uri 4)
    evict_n4
    ip -n "$netns" link set port4 up
    for n in $users; do await "n$n: all nodes see all primaries" all_attached_at "$n"; done
    grep -q "was evicted: no replica had answered it" "$work"/n[123]/node.log || die "the others do not say whom they evicted, and why"
    grep -q "evicted: the other nodes .*; it attaches again by itself" "$work/n4/node.log" || die "it does not say why, and what it does"
    await "its export is back" uri 4
    [ "$(uri 4)" = "$uri" ] || die "the export was $uri and is $(uri 4)"
    qio 4 -c "write -P 7 96M 64k" -c "read -P 7 96M 64k" || die "it does not serve"
    for n in $users; do await "n$n: in-sync" in_sync_at "$n"; done
    pass "pause: evicted, and back"
}
others_only() { [ "$(attached_on 2)" = "n1 n2 n3" ]; }
evict_n4() {
    kill "${loads[3]}"; wait "${loads[3]}" 2> /dev/null || true; unset 'loads[3]'; rm -f "$work/fio.4"
    ip -n "$netns" link set port4 down
    await "n4 is evicted" others_only
}

# deserted: all who went on without the evicted node have ended when it is there again; it attaches the volume all the same.
deserted() {
    local uri n
    uri=$(uri 4)
    evict_n4
    end_load
    for n in 1 2; do detach_at $n; done
    stop_node 3 # restarted cleanly
    ip -n "$netns" link set port4 up
    await "n4 alone has it" alone
    await "its export is back" uri 4
    [ "$(uri 4)" = "$uri" ] || die "the export was $uri and is $(uri 4)"
    qio 4 -c "write -P 7 96M 64k" -c "read -P 7 96M 64k" || die "it does not serve"
    start_node 3
    for n in 1 2; do attach_at $n; done
    for n in $users; do await "n$n: all nodes see all primaries" all_attached_at "$n"; done
    for n in $users; do await "n$n: in-sync" in_sync_at "$n"; done
    pass "pause: deserted, and back"
}
alone() { [ "$(attached_on 4)" = n4 ]; }

# pause HOW N SECONDS: nobody loses the volume by it, and no writer sees an error.
pause() {
    local n
    "$@"
    for n in $users; do await "n$n: all nodes see all primaries" all_attached_at "$n"; done
    for n in $users; do await "n$n: in-sync" in_sync_at "$n"; done
    ! grep -hE "volume $vol is not attached here any more" "$work"/n*/node.log || die "$*: a primary has ended"
    pass "pause: $*"
}

case $what in
pause)
    copies=3
    ek 2 volume create $vol --size 128M --replicas 3 --on n1:disk --on n2:disk --on n3:disk --primaries 4 --quiet
    at_each_node attach_at
    load 200
    sleep 1
    if [ $# = 2 ]; then "$2"; else pause "${@:2}"; fi
    end_load
    ;;
report)
    for part in ${MD_SECTIONS:-create assemble resync_status filesystem read_write nodes_update cluster_name_update examine grow_and_switch add}; do $part 1; done
    ;;
add) create; at_each_node attach_at; add "$rounds" ;;
stress) create; at_each_node attach_at; stress ;;
care) create; at_each_node attach_at; scrub; reservations ;;
*) die "there is no $what" ;;
esac
at_each_node detach_at
compare_replicas $vol
printf '%s\n' "${results[@]}"
