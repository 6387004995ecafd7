#!/usr/bin/env bash
# A verb is interrupted at the boundaries between its steps: cases/phases.sh create|delete|attach|detach|grow|stop|close
# The daemon that carries it out is stopped by a tracer before one of its effects (a message, a file made or renamed, a
# flush, a mount), which a recorded run has counted. Meanwhile its client is killed, or the daemon itself, or the
# coordinator. Then it goes on, or starts again. The verb is tried again until it is done, and undone; what was there
# before must be there then, and nothing else: volumes, replicas, files, mounts, loop devices, descriptors.
#   ROUNDS=100 REAL_TIMEOUT=3600 tests/real/run phases:attach     the whole; PHASES_SEED draws the boundaries
source "$(dirname "$0")/../lib.sh"
verb=${1:?a verb} rounds=${ROUNDS:-6}
RANDOM=$((16#$(sha256sum <<< "${PHASES_SEED:-0} $verb" | cut -c1-4) & 32767))
strace -o /dev/null true 2> /dev/null || skip "strace is not installed, or may trace nothing here"
case $verb in attach | detach) [ -e /dev/fuse ] && [ "$(id -u)" = 0 ] || skip "devices need root and FUSE" ;; esac

# Effects that others see or that outlast the process. What only reads or waits changes nothing between two of them.
effects=openat,unlink,unlinkat,rename,renameat,renameat2,mkdir,ftruncate,fallocate,pwrite64,fdatasync,fsync
effects+=,write,writev,sendto,sendmsg,mount,umount2,ioctl,io_uring_enter,close
# n1 coordinates, n2 does what is interrupted, n3 has the other replica.
on=(--on n2:disk --on n3:disk)
kinds=(client daemon coordinator)

# The verb, what makes ready for it, whether it is done, and what undoes it.
run_verb() {
    case $verb in
    create) ek 2 volume create $vol --size 64M --replicas 2 "${on[@]}" ;;
    delete) ek 2 volume delete $vol --yes ;;
    attach) ek 2 attach $vol --as device ;;
    detach) ek 2 detach $vol ;;
    grow) ek 2 volume grow $vol --size $((64 + 16 * round))M ;;
    stop) ek 2 volume stop $vol --yes ;;
    close) ek 2 disk remove spare ;;
    esac
}
json() { ek 3 volume status $vol --json 2> /dev/null; }
exists() { json > /dev/null; }
attached() { jq -e '.volume.primaries | length > 0' <<< "$(json)" > /dev/null; }
has_device() { jq -e '[.volume.primaries[] | select(.here) | .device] | any' <<< "$(ek 2 volume status $vol --json)" > /dev/null; }
has_disk() { jq -e '[.disks[] | select(.node.name == "n2" and .name == "spare")] | any' <<< "$(disk_list 2)" > /dev/null; }
is_stopped() { jq -e --arg v "$vol" '.volumes[] | select(.name == $v) | .state == "stopped"' <<< "$(ek 3 volume list --json)" > /dev/null; }
is_done() {
    case $verb in
    create) exists ;;
    delete) ! exists && ek 3 volume list ;;
    attach) has_device ;;
    detach) exists && ! attached ;;
    grow) [ "$(json | jq .volume.size)" -ge $(((64 + 16 * round) << 20)) ] ;;
    stop) is_stopped ;;
    close) disk_list 2 && ! has_disk ;;
    esac
}
create() { ek 3 volume create $vol --size 64M --replicas 2 "${on[@]}" --quiet; }
make_ready() {
    case $verb in
    delete) create ;;
    detach) ek 2 attach $vol --as device --quiet ;;
    *) : ;;
    esac
}
undo() {
    case $verb in
    create) ek 3 volume delete $vol --yes --quiet ;;
    attach) ek 3 detach $vol --node n2 --quiet ;;
    stop) ek 3 volume assemble $vol --quiet ;;
    close) ek 2 disk add "$work/n2/spare" --name spare --quiet ;;
    *) : ;;
    esac
}

# there: all that may be left behind. The size of a volume grows from round to round, which files replicas are
# (files.json) is remembered some time after they were made, and a node opens its audit log with the first change after
# its start.
there() (
    set +e
    ek 3 volume list --json | jq -cS '[.volumes[] | {name, state, primaries: [.primaries[]?.node.name]}]'
    ek 3 disk list --json | jq -cS '[.disks[] | {node: .node.name, name, state, replicas: ([.replicas[].volume] | sort)}] | sort'
    (cd "$work" && find n2/disk n3/disk n2/spare n2/state n3/state n2/run ! -name files.json -printf '%y %p\n' |
        sed -E "s/[0-9a-f]{8}-[0-9a-f-]{27}/ID/g; s/[0-9a-f]{32}/ID/g" | sort)
    grep -oE "^[^ ]+ ($work|/dev/evenkeel/$vol)[^ ]*" /proc/mounts | sort
    losetup -nO BACK-FILE 2> /dev/null | grep -F "$work" | sort
    ls /dev/evenkeel 2> /dev/null | grep -F "$vol"
    for n in 2 3; do
        find /proc/"${pids[$n]}"/fd -type l -printf '%l\n' 2> /dev/null | grep -vE '^(socket|pipe):|/audit.log$' |
            sed -E "s/[0-9a-f]{8}-[0-9a-f-]{27}/ID/g; s/[0-9a-f]{32}/ID/g; s/^/n$n /" | sort
    done
)
sockets() { find /proc/"${pids[$1]}"/fd -lname 'socket:*' 2> /dev/null | wc -l; }
as_before() { there > "$work/after" 2>&1; cmp -s "$work/before" "$work/after"; }
# is_quiet: whether two looks agree. A node that saves something at that moment has a file more.
is_quiet() { there > "$work/before" 2>&1; sleep 0.5; as_before; }

# trace OPTION…: begins a tracer. One that finds a thread that ends just then gives up, and another one is begun.
trace() {
    for _ in 1 2 3 4 5; do
        strace -f "$@" -p "${pids[2]}" 2> "$work/tracer" & tracer=$!
        helpers=("$tracer")
        for _ in $(seq 100); do
            ! grep -q attached "$work/tracer" || return 0
            kill -0 $tracer 2> /dev/null || break
            sleep 0.05
        done
        kill -KILL $tracer 2> /dev/null || true
        wait $tracer 2> /dev/null || true
    done
    die "the tracer says: $(cat "$work/tracer")"
}

# boundaries: `SYSCALL N` for each effect of a run that nobody interrupts, in their order.
boundaries() {
    trace -o "$work/trace" -e "trace=$effects"
    run_verb > /dev/null
    sleep 0.3
    kill -INT $tracer; wait $tracer || true
    grep -vE 'resumed>|^[0-9]+ +(---|\+\+\+)' "$work/trace" | sed -E 's/^([0-9]+) +([a-z_0-9]+)\(.*/\1 \2/' |
        awk '{ print $2, ++seen[$1 $2] }' | awk '!seen[$0]++'
}

# stands: all of the daemon does, or of a process that it has executed for a step, by its tracer.
stands() { grep -q 'stopped by SIGSTOP' "$work/stop" 2> /dev/null; }

# go_on: whatever was stopped, the daemon or a process that it has executed; fails if none of it is there any more.
go_on() {
    local stopped
    mapfile -t stopped < <(awk '/stopped by SIGSTOP/ { print $1 }' "$work/stop" | sort -u)
    kill -CONT "${pids[2]}" "${stopped[@]}" 2> /dev/null
}

# interrupt KIND SYSCALL N: the verb, stopped there; prints what its client said.
interrupt() {
    local kind=$1 call=$2 n=$3 client
    : > "$work/stop"
    trace -o "$work/stop" -e "trace=$call" -e "inject=$call:signal=SIGSTOP:when=$n"
    run_verb > "$work/answer" 2>&1 & client=$!
    until stands || ! kill -0 $client 2> /dev/null; do sleep 0.02; done
    stands && reached=$((reached + 1)) where="before $call $n" || where="at the end of it"
    case $kind in
    client) kill -KILL $client 2> /dev/null || true ;;
    daemon) kill -KILL "${pids[2]}" $tracer ;;
    coordinator) kill -KILL "${pids[1]}" ;;
    esac
    # A tracer can't let go of a thread that waits for one that stands still.
    while go_on && kill -INT $tracer 2> /dev/null; do sleep 0.02; done
    wait $tracer 2> /dev/null || true
    # What the tracer had stopped when it went stands still, and would for ever.
    go_on || true
    [ $kind != daemon ] || { wait "${pids[2]}" 2> /dev/null || true; start_node 2; }
    # Without a coordinator a client may wait for long; it goes away as well then.
    for _ in $(seq 50); do kill -0 $client 2> /dev/null || break; sleep 0.1; done
    kill -KILL $client 2> /dev/null || true
    wait $client 2> /dev/null || true
    [ $kind != coordinator ] || { wait "${pids[1]}" 2> /dev/null || true; start_node 1; }
}

# again: the verb until it is done; what it says meanwhile is kept.
again() {
    local deadline=$((SECONDS + 60)) tries=0
    until is_done > /dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $SECONDS -ge $deadline ]; then cat "$work/again"; die "$verb does not end well after $tries more attempts"; fi
        run_verb > "$work/again" 2>&1 || sleep 0.2
    done
    echo $tries > "$work/tries"
}

round=0
start_nodes 3
mkdir "$work/n2/spare"
ek 2 disk add "$work/n2/spare" --name spare --quiet
case $verb in
create | delete) ;;
*)
    create
    ek 2 attach $vol --as nbd --quiet
    qemu-io -f raw "$(uri_of $vol 2)" -c 'write -P 0x5a 0 64M' -c flush > "$work/io"
    [ "$verb" = grow ] || ek 2 detach $vol --quiet
    ;;
esac
# Once whole, so that what is made on first use is there.
make_ready; round=1; run_verb > /dev/null; await "$verb" is_done; undo
make_ready; round=2; boundaries > "$work/boundaries"; await "$verb" is_done; undo
count=$(wc -l < "$work/boundaries")
await "all answer" ek 3 volume list --quiet
sleep 1
await "all is quiet" is_quiet
most=$(($(sockets 2) + $(sockets 3) + 8))
say "$verb has $count boundaries"
reached=0
for i in $(seq "$rounds"); do
    round=$((i + 2))
    # Spread over the whole of the verb, each at a place of its own within its share.
    line=$(((i - 1) * count / rounds + RANDOM % (count / rounds + 1) + 1))
    read -r call n < <(sed -n "$((line > count ? count : line))p" "$work/boundaries")
    kind=${kinds[$(((i + RANDOM % 3) % 3))]}
    make_ready
    interrupt $kind "$call" "$n"
    again
    await "it is undone" undo
    deadline=$((SECONDS + 60))
    until as_before && [ $(($(sockets 2) + $(sockets 3))) -le $most ]; do
        [ $SECONDS -lt $deadline ] || { diff "$work/before" "$work/after" && break; die "round $i: $kind lost $where: something is left, or gone"; }
        sleep 0.2
    done
    [ $(($(sockets 2) + $(sockets 3))) -le $most ] || die "round $i: $(sockets 2) and $(sockets 3) sockets, more than $most"
    say "round $i: $kind lost $where: $(head -n 1 "$work/answer" | cut -c1-70); $(cat "$work/tries") more attempts"
done
say "$reached of $rounds were stopped where they should be"
[ $((reached * 2)) -ge "$rounds" ] || die "most boundaries were not reached"

case $verb in
create | delete) exit ;;
grow) ;;
*) ek 2 attach $vol --as nbd --quiet ;;
esac
wait_in_sync $vol
qemu-io -f raw "$(uri_of $vol 2)" -c 'read -P 0x5a 0 64M' > "$work/io"
! grep -qiE 'failed|error' "$work/io" || { cat "$work/io"; die "the data differ"; }
compare_replicas $vol
