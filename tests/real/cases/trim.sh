#!/usr/bin/env bash
# A part of a block is trimmed, and then a bit of the rest flips on one disk: 50 reads never return the damage, and it
# is repaired. Of two replicas, `volume verify --repair` never overwrites the good copy with it.
source "$(dirname "$0")/../lib.sh"
start_nodes 3

BLOCK=4096
START=$((1 << 20)) # of the data in a replica's file
# content FILE: the bytes of the volume's first block there, as a sum.
content() { dd if="$1" bs=$BLOCK count=1 skip=$((START / BLOCK)) iflag=direct status=none | sha256sum | cut -c 1-16; }
# flip FILE: one bit of that block, behind what was trimmed.
flip() {
    local at=$((START + 3000)) byte
    byte=$(od -An -t u1 -j $at -N 1 "$1")
    printf '%b' "\\x$(printf %02x $((byte ^ 16)))" | dd of="$1" bs=1 seek=$at conv=notrunc,fsync status=none
}
# made VOLUME REPLICAS: it is created, attached as NBD on n1, and its first block written and trimmed in part.
made() {
    ek 1 volume create "$1" --size 64M --replicas "$2" --quiet
    uri=$(attach "$1" nbd)
    qemu-io -f raw -c "write -P 90 0 4k" -c "discard 0 512" -c flush "$uri" > "$work/io" 2>&1 || die "$(cat "$work/io")"
    good=$(content "$(replica_files "$1" 0 | head -n 1)")
}
reads() { for _ in $(seq "$1"); do echo "read -P 90 512 3584"; echo "read -P 0 0 512"; done; }
# right COUNT: so many reads return what was written.
right() {
    reads "$1" | qemu-io -f raw -r "$uri" > "$work/io" 2>&1 || die "$(cat "$work/io")"
    [ "$(grep -c "read .* bytes at offset" "$work/io")" = $((2 * $1)) ] || die "not all were read: $(cat "$work/io")"
    ! grep -q "Pattern verification failed" "$work/io" || die "the damage was returned: $(cat "$work/io")"
}
is_good() { [ "$(content "$1")" = "$good" ]; }

# owner FILE: the node that has it.
owner() { local node=${1#"$work/n"}; echo "${node%%/*}"; }
for number in 1 2 3; do
    name=$vol-3$number
    made "$name" 3
    file=$(replica_files "$name" 0 | sed -n "${number}p")
    node=$(owner "$file")
    flip "$file"
    ! is_good "$file" || die "nothing was damaged"
    right 50
    # A node reads its own replica first.
    wait_in_sync "$name"
    ek 1 detach "$name" --quiet
    ek "$node" attach "$name" --as nbd --quiet
    uri=$(uri_of "$name" "$node")
    right 50
    await "the damage on n$node is repaired" is_good "$file"
    wait_in_sync "$name"
    ek "$node" detach "$name" --quiet
    compare_replicas "$name"
done
say "of three replicas each was damaged: 50 reads were right, and it was repaired"

for number in 1 2; do
    name=$vol-2$number
    made "$name" 2
    mapfile -t files < <(replica_files "$name" 0)
    flip "${files[$((number - 1))]}"
    ek 1 volume verify "$name" --repair --wait > "$work/verdict" || die "not repaired: $(cat "$work/verdict")"
    for file in "${files[@]}"; do is_good "$file" || die "the damage won: $(cat "$work/verdict")"; done
    right 50
    wait_in_sync "$name"
    ek 1 detach "$name" --quiet
    compare_replicas "$name"
done
say "of two replicas each was damaged: the good copy was kept, and the other one repaired from it"

# The node of a replica is killed while the region is open: what its blocks must yield is not known there any more.
# Damage that comes then may be read there, and may be undecided. But it never wins over the good copy.
name=$vol-open
made "$name" 2
mapfile -t files < <(replica_files "$name" 0)
victim=$(owner "${files[1]}") # not n1, which sorts first
qemu-io -f raw -c "write -P 91 8k 4k" -c flush "$uri" > "$work/io" 2>&1 || die "$(cat "$work/io")"
kill_node "$victim"
flip "${files[1]}"
start_node "$victim"
wait_in_sync "$name"
status=0; ek 1 volume verify "$name" --repair --wait > "$work/verdict" || status=$?
is_good "${files[0]}" || die "the damage won over the good copy: $(cat "$work/verdict")"
if [ $status = 0 ]; then is_good "${files[1]}" || die "it is not repaired: $(cat "$work/verdict")"
else grep -q "nobody knows which content is right" "$work/verdict" || die "$(cat "$work/verdict")"; fi
source_node=$(ek 1 volume status "$name" --json | jq -r --arg victim "n$victim" '.volume.mirrors[0].replicas[] | select(.node.name != $victim) | .node.name')
ek 1 volume verify "$name" --repair --source "$source_node" --wait > "$work/verdict" || die "$(cat "$work/verdict")"
for file in "${files[@]}"; do is_good "$file" || die "the named source did not win: $(cat "$work/verdict")"; done
right 50
wait_in_sync "$name"
ek 1 detach "$name" --quiet
compare_replicas "$name"
say "nor does damage win where a crash has made checksums unknown (the verify ended with $status)"
