#!/usr/bin/env bash
# Members and shape of a volume that change under load:
# cases/members.sh add|replace|move|spare|protocol|fewer|grow|story|retire|rename [killed|primary]
# fio writes and verifies through NBD meanwhile; with `killed`, a node is killed in the midst of it; with
# `primary`, it is the one on which the volume is attached, and the coordinator's too.
# story: a bad disk is found, named, failed and replaced, as in a report of md's.
# retire: a node is drained, removed, and refused when it returns. rename: at the end, when it is detached.
source "$(dirname "$0")/../lib.sh"
what=$1 killed=${2:-}
start_nodes 4

# state NODE: what the volume says of the replica there; nothing if it has none.
state() { ek 1 volume status $vol --json | jq -r --arg node "$1" '.volume.mirrors[0].replicas[] | select(.node.name == $node) | .state'; }
is() { [ "$(state "$1")" = "$2" ]; }
count() { ek 1 volume status $vol --json | jq '.volume.mirrors[0].replicas | length'; }
# no_replica N: node N has no file of a replica.
no_replica() { [ -z "$(ls "$work/n$1/disk")" ]; }

ek 1 volume create $vol --size 192M --replicas 2 --on n1:disk --on n2:disk --quiet
uri=$(attach $vol nbd)
# Random content that no load touches, so that a copy has something to copy.
head -c 64M /dev/urandom > "$work/known"
truncate -s 192M "$work/known.image"
dd if="$work/known" of="$work/known.image" conv=notrunc status=none
nbdcopy --flush "$work/known.image" "$uri"

# Writes, reads back and compares for as long as the case needs.
fio --name=load --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=16 --offset=64M --size=128M \
    --verify=crc32c --verify_backlog=512 --verify_fatal=1 --rate_iops=3000 --time_based --runtime=600 \
    --eta=never > "$work/fio.out" 2>&1 &
fio=$!
helpers+=($fio)
sleep 1
# hit N: kills node N a moment after now, if the case is to have that, and starts it again later.
hit() {
    local node=$1
    case $killed in killed) ;; primary) node=1 ;; *) return 0 ;; esac
    sleep 0.3; kill_node "$node"
    sleep 2; start_node "$node"
    [ "$killed" = killed ] || await "it is attached again" uri_of $vol
}
protocol() { ek 1 volume status $vol --json | jq -r .volume.protocol; }

case $what in
add)
    # From a node that does not run the volume; it may die as soon as it has given the command.
    ek 2 replica add $vol n3:disk --quiet
    hit 3
    wait_in_sync $vol
    is n3 in-sync || die "n3 is $(state n3)"
    ek 3 replica add $vol n3:disk | grep -q "there is a replica on n3:disk already" || die "the second add does not say so"
    [ "$(count)" = 3 ] || die "$(count) replicas"
    ek 4 replica add $vol --wait --quiet
    is n4 in-sync || die "it was not added where there is room: n4 is $(state n4)"
    refused 1 "every node" ek 1 replica add $vol
    refused 1 "another replica" ek 1 replica replace $vol n2 n3:disk
    ;;
replace)
    ek 4 replica replace $vol n2 n3:disk --quiet
    ek 4 replica replace $vol n2 n3:disk | grep -q "is to replace it already\|has replaced it" || die "the second replace does not say so"
    hit 3
    wait_in_sync $vol
    [ "$(count)" = 2 ] || die "$(count) replicas"
    is n3 in-sync || die "n3 is $(state n3)"
    await "the old replica's space is given back" no_replica 2
    ek 4 replica replace $vol n2 n3:disk | grep -q "has replaced it\|has no replica on n2" || die "the third replace does not say so"
    ;;
move)
    refused 3 "there is no node n9" ek 4 replica move $vol n2 --to n9
    refused 3 "no such replica" ek 4 replica move $vol n9 --to n1
    refused 3 "no such replica" ek 4 replica replace $vol ffff n1:disk
    ek 4 replica move $vol n2 --to n3 --quiet
    ek 3 replica move $vol n2 --to n3 | grep -q "is to replace it already\|has replaced it" || die "the second move does not say so"
    [ "$(state n2)" != "" ] || is n3 in-sync || die "the old replica went before the new one was in-sync"
    hit 3
    wait_in_sync $vol
    [ "$(count)" = 2 ] || die "$(count) replicas"
    is n3 in-sync || die "n3 is $(state n3)"
    await "the old replica's space is given back" no_replica 2
    ek 4 replica move $vol n2 --to n3 | grep -q "has replaced it\|has no replica on n2" || die "the third move does not say so"
    ;;
spare)
    ek 3 replica add $vol n4:disk --spare --quiet
    is n4 spare || die "n4 is $(state n4)"
    refused 0 "" ek 1 volume status $vol --check
    ek 1 replica fail $vol n2 --quiet
    hit 4
    await "the spare stands in" is n4 in-sync
    is n2 faulty || die "n2 is $(state n2)"
    ek 1 replica re-add $vol n2 --wait --quiet
    is n4 spare || die "the spare is no spare again: $(state n4)"
    ek 1 replica remove $vol n4 --yes --quiet # it does not hold what the others do
    ;;
protocol)
    for p in A B C; do
        ek 3 volume change $vol --protocol $p --quiet
        [ "$(protocol)" = $p ] || die "protocol $(protocol)"
        ek 3 volume change $vol --protocol $p | grep -q "it was so already" || die "the second change does not say so"
        sleep 1
    done
    hit 2
    wait_in_sync $vol
    ;;
fewer)
    ek 3 volume change $vol --replicas 4 --quiet
    hit 4
    wait_in_sync $vol
    [ "$(count)" = 4 ] || die "$(count) replicas"
    refused 4 "removed for good" ek 2 volume change $vol --replicas 1
    ek 2 replica fail $vol n1 --quiet
    ek 2 volume change $vol --replicas 3 --yes --quiet
    [ -z "$(state n1)" ] || die "not the failed one was removed first: $(state n1)"
    ek 2 volume change $vol --replicas 1 --yes --quiet
    [ "$(count)" = 1 ] || die "$(count) replicas"
    ek 2 volume change $vol --replicas 2 --wait --quiet
    ;;
grow)
    ek 3 replica add $vol n3:disk --spare --quiet
    refused 4 "lost" ek 3 volume grow $vol --size 100M
    grow=$(ek 3 volume grow $vol --size 320M) || { hit 2; wait_in_sync $vol; grow=$(ek 3 volume grow $vol --size 320M); }
    grep -q "when they connect again" <<< "$grow" || die "it does not say when clients see it: $grow"
    ek 1 volume grow $vol --size 320M | grep -q "it was so already" || die "the second grow does not say so"
    hit 2
    wait_in_sync $vol
    [ "$(nbdinfo --size "$uri")" = $((320 << 20)) ] || die "a new client sees $(nbdinfo --size "$uri") bytes"
    # What is new reads as zeroes, also where bitmaps were; then it is used.
    nbdcopy "$uri" "$work/grown"
    cmp --ignore-initial=$((192 << 20)) --bytes=$((128 << 20)) "$work/grown" /dev/zero || die "what is new does not read as zeroes"
    rm "$work/grown"
    fio --name=new --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=16 --offset=192M --size=128M --io_size=16M \
        --verify=crc32c --verify_fatal=1 > "$work/new.out" 2>&1 || { cat "$work/new.out"; die "fio in what is new"; }
    # The bitmaps lie elsewhere now: a replica that returns gets only what it lacks.
    kill_node 2; sleep 1; start_node 2; wait_in_sync $vol
    refused 1 "room" ek 1 volume grow $vol --size 100T
    ek 1 replica fail $vol n2 --quiet
    await "the spare stands in with its room" is n3 in-sync
    refused 1 "not all of its replicas" ek 1 volume grow $vol --size 384M
    ek 1 replica re-add $vol n2 --wait --quiet
    ek 1 volume grow $vol --size 384M --quiet
    ek 1 replica remove $vol n3 --yes --quiet
    ;;
story)
    # The disk of n2 goes bad: it gives errors for what it is asked.
    file=$(ls "$work"/n2/disk/*.replica)
    say "found: $(ek 1 disk list | grep -c n2) disk(s) of n2, the replica is $(basename "$file")"
    ek 1 replica fail $vol n2:disk --quiet
    refused 6 "" ek 1 volume status $vol --check
    ek 1 volume status $vol | grep -q "an operator failed it" || die "the status does not name what failed"
    refused 4 "--yes" ek 1 replica remove $vol n2
    ek 1 replica replace $vol n2:disk n3:disk --quiet
    hit 3
    wait_in_sync $vol
    [ -z "$(state n2)" ] || die "n2 is still in the volume"
    await "the bad disk holds nothing any more" no_replica 2
    # Its file is gone before its disk has forgotten it.
    await "the bad disk can be taken away" ek 2 disk remove disk --quiet
    ek 1 replica remove $vol n2:disk --yes --quiet
    ;;
retire)
    refused 4 "alive move n2:disk --to" ek 3 node remove n2 --yes
    ek 3 replica move $vol n2 --to n3 --dry-run > "$work/plan"
    grep -q "n3:disk" "$work/plan" && grep -q "would be removed for good" "$work/plan" || die "the plan of the move: $(cat "$work/plan")"
    is n2 in-sync || die "a dry run has done something: n2 is $(state n2)"
    ek 3 replica move $vol n2 --to n3 --quiet
    hit 3
    wait_in_sync $vol
    [ -z "$(state n2)" ] && is n3 in-sync || die "it was not moved: n2 $(state n2), n3 $(state n3)"
    refused 4 "--yes no replica is lost" ek 3 node remove n2
    ek 3 node remove n2 --dry-run | grep -q "node n2 would be removed" || die "the dry run does not say what would be done"
    ek 3 node remove n2 --yes --quiet
    ek 3 node remove n2 --yes | grep -q "was removed from the cluster on" || die "the second removal does not say so"
    [ "$(ek 1 node status --json | jq '[.nodes[] | select(.name == "n2")] | length')" = 0 ] || die "n2 is still a node"
    await "n2 holds no replica" no_replica 2
    # Its identity is refused while it runs, and when it returns.
    is_refused() { ek 2 node status | grep -q "was removed from the cluster on"; }
    await "n2 says that it was removed" is_refused
    refused 1 "was removed" ek 2 attach $vol
    stop_node 2
    start_node 2
    await "n2 is refused again" is_refused
    refused 1 "was removed" ek 2 replica add $vol n2:disk
    stop_node 2
    [ "$(ek 1 node status --json | jq '[.nodes[] | select(.name == "n2")] | length')" = 0 ] || die "n2 is a node again"
    ;;
rename)
    ek 3 volume create other --size 4M --replicas 1 --quiet
    refused 4 "attached n1 detach" ek 3 volume rename $vol $vol-new
    hit 1
    ;;
esac
if [ "$killed" = primary ]; then
    # It has lost its server, as it must. Its engine may then ask a dead connection for ever, and fill the disk with
    # what it says of that, whatever it is told.
    pkill -KILL -P $fio || true
    kill -KILL $fio 2> /dev/null || true
    wait $fio || true
else
    kill -0 $fio 2> /dev/null || { cat "$work/fio.out"; die "fio saw an error"; }
    kill -INT $fio; wait $fio || true # interrupted, it ends with a code of its own
    grep -q "err= 0" "$work/fio.out" || { cat "$work/fio.out"; die "fio saw an error"; }
fi
say "fio: $(grep -E 'write: IOPS' "$work/fio.out" || true)"
nbdcopy "$uri" "$work/back"
cmp --bytes=$((64 << 20)) "$work/known" "$work/back" || die "data is lost"
ek 1 detach $vol --quiet
compare_replicas $vol
[ "$what" = rename ] || exit 0
new=$vol-new
refused 1 "another volume other" ek 3 volume rename $vol other
refused 1 "name" ek 3 volume rename $vol bad/name
ek 3 volume rename $vol $new | grep -q "volume $vol is volume $new now" || die "the rename does not say what was done"
ek 2 volume rename $new $new | grep -q "it was so already" || die "the second rename does not say so"
refused 3 "no volume $vol" ek 1 volume status $vol
ek 4 replica add $new n4:disk --quiet
kill_node 1; start_node 1
uri=$(attach $new nbd)
grep -q "$new" <<< "$uri" || die "the export has another name: $uri"
wait_in_sync $new
nbdcopy "$uri" "$work/renamed"
cmp --bytes=$((64 << 20)) "$work/known" "$work/renamed" || die "data is lost by the rename"
kill_node 1; start_node 1
await "it is attached again by its new name" uri_of $new
ek 1 detach $new --quiet
# A superblock keeps the name that the volume had when the replica was made; the coordinator's counts.
"$evenkeel" examine "$work/n2/disk" | grep -q "$vol" || die "examine does not show the volume"
ek 2 volume stop $new --quiet
ek 3 volume assemble $new --quiet
refused 3 "found" ek 3 volume assemble $vol
ek 3 volume delete $new --dry-run | grep -q "volume $new would be deleted" || die "the plan has another name"
ek 3 volume delete $new --yes --quiet
ek 3 volume create $vol --size 4M --replicas 1 --quiet
