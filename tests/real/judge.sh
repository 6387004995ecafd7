# Faults of nodes and of the network between them, and a judge of what the commands say meanwhile. Sourced after lib.sh by
# cases/status-cut.sh and by tests/real/faults; needs `namespaces`. Whoever injects a fault does so by these functions, so
# that the judge knows who could hear whom, and since when.

# After how many seconds no node calls a replica in-sync that it can't know about: docs/manual/states.md.
bound=15
# The number of nodes; n1 is the coordinator's.
nodes=0
declare -A gone=()    # by node: its process does not run, or is stopped
declare -A dropped=() # by "FROM TO": packets from one node to the other vanish
declare -A down=()    # by "A B": since when (ms) these two can't talk to each other
declare -A unknown=() # by "A R P": since when node A can't know of a replica on R, told by the primary on P (0: by others)
wrong=0 looks=0

now() { date +%s%3N; }

broken() { [ -n "${gone[$1]:-}${gone[$2]:-}${dropped[$1 $2]:-}${dropped[$2 $1]:-}" ]; }

# reached A: the nodes that A can hear of, by way of others too.
reached() {
    local found=" $1 " queue=("$1") at other
    while [ ${#queue[@]} -gt 0 ]; do
        at=${queue[0]} queue=("${queue[@]:1}")
        for other in $(seq "$nodes"); do
            [[ $found != *" $other "* ]] && ! broken "$at" "$other" || continue
            found+="$other " queue+=("$other")
        done
    done
    echo "$found"
}

# can_know A R P REACHED: whether what A says of a replica on R can be true.
can_know() {
    local a=$1 r=$2 p=$3
    [ "$a" != "$r" ] || return 0
    if [ "$p" != 0 ] && { [ "$a" = "$p" ] || ! broken "$a" "$p"; }; then
        [ "$r" = "$p" ] || ! broken "$p" "$r"
    else
        [[ $4 == *" $r "* ]]
    fi
}

# note_faults: to be called when anything has been broken or repaired: since when what can't be known.
note_faults() {
    local a b p at found
    at=$(now)
    for a in $(seq "$nodes"); do
        found=$(reached "$a")
        for b in $(seq "$nodes"); do
            if [ "$a" != "$b" ] && broken "$a" "$b"; then down[$a $b]=${down[$a $b]:-$at}; else unset "down[$a $b]"; fi
            for p in $(seq 0 "$nodes"); do
                if can_know "$a" "$b" "$p" "$found"; then unset "unknown[$a $b $p]"
                else unknown[$a $b $p]=${unknown[$a $b $p]:-$at}; fi
            done
        done
    done
}

# drop FROM TO, pass FROM TO: packets from one node to the other vanish, or no longer do. They go to an address that nobody
# has: neither side gets an error.
drop() {
    ip -n "$netns-$1" neigh replace "10.77.0.$2" lladdr 02:00:00:00:00:99 nud permanent dev node
    dropped[$1 $2]=yes
}
pass() {
    ip -n "$netns-$1" neigh del "10.77.0.$2" dev node
    unset "dropped[$1 $2]"
}
others_than() { local n; for n in $(seq "$nodes"); do [ "$n" = "$1" ] || echo "$n"; done; }

# harm N KIND [WITH]: killed, frozen, mute (packets from it vanish, those to it arrive), isolated, or apart (it and WITH
# can't talk to each other).
harm() {
    local n=$1 other
    case $2 in
    killed) kill_node "$n" > /dev/null; gone[$n]=yes ;;
    frozen) kill -STOP "${pids[$n]}"; gone[$n]=yes ;;
    mute) for other in $(others_than "$n"); do drop "$n" "$other"; done ;;
    isolated) for other in $(others_than "$n"); do drop "$n" "$other"; drop "$other" "$n"; done ;;
    apart) drop "$n" "$3"; drop "$3" "$n" ;;
    *) die "there is no harm $2" ;;
    esac
    note_faults
}

# heal N KIND [WITH]: undoes it.
heal() {
    local n=$1 other
    case $2 in
    killed) start_node "$n"; unset "gone[$n]" ;;
    frozen) kill -CONT "${pids[$n]}"; unset "gone[$n]" ;;
    mute) for other in $(others_than "$n"); do pass "$n" "$other"; done ;;
    isolated) for other in $(others_than "$n"); do pass "$n" "$other"; pass "$other" "$n"; done ;;
    apart) pass "$n" "$3"; pass "$3" "$n" ;;
    esac
    note_faults
}

# askable: the nodes whose daemon can be asked.
askable() { local n; for n in $(seq "$nodes"); do [ -n "${gone[$n]:-}" ] || echo "$n"; done; }

# ask N NAME ARGS…: the command's output and code go to $look/N/NAME and NAME.code.
ask() {
    local n=$1 name=$2 code=0; shift 2
    timeout 60 "$evenkeel" --socket "$work/n$n/run/api.sock" "$@" > "$look/$n/$name" 2> "$look/$n/$name.err" || code=$?
    echo "$code" > "$look/$n/$name.code"
}

# gather VOLUME…: what each node that can be asked says, all at once; in the directory $look.
gather() {
    local n volume asked=()
    look=$work/look
    rm -rf "$look"
    looked=$(now)
    for n in $(askable); do
        mkdir -p "$look/$n"
        ask "$n" list volume list --json & asked+=($!)
        ask "$n" nodes node status --json & asked+=($!)
        ask "$n" disks disk list --json & asked+=($!)
        for volume in "$@"; do
            ask "$n" "status.$volume" volume status "$volume" --json & asked+=($!)
            ask "$n" "check.$volume" volume status "$volume" --check & asked+=($!)
        done
    done
    wait "${asked[@]}"
    looks=$((looks + 1))
}
code_of() { cat "$look/$1/$2.code"; }

# too_long SINCE: whether that was so for longer than the bound when the look began.
too_long() { [ -n "$1" ] && [ $((looked - $1)) -gt $((bound * 1000)) ]; }
# is_lie A R P: whether node A has had no means to know of a replica on R for longer than the bound.
is_lie() { too_long "${unknown[$1 $2 $3]:-}"; }
is_away() { too_long "${down[$1 $2]:-}"; }

# accuse A NAME TEXT: what node A said there is wrong.
accuse() {
    wrong=$((wrong + 1))
    echo "not so: n$1 says in $2: $3"
}

# accounts FILE: of each volume in it a line `volume NAME HEALTH SOURCE PRIMARY`, then of each mirror `mirror LETTERS`, then
# of each replica `replica NODE STATE REACH`. Nodes are numbers.
accounts() {
    jq -r '(.volumes[]?, (.volume | objects)) |
        "volume \(.name) \(.health) \(.source) \(if .source == "primary" then (.primaries[0].node.name // "n0")[1:] else 0 end)",
        (.mirrors[] | "mirror \(.summary)", (.replicas[] | "replica \(.node.name[1:]) \(.state) \(.reach)"))' "$1" 2> /dev/null || true
}

# judge_accounts A NAME: no replica of which A can't know is called in-sync, by no letter and no health.
judge_accounts() {
    local a=$1 name=$2 kind x y z p=0 primary volume='' health='' letters='' shown=0 known=0
    while read -r kind x y z primary; do
        # A mirror has as many letters of replicas that are in-sync as it can have.
        [ "$kind" = replica ] || [ "$shown" -le "$known" ] || accuse "$a" "$name" "$letters of $volume"
        case $kind in
        volume)
            volume=$x health=$y p=$primary shown=0 known=0
            [ "$z" != primary ] || [ "$a" = "$p" ] || ! is_away "$a" "$p" ||
                accuse "$a" "$name" "of $volume what the primary on n$p says, which it can't hear"
            ;;
        mirror) letters=$x shown=$(tr -cd U <<< "$x" | wc -c) known=0 ;;
        replica)
            is_lie "$a" "$x" "$p" || { known=$((known + 1)); continue; }
            [ "$y $z" != "in-sync answers" ] || accuse "$a" "$name" "the replica of $volume on n$x is in-sync and answers"
            [ "$health" != in-sync ] || accuse "$a" "$name" "$volume is in-sync, with a replica on n$x"
            ;;
        esac
    done < <(accounts "$look/$a/$name"; echo end)
}

# judge_check A VOLUME: the text for people, and its code.
judge_check() {
    local a=$1 volume=$2 text code r p=0 first lies=()
    text=$(cat "$look/$a/check.$volume") code=$(code_of "$a" "check.$volume")
    [[ $code == [056] ]] || accuse "$a" "status --check" "code $code: $(head -n 1 "$look/$a/check.$volume.err")"
    p=$(accounts "$look/$a/status.$volume" | awk '$1 == "volume" {print $5}')
    for r in $(accounts "$look/$a/status.$volume" | awk '$1 == "replica" {print $2}'); do
        ! is_lie "$a" "$r" "${p:-0}" || lies+=("$r")
    done
    [ ${#lies[@]} -gt 0 ] || return 0
    [ "$code" != 0 ] || accuse "$a" "status --check" "code 0 for $volume, with a replica on n${lies[*]}"
    first=$(grep -m 1 '^volume ' <<< "$text" || true)
    ! grep -qE '\[U+\]' <<< "$first" || accuse "$a" "status" "$first"
    [ "$code" != 5 ] || [ -z "$first" ] || grep -q '^  as of ' <<< "$text" || accuse "$a" "status" "no time of what it knew of $volume"
    for r in "${lies[@]}"; do
        ! grep -qE " n$r +[^ ]+ +in-sync\$" <<< "$text" || accuse "$a" "status" "$volume: n$r in-sync"
        # In the reason, or in its row, with a reason below.
        [ "$code" = 5 ] || grep -qw "n$r" <<< "$(grep -E '^ +(why|attached)' <<< "$text")" ||
            grep -A 1 -E " n$r +[^ ]+ +(unreachable|unknown|stale|faulty)\$" <<< "$text" | grep -q '^ *why: .' ||
            accuse "$a" "status" "not that n$r is away: $first"
    done
}

# judge_nodes A: no node is called alive that the coordinator has not heard, its age is told, and no disk of a node is
# listed that A can't hear.
judge_nodes() {
    local a=$1 b code
    code=$(code_of "$a" nodes)
    if [ "$a" != 1 ] && is_away "$a" 1; then
        [ "$code" = 5 ] || accuse "$a" "node status" "code $code, without a coordinator"
        jq -e '.nodes == null and .node.coordinator.unreachable_since != null' "$look/$a/nodes" > /dev/null ||
            accuse "$a" "node status" "nodes, or no time, without a coordinator"
    elif [ "$code" = 0 ]; then
        for b in $(others_than 1); do
            is_away 1 "$b" || continue
            jq -e --arg b "n$b" --argjson at $((looked / 1000)) \
                '.nodes[] | select(.name == $b) | .alive == false and .last_seen < $at - 8' "$look/$a/nodes" > /dev/null ||
                accuse "$a" "node status" "n$b: $(jq -c --arg b "n$b" '.nodes[]? | select(.name == $b)' "$look/$a/nodes")"
        done
    fi
    for b in $(others_than "$a"); do
        is_away "$a" "$b" || continue
        [ "$(code_of "$a" disks)" = 5 ] || accuse "$a" "disk list" "code $(code_of "$a" disks), without n$b"
        jq -e --arg b "n$b" 'all(.disks[]?; .node.name != $b)' "$look/$a/disks" > /dev/null || accuse "$a" "disk list" "disks of n$b"
        jq -e --arg b "node n$b\\b" '(any(.warnings[]?; test($b))) or .error' "$look/$a/disks" > /dev/null ||
            accuse "$a" "disk list" "not that n$b is missing"
    done
}

# judge VOLUME…: all that was gathered.
judge() {
    local a volume name before=$wrong
    for a in $(askable); do
        for name in "$look/$a"/*.code; do [ "$(cat "$name")" != 124 ] || accuse "$a" "${name##*/}" "nothing for a minute"; done
        judge_accounts "$a" list
        for volume in "$@"; do
            judge_accounts "$a" "status.$volume"
            judge_check "$a" "$volume"
        done
        judge_nodes "$a"
    done
    [ "$wrong" = "$before" ]
}
