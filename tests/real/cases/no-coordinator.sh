#!/usr/bin/env bash
# What the nodes tell of volumes while the coordinator is away: what they know, dated, and that it is not all.
source "$(dirname "$0")/../lib.sh"
start_nodes 3
ek 1 volume create $vol --size 16M --replicas 2 --on n2:disk --on n3:disk --quiet
ek 1 volume create far --size 16M --replicas 1 --on n1:disk --quiet
ek 2 volume status $vol --check --quiet || die "it is not healthy"

# says N CODE WORDS COMMAND…: at node N the command ends with this code, and each word is in its output.
says() {
    local n=$1 code=$2 words=$3 word output status=0; shift 3
    output=$(ek "$n" "$@" 2>&1) || status=$?
    [ "$status" = "$code" ] || die "expected exit code $code, got $status: $* : $output"
    for word in $words; do grep -qF -- "${word//_/ }" <<< "$output" || die "'$word' is missing in: $output"; done
    say "n$n, code $code: $* -> $(head -n 1 <<< "$output")"
}

# A node of the detached volume dies: nobody says in-sync.
kill_node 3
is_noticed() { [ "$(ek 1 volume status $vol --json | jq -r .volume.health)" = unreachable ]; }
await "the dead node is noticed" is_noticed
says 1 6 "unreachable n3:disk does_not_answer ?" volume status $vol --check
says 1 0 "unreachable $vol" volume list --unhealthy
start_node 3
await "it is as it was" ek 1 volume status $vol --check --quiet

# The coordinator dies.
kill_node 1
is_alone() { [ "$(ek 2 volume list --json | jq .complete)" = false ]; }
await "n2 notices that it is alone" is_alone
says 2 5 "$vol unknown note:" volume list
says 2 5 "$vol as_of unknown_whether_attached" volume status $vol --check
! ek 2 volume list 2> /dev/null | grep -q "There is no volume" || die "it says that there is none"
! ek 2 volume list 2> /dev/null | grep -q "far" || die "it tells of what it cannot know"
start_node 1
await "all is known again" ek 2 volume status $vol --check --quiet
ek 2 volume list --quiet || die "the list is not whole again"
