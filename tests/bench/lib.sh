# shellcheck shell=bash
# What every case uses: a scratch directory of its own, and a look at what a run has left behind.
# Sourced by the cases; needs root.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
evenkeel=${EVENKEEL:-$root/target/release/evenkeel}
work=$(mktemp -d "${BENCH_SCRATCH:-/var/tmp}/evenkeel-benchtest-XXXXXX")
mkdir "$work/scratch" "$work/out"
cd "$work"
export PATH=$PATH:/usr/sbin:/sbin

say() { echo "--- $*"; }
die() { echo "FAILED: $*" >&2; exit 1; }

# bench ARGUMENTS…: the command, with what it writes in this case's directories.
bench() { "$evenkeel" bench "$@" --scratch "$work/scratch" --out "$work/out"; }

# left PID: what the run of this process has left: processes, mounts, loop devices, namespaces,
# devices and files. Fails if there is nothing.
left() {
    local owner=$1 environment
    {
        grep -F "$work/scratch" /proc/mounts
        losetup -nO NAME,BACK-FILE | grep -F "$work/scratch"
        ip netns list | grep -E "^ekbench-[a-z]+-$owner\b"
        ls -d /dev/evenkeel/bench-*-"$owner" /run/evenkeel-bench/"$owner"-* "$work"/scratch/* 2> /dev/null
        for environment in /proc/[0-9]*/environ; do
            tr '\0' '\n' 2> /dev/null < "$environment" | grep -qE "^EVENKEEL_BENCH_(TOOL|SERVER)=$owner-" &&
                echo "process $environment $(tr '\0' ' ' < "${environment%environ}cmdline" || true)"
        done
    } 2> /dev/null | grep .
}

finish() {
    local status=$? image
    if [ "$status" != 0 ]; then
        echo "the end of what was printed:"
        tail -n 15 "$work"/*.log 2> /dev/null || true
        "$evenkeel" bench clean > /dev/null 2>&1 || true
    fi
    cd /
    for image in "$work"/mnt*; do ! mountpoint -q "$image" || umount "$image"; done
    losetup -nO NAME,BACK-FILE | awk -v work="$work/" 'index($2, work) == 1 {print $1}' | xargs -r losetup -d
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
