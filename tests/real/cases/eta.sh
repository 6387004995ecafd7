#!/usr/bin/env bash
# How long a rebuild is said to take, and takes: cases/eta.sh sparse|full|limited [limited|lowered]. The median of what is
# predicted from the fifth second on is to be within a fifth of what it took. sparse:limited, full:limited: a limit of 40M/s
# sets the pace, and is kept; the data of the sparse one lie at both ends of the volume, with nothing between them.
# full:lowered: the limit is lowered while the rebuild runs. A machine that does something else meanwhile may change
# its pace: of three rebuilds one has to be predicted so. What is wrong by itself is so each time.
source "$(dirname "$0")/../lib.sh"
what=$1 pace=${2:-}
start_nodes 2
# MiB of data: as much as takes more than ten seconds on a fast disk, or at the limit, which any disk keeps to.
size=900 limit=60M
[ "$what" != full ] || size=3600 limit=none
size=${ETA_SIZE:-$size} pieces=9
step=$((size / pieces)) volume=${size}M
[ "$what" != sparse ] || step=1700 volume=16G
case $pace in
limited) size=${ETA_SIZE:-640} pieces=8 limit=40M ;;
lowered) size=${ETA_SIZE:-640} pieces=8 limit=60M lower=30M ;;
esac
[ -z "$pace" ] || { step=$((size / pieces)); [ "$what" = sparse ] || volume=${size}M; }
# begin_of PIECE: where it lies, in MiB.
begin_of() {
    if [ "$what:$pace" = sparse:limited ] && [ "$1" -ge $((pieces / 2)) ]; then echo $((14336 + $1 * step)); else echo $(($1 * step)); fi
}
ek 1 volume create $vol --size $volume --replicas 1 --on n1:disk --thin --quiet
uri=$(attach $vol nbd)
for i in $(seq 0 $((pieces - 1))); do
    qemu-io -f raw -c "write -P $((i + 1)) $(begin_of "$i")M $((size / pieces))M" "$uri" > /dev/null || die "it was not written"
done

replica() { ek 1 volume status $vol --json | jq -c '.volume.mirrors[0].replicas[] | select(.node.name == "n2")'; }
now() { date +%s%3N; }
# rebuild: has n2 get a replica; what was predicted when goes to `samples`: milliseconds since its beginning and until its end.
rebuild() {
    local begun=0 added state it eta total lowered=
    : > "$work/samples"
    ek 1 volume rebuild $vol --limit $limit --quiet
    added=$(now)
    ek 1 replica add $vol n2 --thin --quiet
    while :; do
        it=$(replica) state=$(jq -r .state <<< "$it")
        case $state in
        in-sync) break ;;
        rebuilding)
            [ $begun != 0 ] || begun=$(now)
            eta=$(jq -r '.rebuild.eta_seconds // empty' <<< "$it") total=$(jq -r '.rebuild.total // 0' <<< "$it")
            [ "$total" -le $(((size + 100) << 20)) ] || die "it counts $total bytes, and there are $size MiB"
            [ -z "$eta" ] || echo "$(($(now) - begun)) $((eta * 1000))" >> "$work/samples"
            if [ -n "${lower:-}" ] && [ -z "$lowered" ] && [ $(($(now) - begun)) -gt 2000 ]; then
                ek 1 volume rebuild $vol --limit "$lower" --quiet
                lowered=yes
            fi
            # A machine that stalls later has that rate.
            [ -s "$work/samples" ] || ! ek 1 volume status $vol | grep -qE "[,] 0/s" || die "it shows a rate before it has one: $(ek 1 volume status $vol)"
            ;;
        esac
        sleep 0.3
    done
    took=$(($(now) - begun)) longest=$(($(now) - added))
}
# The median of the predicted lengths, of samples from the fifth second on.
predicted() { awk '$1 >= 5000 {print $1 + $2}' "$work/samples" | sort -n | awk '{a[NR] = $1} END {if (NR) print a[int((NR + 1) / 2)]}'; }

for attempt in 1 2 3; do
    rebuild
    median=$(predicted)
    [ $took -ge 7000 ] || skip "a rebuild takes $took ms here: too short for a prediction after 5 s (ETA_SIZE: MiB of data)"
    [ -n "$median" ] || die "nothing was predicted in $took ms"
    say "$what: $median ms were predicted, $took ms it took ($(wc -l < "$work/samples") samples)"
    # Data at the limit's pace: a tenth of it may pass at once when the rebuild begins.
    [ "$pace" != limited ] || [ $((longest * 40)) -ge $((size * 900)) ] || die "$size MiB in $longest ms: faster than the limit, 40M/s"
    off=$((median > took ? median - took : took - median))
    [ $((off * 5)) -gt $took ] || exit 0
    ek 1 replica fail $vol n2 --quiet
    ek 1 replica remove $vol n2 --yes --quiet
done
die "none of three was predicted within a fifth"
