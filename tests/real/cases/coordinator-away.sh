#!/usr/bin/env bash
# The coordinator is away when a replica is lost: requests wait without an error for as long as it takes, unless the
# volume says otherwise; then what failed is in the status, the metrics and the log.
source "$(dirname "$0")/../lib.sh"
command -v qemu-io > /dev/null || skip "qemu-io is missing"
start_nodes 3
ek 1 volume create $vol --size 64M --replicas 2 --on n2:disk --on n3:disk --quiet
ek 1 volume create short --size 64M --replicas 2 --on n2:disk --on n3:disk --on-no-coordinator 5s --quiet
for v in $vol short; do ek 2 attach $v --as nbd --quiet; done
about() { ek 2 volume status "$1" --json | jq -r "$2"; }
export_of_vol=$(uri_of $vol 2); export_of_short=$(uri_of short 2)
[ "$(about $vol '.volume.no_coordinator.policy')" = suspend ] || die "the default is not to wait"

kill_node 1
kill_node 3
qemu-io -f raw -c 'write -P 7 0 4k' "$export_of_vol" > "$work/patient" 2>&1 &
patient=$!
! qemu-io -f raw -c 'write -P 7 0 4k' "$export_of_short" > "$work/hasty" 2>&1 || die "it did not fail"
grep -q "Input/output error" "$work/hasty" || die "it failed otherwise: $(cat "$work/hasty")"
# A second one: the wait is still told from its beginning.
! qemu-io -f raw -c 'write -P 7 0 4k' "$export_of_short" > /dev/null 2>&1 || die "it did not fail"
[ "$(about short '[.volume.failed[] | select(.kind == "write" and .cause == "no-coordinator").count] | add')" -ge 2 ] \
    || die "the failures are not counted: $(about short .volume.failed)"
[ "$(about short '.volume.suspended.seconds')" -ge 9 ] || die "the wait began anew: $(about short .volume.suspended)"
ek 2 volume status short | grep -q "failed .*the coordinator does not answer" || die "the status does not say so"
curl -sf --unix-socket "$work/n2/run/api.sock" http://x/metrics > "$work/metrics"
grep -q 'failed_requests_total{volume="short",kind="write",cause="no-coordinator"} [2-9]' "$work/metrics" || die "no metric"
about short '.volume.events[].message' | grep -q "a write of a client has failed" || die "no event"
say "short: $(ek 2 volume status short | grep failed)"

# The other one waits longer than any limit, and goes on.
! timeout 65 tail --pid=$patient -f /dev/null || die "it did not wait: $(cat "$work/patient")"
start_node 1
wait $patient || die "it failed: $(cat "$work/patient")"
grep -q "wrote 4096/4096" "$work/patient" || die "it did not write: $(cat "$work/patient")"
[ "$(about $vol '.volume.failed | length')" = 0 ] || die "something failed: $(about $vol .volume.failed)"
say "$vol: $(tail -n 2 "$work/patient" | head -n 1), without an error"
