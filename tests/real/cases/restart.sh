#!/usr/bin/env bash
# Restarts: cases/restart.sh clean|replica|primary|stale_clone
# clean: nothing is lost; replica: its node is killed under load; primary: the node where the
# volume is attached is killed under load, and the volume attached again; stale_clone: only a replica whose
# disk was put back as it was before answers, then the others too.
source "$(dirname "$0")/../lib.sh"
how=$1
start_nodes 3
ek 1 volume create $vol --size 256M --replicas 3 --quiet
uri=$(attach $vol nbd)
head -c 32M /dev/urandom > "$work/known"
truncate -s 256M "$work/known.image"
dd if="$work/known" of="$work/known.image" conv=notrunc status=none
nbdcopy --flush "$work/known.image" "$uri"

load() { fio --name=load --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=16 --offset=64M --size=128M --time_based --runtime="$1" "${@:2}" > "$work/fio.out" 2>&1; }

nodes_answer() { [ "$(ek 1 node status --json | jq '[.nodes[] | select(.alive)] | length')" = 3 ]; }

case $how in
clean)
    ek 1 detach $vol --quiet
    for n in 3 2 1; do stop_node $n; done
    for n in 1 2 3; do start_node $n; done
    await "all nodes are known to be there" ek 1 volume status $vol --check
    ;;
replica)
    load 8 & fio=$!
    sleep 2; kill_node 2
    sleep 2; start_node 2
    wait $fio || { cat "$work/fio.out"; die "fio saw an error"; }
    wait_in_sync $vol
    ;;
primary)
    load 30 & fio=$!
    sleep 2; kill_node 1
    wait $fio || say "fio lost its server, as it must"
    start_node 1
    ;;
stale_clone)
    ek 1 detach $vol --quiet
    stop_node 1
    cp -a "$work/n1/disk" "$work/before"
    start_node 1
    uri=$(attach $vol nbd)
    load 2
    ek 1 detach $vol --quiet
    for n in 3 2 1; do stop_node $n; done
    rm -r "$work/n1/disk"
    mv "$work/before" "$work/n1/disk"
    start_node 1
    refused 4 "stale clone assemble --force" ek 1 attach $vol --as nbd
    [ "$(ek 1 volume status $vol --json | jq -r .volume.state)" = detached ] || die "it is attached: $(ek 1 volume status $vol)"
    for n in 2 3; do start_node $n; done
    await "all nodes are there" nodes_answer
    ek 1 attach $vol --as nbd
    ;;
esac
# The restarted node attaches it again by itself, now or in a moment; then a command to do so is refused.
attached_again() { uri_of $vol || ek 1 attach $vol --as nbd; }
await "attached again" attached_again
uri=$(uri_of $vol)
wait_in_sync $vol
nbdcopy "$uri" "$work/back"
cmp --bytes=$((32 << 20)) "$work/known" "$work/back" || die "data is lost"
say "the data is all there"
ek 1 detach $vol --quiet
compare_replicas $vol
