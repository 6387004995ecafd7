#!/usr/bin/env bash
# What a node costs that has nothing to do: cases/idle.sh cpu|replicas
# cpu: with attached volumes that nobody uses. replicas: with a thousand of them on one disk.
source "$(dirname "$0")/../lib.sh"

# cpu_ns N: nanoseconds that the threads of node N have run so far.
cpu_ns() { cat "/proc/${pids[$1]}"/task/*/schedstat | awk '{ns += $1} END {printf "%d\n", ns}'; }
# rss N: KiB of memory that node N has, without what is backed by its program's file.
rss() { awk '/^RssAnon/ {print $2}' "/proc/${pids[$1]}/status"; }

# rest COUNT: for 30 s nothing is asked of anybody; the nodes' use of one core then, in per mille of
# a per cent (0.001 %), as `used`.
rest() {
    local n before=() used_now
    sleep 5 # what attaching has left to be done
    for n in 1 2 3; do before[n]=$(cpu_ns $n); done
    sleep 30
    used=()
    for n in 1 2 3; do
        used_now=$((($(cpu_ns $n) - before[n]) / 300000))
        used[n]=$used_now
    done
    say "$1 volumes attached on n1, 3 replicas each: $(for n in 1 2 3; do printf 'n%d %d.%03d %%  ' $n $((used[n] / 1000)) $((used[n] % 1000)); done)of a core"
}

cpu() {
    local i none=() each
    start_nodes 3
    rest 0
    none=("${used[@]}")
    for i in $(seq 20); do
        ek 1 volume create "$vol-$i" --size 16M --replicas 3 --quiet
        attach "$vol-$i" nbd > /dev/null
        [ "$i" != 1 ] || rest 1
    done
    rest 20
    for n in 1 2 3; do
        each=$(((used[n] - none[n - 1]) / 20))
        say "n$n: $((each / 1000)).$(printf %03d $((each > 0 ? each % 1000 : 0))) % of a core for each volume"
        [ $each -le 100 ] || die "n$n takes more than 0.1 % of a core for each idle volume"
    done
    for i in $(seq 20); do ek 1 detach "$vol-$i" --quiet; done
}

replicas() {
    local count=1000 empty begun took this full _
    start_nodes 1
    empty=$(rss 1)
    seq $count | xargs -P 4 -I{} "$evenkeel" --socket "$work/n1/run/api.sock" volume create "$vol-{}" --size 4M --replicas 1 --quiet
    took=
    # The best of three: other work on the machine only slows a start down.
    for _ in 1 2 3; do
        stop_node 1
        begun=$(date +%s%N)
        start_node 1
        this=$((($(date +%s%N) - begun) / 1000000))
        [ -n "$took" ] && [ "$took" -le $this ] || took=$this
    done
    ek 1 disk list --json | jq -e --argjson count $count \
        '[.disks[].replicas[] | select(.problem == null)] | length == $count' > /dev/null || die "not all replicas are served"
    sleep 3
    full=$(rss 1)
    say "a node with $count replicas answers after $took ms; $empty KiB of memory before, $full KiB with them: $(((full - empty) * 1024 / count)) bytes for each"
    [ $took -le 5000 ] || die "the start takes more than 5 s"
    [ $(((full - empty) / count)) -le 64 ] || die "an idle replica takes more than 64 KiB"
    # One of them is as good as any.
    uri=$(attach "$vol-777" nbd)
    qemu-io -f raw "$uri" -c 'write -P 0x77 0 1M' -c flush -c 'read -P 0x77 0 1M' > "$work/io"
    ! grep -qiE 'failed|error' "$work/io" || { cat "$work/io"; die "a replica does not work"; }
    ek 1 detach "$vol-777" --quiet
}

"$1"
