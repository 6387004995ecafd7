#!/usr/bin/env bash
# Members of a volume that is attached nowhere: what is said of them comes true when it is attached.
source "$(dirname "$0")/../lib.sh"
start_nodes 3
ek 1 volume create $vol --size 64M --replicas 1 --on n1:disk --quiet
uri=$(attach $vol nbd)
head -c 32M /dev/urandom > "$work/known"
qemu-io -f raw -c "write -s $work/known 0 32M" "$uri" > /dev/null || die "it was not written"
ek 1 detach $vol --quiet
# said WORDS COMMAND…: the command says that.
said() { local words=$1; shift; "$@" > "$work/said" || die "$*: $(cat "$work/said")"; grep -qF -- "$words" "$work/said" || die "$* says: $(cat "$work/said")"; say "$(head -n 1 "$work/said")"; }
states() { ek 1 volume status $vol --json | jq -r '[.volume.mirrors[0].replicas[] | "\(.node.name):\(.state)"] | sort | join(" ")'; }
# attached_until STATES: attached, it becomes that by itself.
attached_until() {
    local wanted=$1
    is_so() { [ "$(states)" = "$wanted" ]; }
    ek 1 attach $vol --as nbd --quiet
    await "$wanted" is_so
    ! ek 1 volume status $vol | grep -qE "when the volume is attached" || die "it is: $(ek 1 volume status $vol)"
    compare_replicas $vol
    ek 1 detach $vol --quiet
}

said "a replica was added on n2:disk; it rebuilds when the volume is attached" ek 3 replica add $vol n2
said "it holds nothing yet; it rebuilds when the volume is attached" ek 3 volume status $vol
refused 6 "attach" ek 3 volume status $vol --check
refused 6 "does not become in-sync by itself" ek 3 replica add $vol n2 --wait --timeout 30s
attached_until "n1:in-sync n2:in-sync"
said "which is to rebuild when the volume is attached" ek 2 volume change $vol --replicas 3
attached_until "n1:in-sync n2:in-sync n3:in-sync"
ek 2 volume change $vol --replicas 2 --yes --quiet
said "it copies when the volume is attached, then the old one is removed" ek 2 replica move $vol n1 --to n3
attached_until "n2:in-sync n3:in-sync"
said "it copies when the volume is attached, then the old one is removed" ek 2 replica replace $vol n3 n1
attached_until "n1:in-sync n2:in-sync"
