#!/usr/bin/env bash
# What is wrong is refused with what, why and what to do, and nothing is lost:
# cases/bad-input.sh commands|disks|full|superblock|addresses|garbage
source "$(dirname "$0")/../lib.sh"
export PEERS=tcp
which=$1

known_data() {
    ek 1 volume create $vol --size 128M --replicas 3 --quiet
    uri=$(attach $vol nbd)
    qemu-io -f raw "$uri" -c 'write -P 0x77 0 8M' -c flush > /dev/null
}
still_there() {
    qemu-io -f raw "$uri" -c 'read -P 0x77 0 8M' > "$work/read"
    ! grep -qiE 'failed|error' "$work/read" || { cat "$work/read"; die "data is lost"; }
    say "the data is still there"
}

commands() {
    start_nodes 3
    known_data
    refused 2 "size" ek 1 volume create new --size 4X
    refused 2 "size zero" ek 1 volume create new --size 0
    refused 2 "protocol" ek 1 volume create new --size 64M --protocol D
    refused 2 "replicas" ek 1 volume create new --size 64M --replicas 17
    refused 1 "name" ek 1 volume create 'bad/name' --size 64M
    refused 1 "$vol" ek 1 volume create $vol --size 64M
    refused 1 "disk" ek 1 volume create new --size 900T
    refused 1 "disk" ek 1 volume create new --size 64M --replicas 5
    refused 3 "nowhere" ek 1 volume create new --size 64M --replicas 1 --on n1:nowhere
    refused 3 "nobody" ek 1 volume status nobody
    refused 3 "nobody" ek 1 attach nobody
    refused 4 "attached" ek 1 volume delete $vol
    refused 4 "attached" ek 1 volume delete $vol --yes
    refused 3 "n9" ek 1 replica fail $vol n9
    refused 5 "socket" "$evenkeel" --socket "$work/none.sock" volume list
    touch "$work/file"
    refused 2 "directory $work/file" ek 1 mount $vol "$work/file" --mkfs ext4
    refused 4 "in-sync fail first n3:disk" ek 1 replica remove $vol n3
    ek 1 replica fail $vol n3 --quiet
    refused 4 "removed for good n3 --yes" ek 1 replica remove $vol n3
    ek 1 replica fail $vol n2 --quiet
    refused 4 "last" ek 1 replica fail $vol n1
    refused 6 "degraded" ek 1 volume status $vol --check
    refused 7 "in-sync" ek 1 volume status $vol --wait in-sync --timeout 1s
    # Nothing will happen by itself: told at once, not after the time-out.
    refused 6 "is faulty" timeout 20 "$evenkeel" --socket "$work/n1/run/api.sock" volume status $vol --wait in-sync
    still_there
    ek 1 replica re-add $vol n2 --quiet
    ek 1 replica re-add $vol n3 --wait --timeout 2m --quiet
    refused 4 "replica" ek 3 disk remove disk
    still_there
}

disks() {
    start_nodes 1
    refused 1 "none" ek 1 disk add "$work/none"
    truncate -s 512K "$work/small"
    small=$(losetup --show -f "$work/small")
    refused 1 "512K least larger" ek 1 disk add "$small"
    truncate -s 128M "$work/ext4"
    mkfs.ext4 -q "$work/ext4"
    loop=$(losetup --show -f "$work/ext4")
    refused 4 "ext4 force" ek 1 disk add "$loop"
    mkdir "$work/mnt"
    mount "$loop" "$work/mnt"
    refused 4 "mounted" ek 1 disk add "$loop" --force
    umount "$work/mnt"
    # What would be lost is told before, and is there afterwards.
    refused 4 "ext4 force" ek 1 disk add "$loop" --dry-run
    before=$(sha256sum < "$work/ext4")
    ek 1 disk add "$loop" --name loop --force --dry-run > "$work/told"
    grep -q "^disk loop would be added; it holds .*ext4.*, which would be lost for good" "$work/told" || die "$(cat "$work/told")"
    [ "$(sha256sum < "$work/ext4")" = "$before" ] || die "--dry-run has written to the disk"
    [ "$(ek 1 disk list --json | jq '[.disks[] | select(.name == "loop")] | length')" = 0 ] || die "--dry-run has added the disk"
    ek 1 disk add "$loop" --name loop --force
    refused 1 "loop" ek 1 disk add "$work" --name loop
    truncate -s 128M "$work/fixed"
    mkfs.ext4 -q "$work/fixed"
    fixed=$(losetup --show --read-only -f "$work/fixed")
    refused 1 "read-only writable" ek 1 disk add "$fixed"
    refused 1 "read-only writable" ek 1 disk add "$fixed" --force
    mount -o ro "$fixed" "$work/mnt"
    refused 1 "mounted read-only" ek 1 disk add "$work/mnt"
    umount "$work/mnt"
    prepare_node 2
    start_node 2
    refused 4 "use" ek 2 disk add "$work/n1/disk" --name same
    # A replica that is on the disk is named with its volume.
    ek 1 volume create $vol --size 16M --replicas 1 --on n1:loop --quiet
    stop_node 1
    ek 2 disk add "$loop" --force --dry-run > "$work/told" 2>&1 || true
    grep -q "would be removed for good" "$work/told" && grep -q "$vol" "$work/told" || die "$(cat "$work/told")"
    ek 2 disk add "$loop" --dry-run > "$work/told" 2>&1 || true
    grep -q "which would be served" "$work/told" || die "$(cat "$work/told")"
    start_node 1
    ek 1 volume delete $vol --yes --quiet
    ek 1 disk remove loop
}

full() {
    mkdir "$work/tmp"
    truncate -s 160M "$work/image"
    mkfs.ext4 -q -m 0 "$work/image"
    for n in 1 2 3; do prepare_node $n; start_node $n; done
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    for n in 1 2; do await "n$n is a member" ek $n disk add "$work/n$n/disk" --name disk; done
    mkdir "$work/mnt/disk"
    await "n3 is a member" ek 3 disk add "$work/mnt/disk" --name disk
    ek 1 volume create $vol --size 128M --replicas 3 --quiet
    uri=$(attach $vol nbd)
    qemu-io -f raw "$uri" -c 'write -P 0x77 0 8M' -c flush > /dev/null
    # Something else fills the disk under a replica.
    dd if=/dev/zero of="$work/mnt/filler" bs=1M status=none 2> /dev/null || true
    fio --name=fill --ioengine=nbd --uri="$uri" --rw=write --bs=64k --iodepth=8 --offset=16M --size=96M > "$work/fio.out" 2>&1 \
        || { cat "$work/fio.out"; die "the application saw an error"; }
    still_there
    ek 1 volume status $vol
    if ek 1 volume status $vol --check > "$work/status"; then
        say "the replica's space was set aside when it was made"
    else
        grep -qi full "$work/status" || { cat "$work/status"; die "the status does not say that the disk is full"; }
        rm "$work/mnt/filler"
        ek 1 replica re-add $vol n3 --wait --timeout 2m --quiet
    fi
    still_there
    ek 1 detach $vol --quiet
}

superblock() {
    start_nodes 3
    known_data
    ek 1 detach $vol --quiet
    file2=$(ek 2 disk list --json | jq -re '[.disks[] | select(.node.name == "n2") | .replicas[].path][0]')
    file3=$(ek 3 disk list --json | jq -re '[.disks[] | select(.node.name == "n3") | .replicas[].path][0]')
    stop_node 2; stop_node 3
    say "slot A of n2 is damaged, both slots of n3"
    dd if=/dev/urandom of="$file2" bs=4k count=4 conv=notrunc status=none
    dd if=/dev/urandom of="$file3" bs=4k count=4 conv=notrunc status=none
    dd if=/dev/urandom of="$file3" bs=4k count=4 seek=128 conv=notrunc status=none
    start_node 2; start_node 3
    ek 3 disk list
    ek 3 disk list | grep -q "not served" || die "the damaged superblock is not reported"
    uri=$(attach $vol nbd)
    still_there
    refused 6 "n3" ek 1 volume status $vol --check
    ek 1 volume status $vol --json | jq -e '[.volume.mirrors[0].replicas[] | select(.node.name == "n2") | .state][0] == "in-sync"' > /dev/null \
        || die "a replica with one good superblock was not used"
    ek 1 detach $vol --quiet
}

addresses() {
    local address
    start_nodes 2
    prepare_node 3
    sed -i "s#listen = .*#listen = [\"${ports[1]}\"]#" "$work/n3/evenkeel.toml"
    refused 1 "${ports[1]##*:} use" "$evenkeel" node run --config "$work/n3/evenkeel.toml"
    # A coordinator's node that nobody could join.
    sed -i "s#^join = .*#here = true#" "$work/n3/evenkeel.toml"
    address="127.0.0.1:$(free_port)"
    sed -i "s#listen = .*#listen = [\"$address\"]#" "$work/n3/evenkeel.toml"
    refused 1 "cluster init" "$evenkeel" node run --config "$work/n3/evenkeel.toml"
    sed -i "s#listen = .*#listen = [\"0.0.0.0:1\"]#" "$work/n3/evenkeel.toml"
    refused 1 "peer.advertise" "$evenkeel" node run --config "$work/n3/evenkeel.toml"
    sed -i "s#listen = .*#listne = []#" "$work/n3/evenkeel.toml"
    refused 1 "listne" "$evenkeel" config check --config "$work/n3/evenkeel.toml"
    sed -i "s#listne = .*#key_file = \"$work/key\"#" "$work/n3/evenkeel.toml"
    refused 1 "key_file cluster init invite --token" "$evenkeel" node run --config "$work/n3/evenkeel.toml"
    refused 1 "none.toml" "$evenkeel" config check --config "$work/none.toml"
    prepare_node 3
    sed -i '/^join/d' "$work/n3/evenkeel.toml"
    start_node 3
    refused 5 "127.0.0.1:9" ek 3 node join 127.0.0.1:9
    refused 1 "" ek 3 volume list
    refused 5 "no certificate" ek 3 node join "${ports[1]}"
    ek 3 node join "${ports[1]}" --token "$(token)"
    # A node that is dead when it is needed.
    ek 3 disk add "$work/n3/disk" --name disk --quiet
    kill_node 3
    refused 3 "n3 answer" ek 1 volume create $vol --size 64M --replicas 1 --on n3:disk
}

garbage() {
    start_nodes 3
    known_data
    local socket
    fio --name=load --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=8 --offset=16M --size=64M --time_based --runtime=10 \
        --verify=crc32c --do_verify=1 --verify_fatal=1 > "$work/fio.out" 2>&1 & fio=$!
    for round in $(seq 20); do
        for n in 1 2 3; do
            head -c $((round * 997)) /dev/urandom | timeout 2 nc -q 0 -w 1 127.0.0.1 "${ports[$n]##*:}" > /dev/null 2>&1 || true
        done
        for socket in "$work/n1/run/api.sock" "$(sed 's/.*socket=//' <<< "$uri")"; do
            head -c $((round * 997)) /dev/urandom | timeout 2 nc -q 0 -w 1 -U "$socket" > /dev/null 2>&1 || true
            { printf 'GET /v1/volumes HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n'; head -c 999 /dev/urandom; } \
                | timeout 2 nc -q 0 -w 1 -U "$socket" > /dev/null 2>&1 || true
        done
    done
    wait $fio || { cat "$work/fio.out"; die "the load saw an error"; }
    still_there
    ek 1 volume status $vol --check --quiet || die "a replica was lost by garbage"
    for n in 1 2 3; do ek $n node status --quiet; done
    ek 1 detach $vol --quiet
    compare_replicas $vol
}

"$which"
