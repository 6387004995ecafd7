#!/usr/bin/env bash
# What a verify found, and of which replicas, is shown by every node, over a detach and restarts; a replica that was
# added or rebuilt since is named as not covered.
source "$(dirname "$0")/../lib.sh"
start_nodes 3
ek 1 volume create $vol --size 1G --replicas 2 --on n1:disk --on n2:disk --quiet
uri=$(attach $vol nbd)
nbdcopy --flush <(head -c 64M /dev/urandom) "$uri" 2> /dev/null || qemu-io -f raw -c 'write -P 7 0 64M' "$uri" > /dev/null
line() { ek "$1" volume status $vol | grep '^  verify '; }
# told NODE WORDS…: what that node's status says of the verify has all of them.
told() {
    local node=$1 said word; shift
    said=$(line "$node") || die "n$node says nothing of the verify"
    for word in "$@"; do grep -qF -- "$word" <<< "$said" || die "n$node does not say '$word': $said"; done
    say "n$node: $(xargs <<< "$said")"
}
# says NODE WORDS: the same, without ending the case.
says() { line "$1" | grep -qF -- "$2"; }
whole="compared: n1:disk, n2:disk; not covered: n3:disk"

# Stopped in the middle, then a replica is added.
ek 1 volume rebuild $vol --limit 20M --quiet
ek 2 volume verify $vol --quiet
checked() { [ "$(ek 1 volume status $vol --json | jq .volume.verify.checked)" -ge $((20 << 20)) ]; }
await "20M are compared" checked
ek 3 volume verify $vol --stop | grep -q "no difference in .* of 1G, where it was stopped" || die "it is not stopped"
ek 1 volume rebuild $vol --limit none --quiet
told 3 "where it was stopped" "compared: n1:disk, n2:disk"
! line 3 | grep -q "not covered" || die "both replicas were compared: $(line 3)"
ek 2 replica add $vol n3:disk --quiet
wait_in_sync $vol
for n in 1 2 3; do told $n "where it was stopped" "$whole"; done
ek 1 detach $vol --quiet
for n in 1 2 3; do told $n "no difference in" "of 1G, where it was stopped; ended" "$whole"; done
for n in 1 3; do stop_node $n; start_node $n; done
await "n3 is back" says 3 "where it was stopped"
told 3 "where it was stopped" "$whole"
told 1 "where it was stopped" "$whole"
ek 3 attach $vol --as none --quiet
told 2 "where it was stopped" "$whole"

# A whole one takes its place, until a replica leaves and is rebuilt; it outlives its node.
ek 2 volume verify $vol --wait | tee "$work/verdict" | grep -q "all in-sync replicas identical" || die "$(cat "$work/verdict")"
told 1 "all 1G compared" "compared: n1:disk, n2:disk, n3:disk"
ek 1 replica fail $vol n2 --quiet
ek 1 replica re-add $vol n2 --quiet
wait_in_sync $vol
told 1 "the compared replicas identical" "compared: n1:disk, n3:disk; not covered: n2:disk"
kill_node 3
told 2 "the compared replicas identical" "not covered: n2:disk"
start_node 3
await "n3 has it again" says 1 "all 1G compared"
# Its takeover has rebuilt what it left open, so none is as it was compared.
told 1 "the replicas were identical, and each was rebuilt or replaced since" "not covered: n1:disk, n2:disk, n3:disk"

# A volume that is detached in the midst of a verify keeps what it found until then.
wait_in_sync $vol
ek 1 volume rebuild $vol --limit 20M --quiet
ek 1 volume verify $vol --quiet
await "20M are compared" checked
ek 3 detach $vol --quiet
told 2 "where it was stopped; ended" "compared: n1:disk, n2:disk, n3:disk"
