#!/usr/bin/env bash
# Slots of the intent log: the next primary of a shared volume takes one apart from that of a dead one, which closes.
source "$(dirname "$0")/../lib.sh"
start_nodes 3

status() { ek 1 volume status $vol --json | jq -r "$1"; }
examined() { "$evenkeel" examine "$(echo "$work/n3/disk"/*.replica)" --json | jq -r "$1"; }
slot() { examined ".replicas[0].replica.intents.slots[] | select(.slot == $1) | $2"; }
is_closed() { [ "$(slot "$1" '"\(.all_open) \(.open | length)"')" = "false 0" ]; }

ek 1 volume create $vol --size 256M --replicas 3 --primaries 2 --quiet
ek 2 attach $vol --as nbd --quiet
uri=$(uri_of $vol 2)
fio --name=load --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=16 --size=128M --time_based --runtime=60 > "$work/fio.out" 2>&1 &
fio=$!
sleep 2
[ "$(status '.volume.primaries[0].slot')" = 0 ] || die "the first primary holds slot $(status '.volume.primaries[0].slot')"
refused 2 "a number from 1 to 32" ek 1 volume change $vol --primaries 33
before=$(status .volume.generation)
ek 3 volume change $vol --primaries 4 --quiet
ek 3 volume change $vol --primaries 4 | grep -q "it was so already" || die "the second change does not say so"
[ "$(status .volume.slots) $(status .volume.generation)" = "4 $((before + 1))" ] || die "$(status '.volume | {slots, generation}')"
is_open() { ! is_closed 0; }
await "the primary has something open" is_open
kill_node 2
wait $fio || say "fio lost its server, as it must"
is_closed 0 && die "the dead primary left nothing open"
say "slot 0 holds $(slot 0 '.open | length') open regions of a dead primary"

await "no replica hears of n2" ek 1 attach $vol --as nbd
[ "$(status '.volume.primaries[0].slot')" = 1 ] || die "the next primary holds slot $(status '.volume.primaries[0].slot')"
refused 1 "holds slot 1" ek 1 volume change $vol --primaries 1
start_node 2
# Its daemon attaches again what it had: beside the one that has taken over.
attached() { [ "$(status '[.volume.primaries[].node.name] | sort | join(" ")')" = "$1" ]; }
await "it is attached on both" attached "n1 n2"
wait_in_sync $vol
await "the dead primary's slot closes" is_closed 0
[ "$(slot 1 .holder)" != null ] || die "examine does not say who holds slot 1"
ek 1 detach $vol --node n2 --quiet
ek 1 detach $vol --quiet
ek 1 volume change $vol --primaries 1 --quiet
[ "$(status .volume.slots)" = 1 ] || die "there are $(status .volume.slots) slots"
uri=$(attach $vol nbd)
[ "$(status '.volume.primaries[0].slot')" = 0 ] || die "slot $(status '.volume.primaries[0].slot')"
ek 1 detach $vol --quiet
compare_replicas $vol
