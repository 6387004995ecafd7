#!/usr/bin/env bash
# What a replica's disk says of itself: while its node serves it, after the node was killed, and with
# one copy of the superblock damaged.   cases/examine.sh
source "$(dirname "$0")/../lib.sh"
# What is written is settled soon, and noted in the bitmaps then.
TIMES="stabilize_after_ms = 200"
start_nodes 3
ek 1 volume create $vol --size 64M --replicas 3 --quiet
uri=$(attach $vol nbd)
qemu-io -f raw "$uri" -c 'write -P 0x77 0 8M' -c flush > /dev/null
settled() { "$evenkeel" examine --json "$work"/n{1,2,3}/disk | jq -e 'all(.replicas[]; .replica.intents.slots[0].bytes == 0)'; }
await "what was written is settled" settled
file=$(ek 3 disk list --json | jq -re '[.disks[] | select(.node.name == "n3") | .replicas[].path][0]')
look() { "$evenkeel" examine --json "$@"; }

# A node that serves it is not disturbed, and nothing is written.
before=$(stat -c %Y "$file")
look "$file" > "$work/serving"
jq -e --argjson pid "${pids[3]}" '.replicas[0] | .verdict == "whole" and .used_by == $pid and (.replica.view.primaries | length) == 1' "$work/serving" > /dev/null \
    || { cat "$work/serving"; die "a served replica is not told as it is"; }
[ "$(stat -c %Y "$file")" = "$before" ] || die "examining changed the file"
ek 1 volume status $vol --check --quiet || die "examining cost a replica"
look --scan --config "$work/n3/evenkeel.toml" | jq -e '.replicas | length == 1' > /dev/null || die "--scan does not find the disk"

# Its node is killed; what it lacks is in the bitmaps of the others.
kill_node 3
ek 1 volume status $vol --wait degraded --timeout 1m --quiet || die "n3's replica does not leave"
qemu-io -f raw "$uri" -c 'write -P 0x78 1M 40k' -c flush > /dev/null
await "what was written is settled again" settled
ek 1 detach $vol --quiet
look --scan --config "$work/n3/evenkeel.toml" | jq -e '.replicas[0] | .verdict == "whole" and .used_by == null' > /dev/null || die "a replica of a dead node cannot be examined"
file1=$(disk_list 1 | jq -re '[.disks[] | select(.node.name == "n1") | .replicas[].path][0]')
id3=$(look "$file" | jq -re '.replicas[0].replica.id')
look "$file1" > "$work/first"
jq -e --arg id "$id3" '.replicas[0].replica | ([.bitmaps[] | select(.counts and .replica == $id) | .blocks] | add) == 10 and (.view.mirrors[0][] | select(.id == $id) | .state) == "stale"' "$work/first" > /dev/null \
    || { cat "$work/first"; die "the blocks that n3 lacks are not told"; }
say "n1's replica says that n3's lacks 10 blocks"

# One copy of the superblock is damaged.
cp --sparse=always "$file" "$work/copy.replica"
printf '\xff\xff\xff' | dd of="$work/copy.replica" bs=1 seek=$((524288 + 700)) conv=notrunc status=none
status=0; "$evenkeel" examine "$work/copy.replica" > "$work/told" || status=$?
[ $status = 6 ] || { cat "$work/told"; die "code $status instead of 6 for one damaged copy"; }
grep -q 'copy B is bad, and copy A is good' "$work/told" || { cat "$work/told"; die "the damaged copy is not named"; }
say "$(sed -n 2p "$work/told")"
printf '\xff\xff\xff' | dd of="$work/copy.replica" bs=1 seek=700 conv=notrunc status=none
status=0; "$evenkeel" examine "$work/copy.replica" > "$work/told" || status=$?
[ $status = 1 ] || { cat "$work/told"; die "code $status instead of 1 for two damaged copies"; }
status=0; "$evenkeel" examine "$work/n1/evenkeel.toml" "$work/nothing" > "$work/told" || status=$?
[ $status = 3 ] || { cat "$work/told"; die "code $status instead of 3 for what is no replica"; }
cat "$work/told"
start_node 3
