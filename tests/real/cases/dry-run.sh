#!/usr/bin/env bash
# --dry-run of every command that takes something away: it changes nothing, and names what would go, or is refused as
# unsafe (4) with the reason.
source "$(dirname "$0")/../lib.sh"
namespaces 3
start_nodes 3
ek 1 volume create $vol --size 16M --replicas 3 --quiet
ek 1 volume create other$vol --size 16M --replicas 1 --on n2:disk --quiet
ek 1 volume create off$vol --size 16M --replicas 2 --on n1:disk --on n2:disk --quiet
ek 2 attach $vol --as nbd --quiet
wait_in_sync $vol
ek 1 reservation register $vol --key 1 --quiet
ek 1 reservation register $vol --key 2 --host n3 --quiet

# everything: all that may be lost, without what time changes.
everything() {
    local volume
    for volume in $vol other$vol off$vol; do
        ek 1 volume status $volume --json | jq -cS '.volume | {name, size, generation, protocol, reservation,
            primaries: [.primaries[].node.name], mirrors: [.mirrors[].replicas[] | {id, node: .node.name, disk, state, role}]}'
    done
    ek 1 disk list --json | jq -cS '[.disks[] | {name, path, node: .node.name, replicas: [.replicas[] | [.id, .path]]}]'
    ek 1 node status --json | jq -cS '[.nodes[].name]'
    ls -A "$work"/n*/disk "$work/new"
}

# dry CODE WORDS ARGS…: with --dry-run it ends so, tells all these words (a blank in one is written `_`), and changes nothing.
dry() {
    local code=$1 words=$2 before after output status=0 word; shift 2
    before=$(everything)
    output=$(ek 1 "$@" --dry-run 2>&1) || status=$?
    [ $status = "$code" ] || die "expected exit code $code, got $status: $*: $output"
    for word in $words; do grep -qF -- "${word//_/ }" <<< "$output" || die "'${word//_/ }' is missing in $*: $output"; done
    # It names nothing by what nobody knows it by.
    ! grep -qE '[0-9a-f]{8}-[0-9a-f]{4}-' <<< "$output" || die "an identity: $output"
    after=$(everything)
    [ "$before" = "$after" ] || die "$* --dry-run has changed something: $(diff <(echo "$before") <(echo "$after"))"
    say "code $code: $* --dry-run -> $(head -n 1 <<< "$output")"
}

mkdir "$work/new"
touch "$work/new/precious"
dry 4 "it_is_attached_on_node_n2" volume delete $vol
dry 0 "would_be_removed_for_good other$vol n2 disk in-sync" volume delete other$vol
dry 0 "would_be_removed_for_good would_leave n2:disk" volume change $vol --replicas 1
dry 0 "would_be_taken_out_of_use n3 would_leave n1:disk n2:disk" replica fail $vol n3
dry 4 "last" replica fail other$vol n2
dry 4 "is_in-sync" replica remove $vol n3
dry 0 "would_be_made_on_n3:disk the_old_one_is_removed n2" replica replace other$vol n2 n3
dry 0 "would_be_made_on_n3:disk n2" replica move other$vol n2 --to n3
dry 4 "it_holds_2_replica(s)" disk remove disk
dry 0 "would_be_added nothing_in_it_is_deleted" disk add "$work/new" --name new
dry 4 "volumes_use_it $vol other$vol" node remove n2
dry 4 "coordinator" node remove n1
dry 0 "would_be_unregistered n1 n3" reservation drop $vol
ek 3 replica fail $vol n3 --quiet
dry 0 "would_be_removed_for_good n3" replica remove $vol n3
ek 1 volume stop off$vol --quiet
dry 0 "off$vol" volume assemble off$vol

# n2 goes on serving, and n3 hears it: only the coordinator does not.
ek 2 attach other$vol --as nbd --quiet
ip -n "$netns-1" route add blackhole 10.77.0.2/32
alive() { [ "$(ek 3 node status --json | jq '.nodes[] | select(.name == "n2") | .alive')" = "$1" ]; }
await "the coordinator does not hear n2" alive false
refused 4 "n2 answers coordinator" ek 3 volume delete other$vol --yes
refused 4 "n2 answers coordinator" ek 3 volume delete other$vol --dry-run
ip -n "$netns-1" route del blackhole 10.77.0.2/32
await "the coordinator hears n2" alive true
ek 2 detach other$vol --quiet
is_back() { ek 1 volume status $vol --json | jq -e '.volume.mirrors[].replicas[] | select(.node.name == "n1") | .state == "in-sync" and .reach == "answers"'; }
await "n1's replica is in-sync again" is_back

# With a node away for good.
kill_node 3
is_dead() { ek 1 node remove n3 --dry-run; }
await "n3 counts as dead" is_dead
dry 0 "would_be_removed_for_good $vol n3 would_leave" node remove n3
kill_node 2
is_dead() { [ "$(ek 1 node status --json | jq '[.nodes[] | select(.alive)] | length')" = 1 ]; }
await "n2 counts as dead" is_dead
dry 4 "other$vol last" node remove n2
dry 0 "would_be_deleted attached_on_node_n2,_which_does_not_answer" volume delete $vol
