#!/usr/bin/env bash
# A machine's state directory is copied, both run, and one of the two is cut off from the coordinator alone: it
# reaches the replicas. Nobody reads what was there before, one of them at most writes, and both are told.
# cases/clone.sh first|copy
# first   the machine that was copied is cut off; its copy starts, is admitted after the silence, and wants the volume
# copy    the copy is cut off from its start
source "$(dirname "$0")/../lib.sh"
what=${1:-first}
[ "$(id -u)" = 0 ] || skip "network namespaces are made by root"
# n1 has the coordinator, n2 uses the volume, n3 and n4 have its replicas; n5 is the copy of n2.
namespaces 5
for n in 1 2 3 4; do
    prepare_node $n
    # The section that the configuration ends with is the coordinator's.
    [ $n != 1 ] || echo "expiry_seconds = 3" >> "$work/n1/evenkeel.toml"
    printf '[times]\nlease_ms = 2000\nlease_margin_ms = 200\ndeadline_ms = 1000\n' >> "$work/n$n/evenkeel.toml"
    start_node $n
done
for n in 3 4; do await "n$n is a member" ek $n disk add "$work/n$n/disk" --name disk; done
await "n2 is a member" ek 2 volume list
ek 3 volume create $vol --size 64M --replicas 2 --quiet
ek 2 attach $vol --as nbd --quiet
old=$(uri_of $vol 2) new=

# io URI COMMAND…: of an NBD client; ends with an error if nothing comes back in time. `patience`: seconds of it, few where no
# answer is expected.
io() {
    timeout "${patience:-40}" qemu-io -f raw "$@" > "$work/io" 2>&1 && ! grep -qiE "failed|error" "$work/io"
}
# reads URI PATTERN: whether a client that is answered finds it there.
reads() { io -r "$1" -c "read -P $2 0 64k" && grep -q "^read 65536/65536" "$work/io"; }
# sever N M, rejoin N M: nothing reaches n$2 from n$1, nor the other way, but all else goes on.
sever() { ip -n "$netns-$1" route add blackhole "10.77.0.$2/32"; ip -n "$netns-$2" route add blackhole "10.77.0.$1/32"; }
rejoin() { ip -n "$netns-$1" route del blackhole "10.77.0.$2/32"; ip -n "$netns-$2" route del blackhole "10.77.0.$1/32"; }
copy() {
    mkdir -p "$work/n5"
    cp -a "$work/n2/state" "$work/n5/state"
    new=${old/"$work/n2/"/"$work/n5/"}
    sed "s|$work/n2/|$work/n5/|; s|10\\.77\\.0\\.2:|10.77.0.5:|" "$work/n2/evenkeel.toml" > "$work/n5/evenkeel.toml"
}
warns() { { ek "$1" node status --json || [ $? = 5 ]; } | jq -e --arg words "$2" '.node.warnings | tostring | contains($words)' > /dev/null; }
serves() { [ "$(ek "$1" node status --json | jq -c .node.attached)" = "[\"$vol\"]" ]; }
another="another machine runs with this node's identity"

# for_a_while COMMAND…: it holds, looked at again and again.
for_a_while() { local _; for _ in 1 2 3 4 5 6; do "$@" || die "not so: $*"; sleep 0.5; done; }
# n2 goes on as if nothing were: what it writes it reads, with a number that was never there.
n2_goes_on() {
    number=$((number + 1))
    io "$old" -c "write -P $number 0 64k" -c "flush" || { cat "$work/io"; die "n2 cannot write"; }
    reads "$old" $number || { cat "$work/io"; die "n2 reads something else"; }
}
number=16
# What a volume is while it is being attached is said of n5 itself.
copy_serves_nothing() {
    ek 5 volume status $vol --json > "$work/status" || true
    ! jq -e '.volume | .state == "serving" and any(.primaries[]; .here)' "$work/status" > /dev/null || die "both serve the volume: $(< "$work/status")"
    ! patience=3 io -r "$new" -c "read 0 64k" || die "the copy answers a reader"
}

first() {
    copy
    n2_goes_on
    sever 1 2
    start_node 5
    await "the copy speaks for the node" admitted
    say "the copy was admitted after the silence of the first"
    for_a_while n2_goes_on
    for_a_while copy_serves_nothing
    refused 7 "earlier daemon replicas go on answering" ek 5 attach $vol --as nbd
    await "the copy says why it waits" says_why
    n2_goes_on
    rejoin 1 2
    await "n2 is told, and ends" ended 2
    wait "${pids[2]}" 2> /dev/null || true
    unset 'pids[2]'
    grep -q "a later start of this node was admitted, at 10.77.0.5" "$work/n2/node.log" || die "n2 does not say why it ends"
    await "the copy is told" warns 5 "$another"
    await "the copy exports the volume as soon as it may" uri_of $vol 5
    ! patience=3 reads "$old" $((number - 1)) && ! patience=3 reads "$old" $number || die "n2 answers still"
    [ "$(uri_of $vol 5)" = "$new" ] || die "it is exported elsewhere than was looked"
    reads "$new" $number || { cat "$work/io"; die "the copy reads something else than n2 wrote last"; }
}
admitted() { { ek 5 node status --json || [ $? = 5 ]; } | jq -e '.node | .coordinator.reachable and (.warnings | tostring | contains("predecessor") | not)' > /dev/null; }
says_why() { ek 5 volume status $vol --json | jq -re .volume.reason | grep -q "wanted on node n2.*earlier daemon"; }
ended() { ! kill -0 "${pids[$1]}" 2> /dev/null; }

copy_is_cut_off() {
    n2_goes_on
    copy
    sever 1 5
    start_node 5
    for_a_while n2_goes_on
    copy_serves_nothing
    refused 5 "coordinator does not answer" ek 5 attach $vol --as nbd
    rejoin 1 5
    await "the copy is told" warns 5 "$another"
    await "n2 is told" warns 2 "$another"
    for_a_while n2_goes_on
    copy_serves_nothing
    serves 2 || die "n2 has lost the volume"
}

case $what in
first) first; last=5 ;;
copy) copy_is_cut_off; last=2 ;;
*) die "there is no case $what" ;;
esac
wait_in_sync $vol
ek $last detach $vol --quiet
compare_replicas $vol
