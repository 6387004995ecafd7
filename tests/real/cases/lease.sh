#!/usr/bin/env bash
# The node of a primary is cut off, another node takes over and changes a block: the old primary, which its
# clients still reach, does not go on reading what was there before. cases/lease.sh differ|change
# differ   the old primary's node is configured with a lease that is thirty times as long
# change   the volume had that long lease until a moment ago, and another node was told to shorten it
source "$(dirname "$0")/../lib.sh"
what=${1:-differ}
[ "$(id -u)" = 0 ] || skip "network namespaces are made by root"
namespaces 3
for n in 1 2 3; do
    prepare_node $n
    # The section that the configuration ends with is the coordinator's.
    [ $n != 1 ] || echo "expiry_seconds = 3" >> "$work/n1/evenkeel.toml"
    lease=2000
    [ $n != 2 ] || lease=60000
    printf '[times]\nlease_ms = %s\nlease_margin_ms = 200\ndeadline_ms = 1000\n' $lease >> "$work/n$n/evenkeel.toml"
    start_node $n
done
for n in 1 2 3; do await "n$n is a member" ek $n disk add "$work/n$n/disk" --name disk; done

# io NODE COMMAND…: of an NBD client on this node; ends with an error if nothing comes back within 3 s.
io() {
    local n=$1; shift
    timeout 3 qemu-io -f raw "$(uri_of $vol "$n")" "$@" > "$work/io" 2>&1 && ! grep -qiE "failed|error" "$work/io"
}
maker=1
[ "$what" = differ ] || maker=2
ek $maker volume create $vol --size 64M --replicas 3 --quiet
ek 2 attach $vol --as nbd --quiet
await "n2 writes" io 2 -c "write -P 17 0 64k" -c "flush"
old=$(uri_of $vol 2)
if [ "$what" = change ]; then
    refused 1 "lease" ek 3 volume change $vol --lease 5ms
    ek 3 volume change $vol --lease 2s
    ek 3 volume status $vol --json | jq -e '.volume | .lease_ms == 2000 and .lease_margin_ms == 200' > /dev/null || die "the lease is not shown"
fi

# n2 reaches nobody any more; its clients reach it through a unix socket.
ip -n "$netns" link set port2 down
begun=$SECONDS
await "n3 takes over" ek 3 attach $vol --as nbd --quiet
took=$((SECONDS - begun))
await "n3 writes" io 3 -c "write -P 34 0 64k" -c "flush"
say "n3 took over within $took s, and has changed a block"
for _ in 1 2 3; do
    if timeout 1 qemu-io -r -f raw "$old" -c "read -P 17 0 64k" > "$work/old" 2>&1 && grep -q "^read 65536/65536" "$work/old" && ! grep -q "verification failed" "$work/old"; then
        die "n2 reads what n3 has replaced"
    fi
done
say "n2 answers nothing any more"
[ "$took" -lt 50 ] || die "n3 waited for longer than the volume's lease"
