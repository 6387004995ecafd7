#!/usr/bin/env bash
# interrupts.sh [TIMES] [SEED] [SECONDS]: a run is interrupted at random moments of its first SECONDS
# (without that, of all of it), by SIGINT, SIGTERM, and SIGKILL followed by `evenkeel bench clean`.
# Nothing may be left of it.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
times=${1:-10}
RANDOM=$((16#$(printf '%s' "${2:-$$}" | sha256sum | cut -c1-4)))

# Processes, namespaces, loop devices, FUSE mounts and filesystems: all that there is to undo.
start() {
    exec "$evenkeel" bench network-storage --scale 0.004 --rounds 1 --skip-missing \
        --only replica-2-c,qemu-nbd,gluster-fuse --scratch "$work/scratch" --out "$work/out"
}

# whole_run: how long it takes, in ms; and that nothing is left by it either.
whole_run() {
    local begun owner
    begun=$(date +%s%N)
    start > whole.log 2>&1 &
    owner=$!
    wait $owner || { cat whole.log >&2; die "the run itself"; }
    ! left $owner >&2 || die "left behind by a whole run"
    echo $((($(date +%s%N) - begun) / 1000000))
}
if [ -n "${3:-}" ]; then whole=$(($3 * 1000)); else
    say "a whole run, to know how long it takes"
    whole=$(whole_run)
fi

signals=(INT TERM KILL)
for ((i = 0; i < times; i++)); do
    signal=${signals[i % 3]}
    moment=$(((RANDOM * 32768 + RANDOM) % whole))
    # A child of a script in the background ignores SIGINT unless told otherwise.
    setsid env --default-signal=INT bash -c "$(declare -f start); evenkeel='$evenkeel' work='$work'; start" > "run$i.log" 2>&1 &
    owner=$!
    sleep "$((moment / 1000)).$(printf '%03d' $((moment % 1000)))"
    stage=$(tail -n 1 "run$i.log" | tr -d '\r' || true)
    kill -"$signal" $owner 2> /dev/null || say "it had ended before"
    status=0
    wait $owner 2> /dev/null || status=$?
    [ $signal != KILL ] || "$evenkeel" bench clean > clean.log 2>&1 || { cat clean.log; die "clean"; }
    left "$owner" && die "left behind after SIG$signal at $moment ms"
    say "SIG$signal at $moment of $whole ms (status $status): nothing is left. It was at: $stage"
    # A run that was killed has no chance to tell; the others do.
    case $signal:$status in
    KILL:* | *:0 | *:130) ;;
    *) cat "run$i.log"; die "status $status after SIG$signal" ;;
    esac
done
