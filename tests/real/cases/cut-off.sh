#!/usr/bin/env bash
# A node is killed in the midst of `volume create` or `volume delete`, at several moments, and its
# answer is lost: cases/cut-off.sh create|delete
# Afterwards each volume is there with all its replicas, or nothing of it is.
source "$(dirname "$0")/../lib.sh"
what=$1
start_nodes 3
# Which node is killed: the one that was asked, one that holds a replica, the coordinator's.
asked=2
declare -A victims=([asked]=2 [holder]=3 [coordinator]=1)

# The volumes that the coordinator knows, and those of which nodes hold replicas, each as often.
volumes() { ek 1 volume list --json | jq -r '.volumes[].name' | sort; }
held() { for n in 1 2 3; do disk_list $n; done | jq -r '.disks[] | select(.name == "disk") | [.node.name, (.replicas[] | .volume // "?")] | .[1:][] as $v | .[0] + " " + $v' | sort -u; }
files() { find "$work"/n?/disk -name '*.replica*' | wc -l; }

nothing_orphaned() {
    local wanted
    wanted=$(for v in $(volumes); do for n in 1 2 3; do echo "n$n $v"; done; done | sort)
    [ "$(held)" = "$wanted" ] && [ "$(files)" = "$(grep -c . <<< "$wanted")" ]
}

# cut_off VICTIM DELAY COMMAND…: the victim is killed so long after the command has begun.
cut_off() {
    local n=${victims[$1]} delay=$2 command status=0; shift 2
    ek $asked "$@" > "$work/answer" 2>&1 & command=$!
    sleep "$delay"
    kill_node "$n" > /dev/null
    wait $command || status=$?
    start_node "$n"
    say "n$n killed after $delay s of: $* -> code $status, $(grep -m 1 . "$work/answer" || echo 'no answer')"
}

# A command takes some 20 to 100 ms here; the moments lie on both sides of that.
moments="0.01 0.02 0.03 0.05 0.08 0.15"
number=0
for victim in asked holder coordinator; do
    for delay in $moments; do
        number=$((number + 1)) name=$vol-$number
        if [ "$what" = delete ]; then
            created() { ek 3 volume create "$name" --size 64M --replicas 3 --quiet; }
            await "$name is created" created
        fi
        case $what in
        create) cut_off $victim "$delay" volume create "$name" --size 64M --replicas 3 ;;
        delete) cut_off $victim "$delay" volume delete "$name" --yes ;;
        esac
    done
done
await "all nodes answer" ek 1 volume list
say "volumes: $(volumes | wc -l) of $number; replica files: $(files)"
nothing_orphaned || say "replicas without a volume, still: $(held | wc -l) held, $(files) files"
await "nothing is orphaned" nothing_orphaned
say "every volume has its replicas, and nothing else is left"

# What is there works, and the same command again says what is the matter or does it.
for name in $(volumes); do
    # Nodes that the coordinator has not heard since its start are not known to be there.
    await "$name is whole" ek 1 volume status "$name" --check --quiet
    if [ "$what" = delete ]; then ek $asked volume delete "$name" --yes --quiet || die "$name cannot be deleted by a second attempt"; fi
done
await "nothing is orphaned" nothing_orphaned
if [ "$what" = delete ]; then [ "$(files)" = 0 ] || die "files are left: $(files)"; fi
first=$(volumes | head -n 1)
if [ "$what" = create ] && [ -n "$first" ]; then
    uri=$(attach "$first" nbd)
    qemu-io -f raw "$uri" -c 'write -P 0x77 0 8M' -c flush -c 'read -P 0x77 0 8M' > "$work/io"
    ! grep -qiE 'failed|error' "$work/io" || { cat "$work/io"; die "$first does not work"; }
    ek 1 detach "$first" --quiet
fi
