#!/usr/bin/env bash
# A volume that is looked after while fio writes and verifies: cases/care.sh bitmap|verify|rebuild|slow
source "$(dirname "$0")/../lib.sh"
what=$1
[ "$what" != slow ] || TIMES='lag_window_ms = 500
lag_pause_seconds = 2'
start_nodes 3

status() { ek 1 volume status $vol --json | jq -r "$1"; }
state() { status '.volume.mirrors[0].replicas[] | select(.node.name == "'"$1"'") | .state'; }
is() { [ "$(state "$1")" = "$2" ]; }
replica_file() { echo "$work/n$1/disk"/*.replica; }
# What the replica on n3 got from another one in its last rebuild, in bytes.
copied() { status '[.volume.mirrors[0].replicas[] | select(.node.name == "n3") | .rebuild.copied // 0] | max'; }

# With checksums a verify would not find what was changed behind its back to differ, but to be damaged: see rot.
checksums=crc32c; [ "$what" != verify ] || checksums=none
ek 1 volume create $vol --size 256M --replicas 3 --checksums $checksums --quiet
uri=$(attach $vol nbd)
head -c 64M /dev/urandom > "$work/known"
truncate -s 256M "$work/image"
dd if="$work/known" of="$work/image" conv=notrunc status=none
nbdcopy --flush "$work/image" "$uri"
# More at once than a slow node carries out each time that it gets the processor, so that most of its writes are slow.
depth=16; [ "$what" != slow ] || depth=64
fio --name=load --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=$depth --offset=64M --size=192M \
    --verify=crc32c --verify_backlog=512 --verify_fatal=1 --rate_iops=3000 --time_based --runtime=600 \
    --eta=never > "$work/fio.out" 2>&1 &
fio=$!
helpers+=($fio)
sleep 1
end_load() {
    kill -0 $fio 2> /dev/null || die "fio ended: $(cat "$work/fio.out")"
    kill -INT $fio; wait $fio || true # interrupted, it ends with a code of its own
    grep -q "err= 0" "$work/fio.out" || die "fio saw an error: $(cat "$work/fio.out")"
    say "fio read back what it wrote, to the end"
}

case $what in
bitmap)
    for bitmap in none internal none internal; do
        before=$(status .volume.generation)
        ek 2 volume change $vol --bitmap $bitmap --quiet
        [ "$(status .volume.bitmap)" = $bitmap ] || die "the bitmap is $(status .volume.bitmap)"
        [ "$(status .volume.generation)" = $((before + 1)) ] || die "generation $before -> $(status .volume.generation)"
        ek 3 volume change $vol --bitmap $bitmap | grep -q "it was so already" || die "the second change does not say so"
        [ "$(status .volume.generation)" = $((before + 1)) ] || die "asking twice changed the view"
        sleep 0.5
        "$evenkeel" examine "$(replica_file 3)" > "$work/examined"
        say "bitmap $bitmap: $(grep -i "open" "$work/examined" | head -n 1 | xargs)"
    done
    has_regions() { "$evenkeel" examine "$(replica_file 3)" > "$work/examined"; grep -q "may differ, $region each" "$work/examined"; }
    # Regions of other sizes: what is open stays open, under other numbers.
    for size in "256K 2032" "64M 4" "1M 200"; do
        read -r region places <<< "$size"
        before=$(status .volume.generation)
        ek 2 volume change $vol --region-size "$region" --open-regions "$places" --quiet
        [ "$(status '"\(.volume.region_size) \(.volume.open_regions)"')" = "$(numfmt --from=iec "$region") $places" ] \
            || die "the log is $(status '.volume | {region_size, open_regions}')"
        ek 3 volume change $vol --region-size "$region" | grep -q "it was so already" || die "the second change does not say so"
        [ "$(status .volume.generation)" = $((before + 1)) ] || die "asking twice changed the view"
        await "n3's log has regions of $region" has_regions
        say "regions of $region: $(grep -i "places open" "$work/examined" | head -n 1 | xargs)"
    done
    refused 1 "power of two" ek 1 volume change $vol --region-size 3M
    refused 1 "longest request" ek 1 volume change $vol --region-size 128K --open-regions 1024
    # Switched once more just before a crash: both tables lead to identical replicas.
    ek 1 volume change $vol --bitmap none --quiet
    kill_node 3; sleep 1; start_node 3
    wait_in_sync $vol
    ;;
verify)
    end_load
    ek 1 volume verify $vol --wait | tee "$work/verdict" | grep -q "all in-sync replicas identical" || die "$(cat "$work/verdict")"
    # Rot that no disk reports: 1 MiB + 5 MiB is byte 5 MiB of the volume.
    for n in 1 2 3; do
        file=$(replica_file $n)
        dd if=/dev/urandom of="$file" bs=4096 count=2 seek=$((256 + n * 1280)) conv=notrunc,fsync status=none
    done
    status=0; ek 2 volume verify $vol --wait > "$work/verdict" || status=$?
    [ $status = 1 ] || die "exit code $status although replicas differ: $(cat "$work/verdict")"
    grep -q "24K differ between replicas" "$work/verdict" || die "$(cat "$work/verdict")"
    for n in 1 2 3; do
        grep -q "bytes $((n * 5 << 20)) to $(((n * 5 << 20) + 8192)): different on n1:.*, n2:.*, n3:" "$work/verdict" || die "n$n: $(cat "$work/verdict")"
    done
    # Without checksums two that agree do not outvote the third: whatever is damaged, a repair leaves it to a person.
    data() { for n in 1 2 3; do dd if="$(replica_file $n)" bs=1M skip=1 count=256 status=none | sha256sum; done; }
    found=$(data)
    status=0; ek 3 volume verify $vol --repair --wait > "$work/verdict" || status=$?
    [ $status = 1 ] || die "exit code $status although nobody is right: $(cat "$work/verdict")"
    grep -q "0 repaired; of 24K nobody knows which content is right: .* volume verify $vol --repair --source REPLICA" "$work/verdict" \
        || die "$(cat "$work/verdict")"
    [ "$(data)" = "$found" ] || die "the repair wrote without a source"
    # n2 has the good copy of what n1 and n3 have damaged, and gets its own back from the test.
    dd if="$work/image" of="$(replica_file 2)" bs=4096 count=2 skip=2560 seek=$((256 + 2560)) conv=notrunc,fsync status=none
    ek 3 volume verify $vol --repair --source n2 --wait | grep -q "16K repaired" || die "not repaired"
    ek 1 volume verify $vol --wait | grep -q "identical" || die "still different"
    # Each has something else there: nobody is right until one is named.
    dd if="$(replica_file 2)" of="$work/kept" bs=4096 count=1 skip=$((256 + 5120)) status=none
    for n in 1 3; do
        dd if=/dev/urandom of="$(replica_file $n)" bs=4096 count=1 seek=$((256 + 5120)) conv=notrunc,fsync status=none
    done
    status=0; ek 1 volume verify $vol --repair --wait > "$work/verdict" || status=$?
    [ $status = 1 ] || die "exit code $status although nobody is right: $(cat "$work/verdict")"
    grep -q "of 4K nobody knows which content is right" "$work/verdict" || die "$(cat "$work/verdict")"
    dd if="$(replica_file 2)" bs=4096 count=1 skip=$((256 + 5120)) status=none | cmp "$work/kept" - || die "it was overwritten"
    refused 2 "--repair" ek 1 volume verify $vol --source n2
    ek 1 volume verify $vol --repair --source n2 --wait | grep -q "4K repaired" || die "not repaired from n2"
    ek 1 volume verify $vol --wait | grep -q "identical" || die "still different"
    nbdcopy "$uri" "$work/after"
    cmp --bytes=$((64 << 20)) "$work/known" "$work/after" || die "the wrong copy won"
    refused 3 "no volume" ek 1 volume verify nosuch
    fio=
    ;;
rebuild)
    ek 2 volume rebuild $vol --pause --quiet
    ek 2 volume rebuild $vol --pause | grep -q "it was so already" || die "pausing twice does not say so"
    kill_node 3; sleep 2; start_node 3
    await "n3 is rebuilding" is n3 rebuilding
    sleep 2
    is n3 rebuilding || die "n3 is $(state n3) although rebuilds are paused"
    [ "$(copied)" = 0 ] || die "$(copied) bytes were copied"
    ek 1 volume status $vol | grep -q "an operator paused it" || die "the status does not say why"
    begun=$(date +%s%3N)
    ek 1 volume rebuild $vol --limit 8M --quiet
    sleep 3
    bytes=$(copied) took=$(($(date +%s%3N) - begun))
    say "$took ms at 8M/s: $bytes bytes"
    [ "$bytes" -lt $(((took + 2000) * (8 << 20) / 1000)) ] || die "faster than its limit"
    ek 1 volume rebuild $vol --resume --quiet
    wait_in_sync $vol
    ;;
slow)
    # n3 gets hardly any of the processor, and never waits for it as long as the deadline.
    group=/sys/fs/cgroup/cpu/$vol
    leave_group() {
        local process
        while read -r process; do echo "$process" > /sys/fs/cgroup/cpu/cgroup.procs; done < "$group/cgroup.procs"
        rmdir "$group"
    }
    trap 'status=$?; leave_group 2> /dev/null || true; (exit $status); cleanup' EXIT
    mkdir "$group" 2> /dev/null && [ -f "$group/cpu.cfs_quota_us" ] || skip "no control group for the processor"
    sleep 2
    echo 400000 > "$group/cpu.cfs_period_us"
    echo 2000 > "$group/cpu.cfs_quota_us"
    echo "${pids[3]}" > "$group/cgroup.procs"
    lagging() { ek 1 volume status $vol --json | jq -e '.volume.mirrors[0].replicas[] | select(.cause == "lagging")'; }
    await "n3 leaves because it is slow" lagging
    ek 1 volume status $vol --json | jq -r '.volume.events[].message' | grep "in the median" || die "no numbers"
    leave_group
    wait_in_sync $vol
    ;;
*) die "no such case: $what" ;;
esac
[ -z "$fio" ] || end_load
wait_in_sync $vol
ek 1 detach $vol --quiet
compare_replicas $vol
