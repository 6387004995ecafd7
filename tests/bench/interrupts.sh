#!/usr/bin/env bash
# interrupts.sh [TIMES] [SEED]: a run is interrupted at random moments, by SIGINT, SIGTERM, and
# SIGKILL followed by `evenkeel bench clean`. Nothing may be left of it.
source "$(dirname "$0")/lib.sh"
times=${1:-10}
RANDOM=$((16#$(printf '%s' "${2:-$$}" | sha256sum | cut -c1-4)))

# Processes, namespaces, loop devices, FUSE mounts and filesystems: all that there is to undo.
start() {
    exec "$evenkeel" bench network-storage --scale 0.004 --rounds 1 --skip-missing \
        --only replica-2-c,qemu-nbd,gluster-fuse --scratch "$work/scratch" --out "$work/out"
}

say "a whole run, to know how long it takes"
begun=$(date +%s%N)
start > whole.log 2>&1 &
owner=$!
wait $owner || { cat whole.log; die "the run itself"; }
whole=$((($(date +%s%N) - begun) / 1000000))
left $owner && die "left behind by a whole run"
for id in replica-2-c qemu-nbd gluster-fuse; do
    grep -q "round 1 fio-random-write $id: [0-9]" whole.log || say "without $id"
done

signals=(INT TERM KILL)
for ((i = 0; i < times; i++)); do
    signal=${signals[i % 3]}
    moment=$(((RANDOM * 32768 + RANDOM) % whole))
    # A child of a script in the background ignores SIGINT unless told otherwise.
    setsid env --default-signal=INT bash -c "$(declare -f start); evenkeel='$evenkeel' work='$work'; start" > "run$i.log" 2>&1 &
    owner=$!
    sleep "$((moment / 1000)).$(printf '%03d' $((moment % 1000)))"
    stage=$(tail -n 1 "run$i.log" | tr -d '\r' || true)
    kill -$signal $owner 2> /dev/null || say "it had ended before"
    status=0
    wait $owner 2> /dev/null || status=$?
    [ $signal != KILL ] || "$evenkeel" bench clean > clean.log 2>&1 || { cat clean.log; die "clean"; }
    left $owner && die "left behind after SIG$signal at $moment ms"
    say "SIG$signal at $moment of $whole ms (status $status): nothing is left. It was at: $stage"
    # A run that was killed has no chance to tell; the others do.
    case $signal:$status in
    KILL:* | *:0 | *:130) ;;
    *) cat "run$i.log"; die "status $status after SIG$signal" ;;
    esac
done
