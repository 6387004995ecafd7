#!/usr/bin/env bash
# The coordinator is away when a replica is lost: requests wait without an error for as long as it takes, unless the
# volume says otherwise; then what failed is in the status, the metrics and the log. cases/coordinator-away.sh [xfs|ext4]:
# seen by NBD clients, or by mounted filesystems.
source "$(dirname "$0")/../lib.sh"
command -v qemu-io > /dev/null || skip "qemu-io is missing"
kind=${1:-}
start_nodes 3
about() { ek 2 volume status "$1" --json | jq -r "$2"; }

# mounted KIND: a filesystem on each of two volumes, the second one with a limit.
mounted() {
    local v kind=$1 writer
    ek 2 volume create $vol --size 320M --replicas 2 --on n2:disk --on n3:disk --quiet
    ek 2 volume create short$vol --size 320M --replicas 2 --on n2:disk --on n3:disk --on-no-coordinator 5s --quiet
    for v in $vol short$vol; do
        ek 2 mount $v "$work/mnt-$v" --mkfs "$kind" --quiet
        head -c 4M /dev/urandom > "$work/mnt-$v/before"
        sync -f "$work/mnt-$v"
        sha256sum < "$work/mnt-$v/before" > "$work/before-$v"
    done
    is_writable() { grep -qE "^[^ ]+ $1 [^ ]+ rw[, ]" /proc/mounts && touch "$1/touched" 2> /dev/null && sync -f "$1" 2> /dev/null; }
    kill_node 1
    kill_node 3

    # One waits longer than any limit; meanwhile the other one fails, and says so everywhere.
    dd if=/dev/urandom of="$work/mnt-$vol/patient" bs=64k count=64 conv=fsync 2> "$work/patient" &
    writer=$!
    ! dd if=/dev/urandom of="$work/mnt-short$vol/hasty" bs=64k count=64 conv=fsync 2> "$work/hasty" || die "it did not fail"
    grep -qE "Input/output error|Read-only file system" "$work/hasty" || die "it failed otherwise: $(cat "$work/hasty")"
    ! is_writable "$work/mnt-short$vol" || die "the filesystem takes writes although some have failed"
    say "short: $(tail -n 1 "$work/hasty"); $(grep "mnt-short$vol" /proc/mounts | cut -d' ' -f3,4)"
    [ "$(about short$vol '[.volume.failed[] | select(.cause == "no-coordinator").count] | add')" -ge 1 ] || die "it is not counted: $(about short$vol .volume.failed)"
    about short$vol '.volume.failed[] | select(.first > 1700000000 and .last >= .first) | .kind' | grep -q . || die "it is not dated"
    ek 2 volume status short$vol | grep -q "failed .*the coordinator did not answer" || die "the status does not say so"
    grep -q "of a client has failed" "$work/n2/node.log" || die "the log does not say so"
    about short$vol '.volume.events[].message' | grep -q "of a client has failed" || die "no event"
    curl -sf --unix-socket "$work/n2/run/api.sock" http://x/metrics > "$work/metrics"
    grep -q "failed_requests_total{volume=\"short$vol\",.*cause=\"no-coordinator\"} [1-9]" "$work/metrics" || die "no metric"
    say "short: $(ek 2 volume status short$vol | grep failed)"

    ! timeout 65 tail --pid=$writer -f /dev/null || die "it did not wait: $(cat "$work/patient")"
    ek 2 volume status $vol | grep -q "the coordinator does not answer" || die "the status does not say what it waits for"
    start_node 1
    wait $writer || die "it failed: $(cat "$work/patient")"
    is_writable "$work/mnt-$vol" || die "the filesystem does not take writes: $(grep "mnt-$vol" /proc/mounts)"
    [ "$(about $vol '.volume.failed | length')" = 0 ] || die "something failed: $(about $vol .volume.failed)"
    say "$vol: $(tail -n 1 "$work/patient"), without an error"

    # What failed was never acknowledged: its filesystem repairs itself, and has what was there before.
    umount "$work/mnt-short$vol"
    ek 2 mount short$vol "$work/mnt-short$vol" --quiet
    is_writable "$work/mnt-short$vol" || die "the filesystem is not whole again"
    start_node 3
    for v in $vol short$vol; do
        sha256sum --quiet -c <(sed "s#-#$work/mnt-$v/before#" "$work/before-$v") || die "$v has lost what it had"
        ek 2 umount "$work/mnt-$v" --keep-attached --quiet
        case $kind in
        xfs) xfs_repair -n "$(ek 2 volume status $v --json | jq -r '.volume.primaries[0].device')" > "$work/repair" 2>&1 ;;
        ext4) e2fsck -fn "$(ek 2 volume status $v --json | jq -r '.volume.primaries[0].device')" > "$work/repair" 2>&1 ;;
        esac || { cat "$work/repair"; die "the filesystem of $v is damaged"; }
        ek 2 detach $v --quiet
        ek 2 attach $v --as none --quiet
        wait_in_sync $v
        compare_replicas $v
        ek 2 detach $v --quiet
    done
}
[ -z "$kind" ] || { mounted "$kind"; exit 0; }

ek 1 volume create $vol --size 64M --replicas 2 --on n2:disk --on n3:disk --quiet
ek 1 volume create short --size 64M --replicas 2 --on n2:disk --on n3:disk --on-no-coordinator 5s --quiet
for v in $vol short; do ek 2 attach $v --as nbd --quiet; done
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
ek 2 volume status short | grep -q "failed .*the coordinator did not answer" || die "the status does not say so"
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
