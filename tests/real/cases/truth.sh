#!/usr/bin/env bash
# No status says more than is known.
# cases/truth.sh            nodes are killed, frozen and cut off at moments and in an order that a seed draws (TRUTH_SEED;
#                           ROUNDS of them), and the others are asked all the time. Of a replica whose node has been away
#                           for longer than docs/manual/states.md states nobody says that it is in-sync and answers, in no
#                           command and by no exit code
# cases/truth.sh failed     requests fail for want of data: each node counts them by kind, with the first and the last time,
#                           in status, list, metrics, log and events, also when it is over, and after a detach
# cases/truth.sh verify     a verify under way, stopped, and of damage: what was compared, of how much, with which replicas
# cases/truth.sh victims    commands that destroy are refused without a yes, name exactly what goes with it, and change nothing
# cases/truth.sh hopeless   `--wait` ends at once, with the reason, when nothing will happen by itself
# cases/truth.sh suspended  without a coordinator and a replica, and without any: never in-sync, with the reason and the time
source "$(dirname "$0")/../lib.sh"

# says N CODE WORDS COMMAND…: at node N the command ends with this code, and its output has each word (a blank in one is
# written `_`).
says() {
    local n=$1 code=$2 words=$3 word output status=0; shift 3
    output=$(timeout 60 "$evenkeel" --socket "$work/n$n/run/api.sock" "$@" 2>&1) || status=$?
    [ "$status" = "$code" ] || die "n$n: expected exit code $code, got $status: $*: $output"
    for word in $words; do grep -qF -- "${word//_/ }" <<< "$output" || die "n$n: '${word//_/ }' is missing in $*: $output"; done
    echo "ran: n$n, code $code: $* -> $(grep -m 1 . <<< "$output")"
}
io() { timeout 100 qemu-io -f raw "$uri" "$@" > "$work/io" 2>&1; }

failed() {
    local begun entry n of count
    namespaces 3
    start_nodes 3
    ek 1 volume create $vol --size 32M --replicas 1 --on n3:disk --on-no-data 3s --quiet
    ek 2 attach $vol --as nbd --quiet
    uri=$(uri_of $vol 2)
    io -c 'write -P 1 0 64k' -c flush || die "$(cat "$work/io")"
    begun=$(date +%s)
    kill -STOP "${pids[3]}"
    ! io -c 'write -P 2 0 64k' || die "it did not fail"
    ! io -c 'write -P 2 0 64k' || die "it did not fail"
    sleep 2
    ! io -c 'read 0 64k' || die "it did not fail"
    # entry N KIND FILTER: of what node N counts; `first` and `last` lie between the fault and now.
    entry() { ek "$1" volume status $vol --json | jq -c --arg kind "$2" ".volume.failed[] | select(.kind == \$kind and .cause == \"no-data\") | $3"; }
    for n in 1 2; do
        [ "$(entry $n write .count)" = 2 ] || die "n$n counts $(entry $n write .), and two writes failed"
        [ "$(entry $n read .count)" = 1 ] || die "n$n counts $(entry $n read .), and one read failed"
        for of in write read; do
            jq -e --argjson begun "$begun" --argjson now "$(date +%s)" '.first >= $begun + 2 and .last >= .first and .last <= $now' \
                <<< "$(entry $n $of .)" > /dev/null || die "n$n: the times are not right: begun $begun, $(entry $n $of .)"
        done
        jq -e --argjson write "$(entry $n write .)" '.last > $write.first' <<< "$(entry $n read .)" > /dev/null || die "the read was later: $(entry $n read .)"
        says $n 6 "unreachable suspended requests_fail no_in-sync_replica_answered_node_n2 2_writes,_the_first 1_read, the_last since" volume status $vol --check
        says $n 0 "$vol [?] requests_fail since" volume list --unhealthy
    done
    curl -sf --unix-socket "$work/n2/run/api.sock" http://x/metrics > "$work/metrics"
    for of in 'total{volume="'$vol'",kind="write",cause="no-data"} 2' 'total{volume="'$vol'",kind="read",cause="no-data"} 1' \
        'first_seconds{volume="'$vol'",kind="write",cause="no-data"} '"$(entry 2 write .first)" \
        'last_seconds{volume="'$vol'",kind="read",cause="no-data"} '"$(entry 2 read .last)"; do
        grep -qxF "evenkeel_volume_failed_requests_$of" "$work/metrics" || die "no metric $of: $(grep failed_requests "$work/metrics")"
    done
    for of in write read; do
        grep -q "a $of of a client has failed: no in-sync replica answers.*$vol" "$work/n2/node.log" || die "the log does not tell of a $of"
        ek 1 volume status $vol --json | jq -e --arg of "a $of of a client has failed" 'any(.volume.events[]; .message | startswith($of))' > /dev/null || die "no event of a $of"
    done

    kill -CONT "${pids[3]}"
    serves() { ek 2 volume status $vol --check; }
    await "it serves again" serves
    io -c 'write -P 3 0 64k' -c 'read -P 3 0 64k' || die "it does not: $(cat "$work/io")"
    for n in 1 2 3; do says $n 0 "in-sync serving requests_failed_until and_do_no_more 2_writes,_the_first" volume status $vol --check; done
    [ "$(entry 1 write .count)" = 2 ] || die "requests that succeed count: $(entry 1 write .)"
    ek 2 detach $vol --quiet
    says 2 0 "detached requests_failed_until 2_writes,_the_first" volume status $vol
    curl -sf --unix-socket "$work/n2/run/api.sock" http://x/metrics | grep -F 'total{volume="'$vol'",kind="write",cause="no-data"} 2' > /dev/null || die "the metric has forgotten"
    ek 2 attach $vol --as nbd --quiet
    io -c 'read -P 3 0 64k' || die "$(cat "$work/io")"
}

verify() {
    local n checked
    start_nodes 3
    ek 1 volume create $vol --size 512M --replicas 2 --on n1:disk --on n2:disk --quiet
    uri=$(attach $vol nbd)
    io -c 'write -P 7 0 128M' -c 'write -P 8 256M 64M' -c flush || die "$(cat "$work/io")"
    for n in 1 2; do ! ek $n volume status $vol | grep -q "^  verify" || die "a verify is told of that never was"; done
    ek 1 volume rebuild $vol --limit 10M --quiet
    ek 3 volume verify $vol --quiet
    compared() { [ "$(ek 3 volume status $vol --json | jq .volume.verify.checked)" -ge $((5 << 20)) ]; }
    await "5M are compared" compared
    for n in 1 2 3; do
        says $n 0 "verify no_difference_so_far %_compared" volume status $vol
        ! ek $n volume status $vol | grep "^  verify" | grep -qE "identical|all .* compared" || die "n$n: $(ek $n volume status $vol)"
    done
    says 2 0 "stopped no_difference_in of_512M" volume verify $vol --stop
    checked=$(ek 1 volume status $vol --json | jq .volume.verify.checked)
    [ "$checked" -lt $((512 << 20)) ] || die "all was compared: this shows nothing"
    for n in 1 2 3; do
        says $n 0 "no_difference_in of_512M,_where_it_was_stopped compared:_n1:disk,_n2:disk" volume status $vol
        [ "$(ek $n volume status $vol --json | jq .volume.verify.checked)" = "$checked" ] || die "n$n says that something else was compared"
    done
    # Damage that it has not come to, and then has: it is not called identical before, nor in-sync after.
    ek 1 volume rebuild $vol --limit none --quiet
    dd if=/dev/urandom of="$(echo "$work"/n2/disk/*.replica)" bs=4096 count=1 seek=$((256 + 65536 + 77)) conv=notrunc,fsync status=none
    says 1 0 "no_difference_in of_512M,_where_it_was_stopped" volume status $vol
    says 3 1 "4K n2:disk" volume verify $vol --wait
    for n in 1 2 3; do
        says $n 6 "degraded n2:disk all_512M_compared 4K" volume status $vol --check
        ! ek $n volume status $vol | grep "^  verify" | grep -q identical || die "n$n calls them identical: $(ek $n volume status $vol)"
    done
    ek 1 volume verify $vol --repair --wait --quiet
    says 2 0 "identical" volume verify $vol --wait
    for n in 1 2 3; do says $n 0 "all_512M_compared identical" volume status $vol --check; done
}

# kept: what may be lost by a command.
kept() {
    ek 1 volume list --json | jq -cS '[.volumes[] | {name, size, state, primaries: [.primaries[].node.name], mirrors: [.mirrors[].replicas[] | {id, state}]}]'
    ek 1 disk list --json 2> /dev/null | jq -cS '[.disks[] | {name, node: .node.name, replicas: [.replicas[].id]}]' || true
    find "$work"/n*/disk -name '*.replica*' | sort
}
# spares WORDS COMMAND…: refused (4) without a yes; it names all these words and nothing is changed.
spares() {
    local words=$1 before after; shift
    before=$(kept)
    says 1 4 "$words --yes" "$@"
    after=$(kept)
    [ "$before" = "$after" ] || die "$* without a yes has changed: $(diff <(echo "$before") <(echo "$after"))"
}
replicas_of() { ek 1 volume status "$1" --json | jq -r '[.volume.mirrors[].replicas[] | "\(.node.name):\(.disk)"] | sort | join(" ")'; }

victims() {
    start_nodes 3
    ek 1 volume create $vol --size 16M --replicas 3 --on n1:disk --on n2:disk --on n3:disk --quiet
    ek 1 volume create other$vol --size 16M --replicas 2 --on n1:disk --on n2:disk --quiet
    ek 3 attach $vol --as nbd --quiet
    wait_in_sync $vol
    spares "other$vol would_be_removed_for_good n1 n2 in-sync all_its_data" volume delete other$vol
    says 1 4 "attached_on_node_n3" volume delete $vol --yes
    # Of those that are in-sync the primary's own stays.
    spares "would_be_removed_for_good in-sync would_leave n3:disk" volume change $vol --replicas 2
    named=$({ ek 1 volume change $vol --replicas 2 2>&1 || true; } | awk -v v="$vol" '$1 == v && $3 ~ /^n/ {print $3 ":" $4}')
    [ "$(wc -w <<< "$named")" = 1 ] && [ "$named" != n3:disk ] || die "it would remove '$named'"
    # What is faulty goes before what is in-sync, and it is what was named that goes.
    ek 1 replica fail $vol n1 --quiet
    spares "would_be_removed_for_good n1 faulty would_leave n2:disk n3:disk" volume change $vol --replicas 2
    spares "would_be_removed_for_good n1 faulty would_leave n2:disk n3:disk" replica remove $vol n1
    says 1 4 "in-sync" replica remove $vol n2 --yes
    ek 1 volume change $vol --replicas 2 --yes --quiet
    [ "$(replicas_of $vol)" = "n2:disk n3:disk" ] || die "left: $(replicas_of $vol)"
    spares "would_be_detached_from n3 no_replica_is_lost" volume stop $vol
    says 1 4 "it_holds_1_replica(s),_of:_other$vol" disk remove disk
    ek 1 reservation register $vol --key 7 --host n3 --quiet
    spares "would_be_unregistered n3 0x7" reservation drop $vol
    says 1 4 "volumes_use_it $vol" node remove n2 --yes
    ek 1 replica fail other$vol n2 --quiet
    says 1 4 "last" replica fail other$vol n1
    kill_node 2
    counts_as_dead() { ek 1 node remove n2 --dry-run; }
    await "n2 counts as dead" counts_as_dead
    spares "n2 would_be_removed_for_good $vol other$vol would_leave n3:disk n1:disk" node remove n2
    ek 1 node remove n2 --yes --quiet
    [ "$(replicas_of $vol) $(replicas_of other$vol)" = "n3:disk n1:disk" ] || die "left: $(replicas_of $vol) $(replicas_of other$vol)"
    says 1 6 "degraded [U-]" volume status $vol --check
}

# at_once CODE WORDS COMMAND…: within two minutes, though it would wait for ten minutes.
at_once() {
    local begun=$SECONDS code=$1 words=$2; shift 2
    says 1 "$code" "$words" "$@" --timeout 10m
    [ $((SECONDS - begun)) -le 120 ] || die "it took $((SECONDS - begun)) s: $*"
}
hopeless() {
    [ "$(id -u)" = 0 ] || skip "a filesystem of its own is mounted by root"
    truncate -s 120M "$work/image"
    mkfs.ext4 -q -m 0 "$work/image"
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    mkdir "$work/mnt/disk"
    for n in 1 2 3; do prepare_node $n; start_node $n; done
    for n in 1 2; do await "n$n is a member" ek $n disk add "$work/n$n/disk" --name disk; done
    await "n3 is a member" ek 3 disk add "$work/mnt/disk" --name disk
    ek 1 volume create $vol --size 256M --replicas 1 --on n1:disk --thin --quiet
    uri=$(attach $vol nbd)
    io -c 'write -P 5 0 160M' -c flush || die "$(cat "$work/io")"
    # A disk that becomes full while it is copied to.
    at_once 6 "is_faulty n3 full" replica add $vol n3:disk --thin --wait
    at_once 6 "is_faulty n3 full" volume status $vol --wait in-sync
    ek 1 replica remove $vol n3:disk --yes --quiet
    # Paused, with something to copy.
    ek 1 volume rebuild $vol --pause --quiet
    at_once 6 "paused volume_rebuild --resume" replica add $vol n2:disk --wait
    at_once 6 "paused volume_rebuild --resume" volume status $vol --wait in-sync
    at_once 6 "paused volume_rebuild --resume" volume verify $vol --wait
    # Detached with something to copy.
    ek 1 detach $vol --quiet
    at_once 6 "attach" volume status $vol --wait in-sync
    uri=$(attach $vol nbd)
    # Removed while somebody waits.
    # That ends the pause, too.
    ek 1 volume rebuild $vol --limit 1M --quiet
    (sleep 10; ek 2 replica fail $vol n2:disk --quiet; ek 2 replica remove $vol n2:disk --yes --quiet) & helpers+=($!)
    at_once 6 "was_removed" replica re-add $vol n2:disk --wait
    ek 1 volume status $vol --wait in-sync --timeout 1m --quiet
}

suspended() {
    local n begun
    namespaces 4
    start_nodes 4
    ek 1 volume create $vol --size 16M --replicas 2 --on n2:disk --on n3:disk --quiet
    ek 1 volume create far$vol --size 16M --replicas 1 --on n4:disk --on-no-data 20m --quiet
    for v in $vol far$vol; do ek 2 attach $v --as nbd --quiet; done
    # The only replica is away.
    kill_node 4
    uri=$(uri_of far$vol 2)
    begun=$(date +%s)
    timeout 200 qemu-io -f raw "$uri" -c 'write -P 4 0 64k' > "$work/waits" 2>&1 & writer=$!
    helpers+=($writer)
    waits() { ek 1 volume status far$vol --json | jq -e '.volume.state == "suspended"'; }
    await "it waits" waits
    for n in 1 2; do
        says $n 6 "[?] unreachable suspended no_in-sync_replica_of_mirror_0_answers waiting since n4" volume status far$vol --check
        says $n 0 "far$vol [?] since" volume list --unhealthy
    done
    jq -e --argjson begun "$begun" '.volume.suspended | .since >= $begun - 15 and .seconds <= (now - .since + 5)' \
        <<< "$(ek 1 volume status far$vol --json)" > /dev/null || die "since when is wrong: $(ek 1 volume status far$vol --json | jq -c .volume.suspended)"
    start_node 4
    wait $writer || die "the write has failed: $(cat "$work/waits")"
    ek 1 volume status $vol --check --quiet || die "the other one is not as it was: $(ek 1 volume status $vol)"
    # A replica is away, and so is the coordinator, without which it can't be left out.
    kill_node 1; kill_node 3
    uri=$(uri_of $vol 2)
    timeout 200 qemu-io -f raw "$uri" -c 'write -P 4 0 64k' > "$work/waits2" 2>&1 & second=$!
    helpers+=($second)
    alone() { ek 2 volume status $vol --json | jq -e '.volume.state == "suspended"'; }
    await "it waits for the coordinator" alone
    says 2 6 "[U?] unreachable suspended coordinator waiting since n3" volume status $vol --check
    says 2 5 "$vol [U?] suspended note:" volume list
    start_node 1; start_node 3
    wait $second || die "the write has failed: $(cat "$work/waits2")"
    for v in $vol far$vol; do
        for n in 1 2 3 4; do await "$v is in-sync" ek $n volume status $v --check; done
        [ "$(ek 2 volume status $v --json | jq '.volume.failed | length')" = 0 ] || die "something of $v has failed"
    done
}

[ $# = 0 ] || { "$1"; exit; }

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
        # A slow machine may be late once. What is wrong by itself is so each time.
        sleep 5
        said=$(claims "$asked" "$gone" "$volume")
        [ -n "$said" ] || return 0
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
