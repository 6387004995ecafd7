#!/usr/bin/env bash
# No status says more than is known: nodes are killed, frozen and cut off at moments and in an order that a seed draws
# (TRUTH_SEED; ROUNDS of them), and the others are asked all the time. Of a replica whose node has been away for longer
# than docs/manual/states.md states nobody says that it is in-sync and answers, in no command and by no exit code.
source "$(dirname "$0")/../lib.sh"
# What states.md states, for the default times.
bound=15
# So long a node is away, in seconds.
away=23
seed=${TRUTH_SEED:-$((SRANDOM % 1000000))} rounds=${ROUNDS:-3}
say "TRUTH_SEED=$seed ROUNDS=$rounds"
namespaces 3
start_nodes 3
ek 1 volume create used$vol --size 16M --replicas 2 --on n2:disk --on n3:disk --quiet
ek 1 volume create idle$vol --size 16M --replicas 2 --on n1:disk --on n3:disk --quiet
ek 2 attach used$vol --as nbd --quiet
looks=0 early=0 latest=0
# Seeded here, so that the names of the volumes above draw nothing.
RANDOM=$seed
now() { date +%s%3N; }

# claims ASKED AWAY VOLUME: how the node that is asked says, of a replica whose node is away, that all is well with it: the
# words of `status`, of `list`, and the code of `--check`. Nothing if it does not.
claims() {
    local asked=$1 gone=$2 volume=$3 told
    local is_well='.mirrors[].replicas[] | select(.node.name == $gone and .state == "in-sync" and .reach == "answers")'
    told=$(ek "$asked" volume status "$volume" --json 2> /dev/null) || true
    jq -e --arg gone "n$gone" ".volume? // empty | $is_well" <<< "$told" > /dev/null 2>&1 && echo "status says in-sync"
    jq -e '.volume? // empty | select(.health == "in-sync")' <<< "$told" > /dev/null 2>&1 && echo "status has health in-sync"
    told=$(ek "$asked" volume list --json 2> /dev/null) || true
    jq -e --arg gone "n$gone" --arg volume "$volume" ".volumes[]? | select(.name == \$volume) | $is_well" <<< "$told" \
        > /dev/null 2>&1 && echo "list says in-sync"
    ek "$asked" volume status "$volume" --check --quiet 2> /dev/null && echo "--check ends with 0"
    true
}

# look SINCE ASKED AWAY VOLUME: one of these, by a fault that began then.
look() {
    local since=$1 asked=$2 gone=$3 volume=$4 at said
    at=$(($(now) - since))
    said=$(claims "$asked" "$gone" "$volume")
    looks=$((looks + 1))
    [ -n "$said" ] || return 0
    [ $at -le $((bound * 1000)) ] || {
        ek "$asked" volume status "$volume" || true
        ek "$asked" node status || true
        die "n$gone has been away for $at ms, and of $volume n$asked $said"
    }
    early=$((early + 1))
    [ $at -le $latest ] || latest=$at
}

# those_of VOLUME: the nodes of its replicas.
those_of() { case $1 in used*) echo 2 3 ;; *) echo 1 3 ;; esac; }

# other_than N…: one of the nodes that are none of these.
other_than() {
    local n all=()
    for n in 1 2 3; do [[ " $* " == *" $n "* ]] || all+=("$n"); done
    echo "${all[RANDOM % ${#all[@]}]}"
}

round() {
    local number=$1 kind gone volume since asked of
    kind=$((RANDOM % 3)) gone=$((RANDOM % 3 + 1))
    since=$(now)
    case $kind in
    0) kill_node $gone ;;
    1) kill -STOP "${pids[$gone]}"; say "froze n$gone" ;;
    2) ip -n "$netns" link set "port$gone" down; say "cut n$gone off" ;;
    esac
    while [ $(($(now) - since)) -lt $((away * 1000)) ]; do
        volume=$([ $((RANDOM % 2)) = 0 ] && echo used$vol || echo idle$vol)
        # A node that is cut off can be asked still: of the others it knows no more than they of it.
        if [ $kind = 2 ] && [ $((RANDOM % 3)) = 0 ]; then
            asked=$gone
            for of in $(those_of $volume); do [ "$of" = "$asked" ] || look $since $asked $of $volume; done
        elif [[ " $(those_of $volume) " == *" $gone "* ]]; then
            look $since "$(other_than $gone)" $gone $volume
        fi
        sleep 0.$((RANDOM % 10))
    done
    case $kind in
    0) start_node $gone ;;
    1) kill -CONT "${pids[$gone]}" ;;
    2) ip -n "$netns" link set "port$gone" up ;;
    esac
    for volume in used$vol idle$vol; do await "$volume is whole again" ek 1 volume status $volume --check --quiet; done
    say "round $number: $looks looks until now, $early of them early, the latest after $latest ms"
}

for number in $(seq "$rounds"); do round "$number"; done
[ $looks -ge $rounds ] || die "only $looks looks: nothing was tried"
say "of $looks looks $early said in-sync early, the latest $latest ms after the fault; the bound is $bound s"
