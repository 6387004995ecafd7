#!/usr/bin/env bash
# What volume status, volume list, node status and disk list say, and their codes, while a part of the cluster is away:
# cases/status-cut.sh coordinator|primary|replica|bystander killed|frozen|mute|isolated|apart
# n1 is the coordinator's; `used` is attached on n2 and has replicas on n2 and n3; `idle` is attached nowhere and has
# replicas on n1, n2 and n3; n4 has no part in either. mute: packets from the node vanish, those to it arrive. apart: it
# and one other node can't talk to each other, and all others can. Each node that can be asked is asked.
source "$(dirname "$0")/../lib.sh"
source "$here/judge.sh"
who=$1 how=$2 nodes=4
case $who in
coordinator) away=1 from=2 ;;
primary) away=2 from=3 ;;
replica) away=3 from=1 ;;
bystander) away=4 from=1 ;;
esac
namespaces $nodes
start_nodes $nodes
used=used$vol idle=idle$vol
ek 1 volume create $used --size 16M --replicas 2 --on n2:disk --on n3:disk --quiet
ek 1 volume create $idle --size 16M --replicas 3 --on n1:disk --on n2:disk --on n3:disk --quiet
ek 2 attach $used --as nbd --quiet

hears() { [ "$1" = "$2" ] || ! broken "$1" "$2"; }
# hears_all A N…: whether A hears each of these.
hears_all() { local a=$1 n; shift; for n in "$@"; do hears "$a" "$n" || return 1; done; }

# by_primary A: whether node A learns of `used` from its primary: it knows where that is by the coordinator or by a replica,
# or asks all nodes which of them has it attached.
by_primary() { hears "$1" 2; }

# expected A VOLUME: the code of `volume status --check` there, as docs/manual/states.md says.
expected() {
    local a=$1
    if [ "$2" = $used ] && by_primary "$a"; then
        if hears 2 3; then echo 0; else echo 6; fi
    elif ! hears "$a" 1; then echo 5
    elif [ "$2" = $idle ] && hears_all "$a" 1 2 3; then echo 0
    else echo 6
    fi
}

# expect A NAME CODE
expect() { [ "$(code_of "$1" "$2")" = "$3" ] || accuse "$1" "$2" "code $(code_of "$1" "$2"), expected $3"; }

# judge_codes: by what is away, which codes each command has: no node calls something missing that is there, either.
judge_codes() {
    local a volume code before=$wrong
    for a in $(askable); do
        code=0; hears "$a" 1 || code=5
        expect "$a" list $code
        [ $code = 5 ] || [ "$(accounts "$look/$a/list" | grep -c ^volume)" = 2 ] || accuse "$a" list "not both volumes"
        expect "$a" nodes $code
        code=0; hears_all "$a" 1 2 3 4 && hears_all 1 2 3 4 || code=5
        # What the coordinator does not hear and this node does may be listed, or not.
        [ $code = 5 ] && hears_all "$a" 1 2 3 4 || expect "$a" disks $code
        for volume in $used $idle; do
            code=$(expected "$a" $volume)
            expect "$a" "check.$volume" "$code"
            [ "$code" = 5 ] || [ -n "$(accounts "$look/$a/status.$volume")" ] || accuse "$a" "status.$volume" "no account"
        done
    done
    [ "$wrong" = "$before" ]
}

# all_well: each node says of both volumes, by each command, that all is in order.
all_well() {
    local n volume
    for n in 1 2 3 4; do
        ek $n volume list --quiet && ek $n node status --quiet && ek $n disk list --quiet || return 1
        for volume in $used $idle; do ek $n volume status $volume --check --quiet || return 1; done
        ek $n volume list --json | jq -e 'all(.volumes[]; .health == "in-sync") and (.volumes | length == 2)' || return 1
        ek $n node status --json | jq -e '.nodes | length == 4 and all(.[]; .alive)' || return 1
    done
}

judge_all() {
    gather $used $idle
    wrong=0
    judge $used $idle || true
    judge_codes || true
    [ $wrong = 0 ]
}

await "all is well" all_well
gather $used $idle
judge_codes || { sleep 5; gather $used $idle; judge_codes; } || die "not as expected before anything is away"
harm $away "$how" $from
say "$who: n$away is $how"
broken_at=$(now)
until [ $(($(now) - broken_at)) -gt $((bound * 1000)) ]; do sleep 0.2; done
# A slow machine may be late once. What is wrong by itself is so each time.
judge_all || { say "looks again"; sleep 5; judge_all; } || {
    for n in $(askable); do for file in "$look/$n"/check.* "$look/$n/nodes"; do echo "n$n: ${file##*/}: $(cat "$file")"; done; done
    die "n$away ($who) is $how for $(((looked - broken_at) / 1000)) s"
}
for n in $(askable); do
    for v in $used $idle; do say "n$n: $v: code $(code_of $n check.$v) $(head -n 1 "$look/$n/check.$v")"; done
done
heal $away "$how" $from
healed_at=$(now)
await "all is well again, without a command" all_well
say "all is well $((($(now) - healed_at))) ms after it was repaired"
