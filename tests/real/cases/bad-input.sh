#!/usr/bin/env bash
# What is wrong is refused with what, why and what to do, and nothing is lost:
# cases/bad-input.sh commands|disks|full|filling|removal|superblock|addresses|garbage
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
    # Somebody's mount, an attach elsewhere, sizes and regions that mean nothing.
    if [ "$(id -u)" = 0 ]; then
        mkdir "$work/mnt"
        mount -t tmpfs tmpfs "$work/mnt"
        refused 4 "tmpfs mounted there umount $work/mnt" ek 1 mount $vol "$work/mnt" --mkfs ext4
        umount "$work/mnt"
    fi
    refused 4 "node n1 not n2 detach $vol --node n1" ek 3 detach $vol --node n2
    refused 2 "1000 what 1000B" ek 1 volume create new --size 1000
    refused 1 "128 KiB" ek 1 volume create new --size 64M --region-size 64K
    ek 1 volume create only$vol --size 8M --replicas 1 --on n1:disk --quiet
    ek 1 attach only$vol --read-only > "$work/attached"
    grep -q "export    nbd by n1, read-only" "$work/attached" || die "it does not say what it gives: $(cat "$work/attached")"
    ek 1 detach only$vol --quiet
    ek 1 volume delete only$vol --yes --quiet
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

# advises N VOLUME COMMAND WORDS…: node N's status of the volume names this command, and says all these words (a blank in one
# is written `_`); the list of what is unhealthy, and the code of --check, agree.
advises() {
    local n=$1 volume=$2 command=$3 word text code=0; shift 3
    text=$(ek "$n" volume status "$volume" --check) || code=$?
    [ $code = 6 ] || return 1
    for word in "\`evenkeel $command" "$@"; do grep -qF -- "${word//_/ }" <<< "$text" || return 1; done
    ek "$n" volume list --unhealthy | grep -q "$volume" || return 1
    ! grep -qE "^volume $volume \[U+\]" <<< "$text"
}
of_replica() { ek 1 volume status "$1" --json | jq -r --arg node "$2" ".volume.mirrors[0].replicas[] | select(.node.name == \$node) | $3"; }

# A disk fills up under a volume that is used, and there is no room for one that is to be created.
filling() {
    [ "$(id -u)" = 0 ] || skip "a filesystem of its own is mounted by root"
    local n before block
    truncate -s 220M "$work/image"
    mkfs.ext4 -q -m 0 "$work/image"
    mkdir "$work/mnt"
    mount -o loop "$work/image" "$work/mnt"
    mkdir "$work/mnt/disk"
    for n in 1 2 3; do prepare_node $n; start_node $n; done
    for n in 1 2; do await "n$n is a member" ek $n disk add "$work/n$n/disk" --name disk; done
    await "n3 is a member" ek 3 disk add "$work/mnt/disk" --name disk

    # Without room nothing is created, and nothing is left of what was begun.
    before=$(find "$work"/n?/disk "$work/mnt" -type f | sort)
    refused 1 "n3 free" ek 1 volume create big --size 1G --replicas 1 --on n3:disk
    refused 1 "n3 free" ek 2 volume create big --size 1G --replicas 2 --on n1:disk --on n3:disk
    refused 1 "disk" ek 1 volume create big --size 1G --replicas 3
    [ "$(find "$work"/n?/disk "$work/mnt" -type f | sort)" = "$before" ] || die "files are left of a volume that was not created"
    [ "$(ek 1 volume list --json | jq '.volumes | length')" = 0 ] || die "a volume is left"

    # Something else fills the disk while fio writes and verifies.
    ek 1 volume create $vol --size 256M --replicas 2 --on n1:disk --on n3:disk --thin --quiet
    ek 1 volume create only$vol --size 64M --replicas 1 --on n3:disk --thin --quiet
    uri=$(attach $vol nbd)
    only=$(attach only$vol nbd)
    qemu-io -f raw "$uri" -c 'write -P 0x77 0 8M' -c flush > /dev/null
    qemu-io -f raw "$only" -c 'write -P 0x55 0 4M' -c flush > /dev/null
    fio --name=fill --ioengine=nbd --uri="$uri" --rw=randwrite --bs=64k --iodepth=8 --offset=16M --size=144M \
        --rate=24M --verify=crc32c --verify_fatal=1 > "$work/fio.out" 2>&1 & fio=$!
    helpers+=($fio)
    sleep 1
    for block in 1M 4k; do dd if=/dev/zero of="$work/mnt/filler$block" bs=$block status=none 2> /dev/null || true; done
    wait $fio || { cat "$work/fio.out"; die "the application saw an error"; }
    # A slow machine fills the disk only when fio has ended.
    qemu-io -f raw "$uri" -c 'write -P 0x33 200M 16M' > /dev/null
    for n in 1 2 3; do await "n$n says that the disk was full" advises $n $vol "replica re-add" "its_disk_was_full" "make_room"; done
    [ "$(of_replica $vol n3 '"\(.state) \(.cause)"')" = "faulty no-space" ] || die "$(of_replica $vol n3 .)"
    say "$(ek 1 volume status $vol | grep -m 1 why)"
    for n in 1 3; do refused 4 "full room free" ek $n replica re-add $vol n3:disk; done
    refused 1 "n3 free" ek 1 volume create more --size 64M --replicas 1 --on n3:disk
    still_there

    # The only replica has no other to leave to: the application is told, or waits, and each node says why.
    qemu-io -f raw "$only" -c 'write -P 0x66 16M 8M' > "$work/only" 2>&1 & writer=$!
    helpers+=($writer)
    for n in 1 3; do await "n$n says why the only replica can't be written" says_full $n only$vol; done
    say "the only one: $(ek 1 volume status only$vol | grep -m 1 why); $(ek 1 volume status only$vol | grep -m 1 failed)"
    qemu-io -f raw "$only" -c 'read -P 0x55 0 4M' | grep -q "^read 4194304/4194304" || die "what was written before can't be read"

    rm "$work"/mnt/filler*
    ek 1 replica re-add $vol n3:disk --wait --timeout 2m --quiet
    wait $writer || true
    writes_again() { qemu-io -f raw "$only" -c 'write -P 0x66 16M 8M' -c flush -c 'read -P 0x66 16M 8M' > "$work/only" 2>&1; }
    await "the only replica takes writes again" writes_again
    for volume in $vol only$vol; do await "$volume is in order" ek 2 volume status $volume --check; done
    still_there
    for volume in $vol only$vol; do ek 1 detach $volume --quiet; done
    compare_replicas $vol
}
says_full() { ek "$1" volume status "$2" > "$work/status" 2>&1 && grep -qE "(disk is|disk was) full|no space" "$work/status"; }

# The file or the directory of a replica is taken away while it is open.
removal() {
    local n file
    start_nodes 3
    mkdir "$work/n2/other"
    ek 2 disk add "$work/n2/other" --name other --quiet
    ek 1 volume create $vol --size 64M --replicas 2 --on n1:disk --on n2:disk --quiet
    ek 1 volume create only$vol --size 16M --replicas 1 --on n2:disk --quiet
    ek 1 volume create idle$vol --size 16M --replicas 2 --on n1:disk --on n2:disk --quiet
    uri=$(attach $vol nbd) only=$(attach only$vol nbd)
    qemu-io -f raw "$uri" -c 'write -P 0x77 0 8M' -c flush > /dev/null
    qemu-io -f raw "$only" -c 'write -P 0x55 0 4M' -c flush > /dev/null

    say "the directory is moved away"
    mv "$work/n2/disk" "$work/n2/elsewhere"
    for n in 1 2 3; do await "n$n says that it is gone" advises $n $vol "replica replace" "n2" "there_is_no_directory_at_$work/n2/disk" "move_the_same"; done
    await "the only replica's is said, too" advises 1 only$vol "replica replace" "n2" "there_is_no_directory_at"
    refused 4 "n2" ek 1 replica re-add $vol n2:disk
    refused 1 "n2" ek 1 volume create new --size 16M --replicas 1 --on n2:disk
    still_there
    # A copy is no substitute for what is open, and nothing is taken for it.
    cp -r "$work/n2/elsewhere" "$work/n2/disk"
    await "a copy is not taken for it" advises 1 $vol "replica replace" "another_directory_is_at"
    rm -r "$work/n2/disk"
    mv "$work/n2/elsewhere" "$work/n2/disk"
    for volume in $vol only$vol idle$vol; do await "$volume is as before" ek 3 volume status $volume --check; done

    say "the files are deleted"
    rm "$work"/n2/disk/*.replica
    for n in 1 2 3; do await "n$n says that it is gone" advises $n $vol "replica replace" "n2" "there_is_no_file_at"; done
    await "the only replica's is said, too" advises 1 only$vol "replica replace" "n2" "there_is_no_file_at"
    # What is open can be read still, and so copied: the last chance of the only replica.
    for volume in $vol only$vol; do
        ek 1 replica replace $volume n2:disk n2:other --quiet
        ek 1 volume status $volume --wait in-sync --timeout 2m --quiet
        await "$volume is in order" ek 3 volume status $volume --check
    done
    qemu-io -f raw "$only" -c 'read -P 0x55 0 4M' | grep -q "^read 4194304/4194304" || die "the data of the only replica are lost"
    still_there

    # Nobody had that of the detached volume open, or has it open still: after a restart it is gone in any case.
    stop_node 2
    start_node 2
    for n in 1 2 3; do await "n$n says that it was deleted" advises $n idle$vol "replica replace" "n2" "its_file_was_deleted"; done
    say "$(ek 1 volume status idle$vol | grep -m 1 why)"
    ek 1 attach idle$vol --as none --quiet
    refused 4 "n2" ek 1 replica re-add idle$vol n2:disk
    ek 1 replica replace idle$vol n2:disk n2:other --quiet
    ek 1 volume status idle$vol --wait in-sync --timeout 2m --quiet
    for volume in $vol only$vol idle$vol; do
        await "$volume is in order" ek 3 volume status $volume --check
        ek 1 detach $volume --quiet
    done
    compare_replicas $vol
    compare_replicas idle$vol
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
    refused 5 "n3" ek 1 volume create $vol --size 64M --replicas 1 --on n3:disk
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
