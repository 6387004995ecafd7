# What every case uses: nodes in a scratch directory, started through the command itself, and
# nothing left of them at the end. Sourced by the cases; needs bash, jq and root for devices.

set -euo pipefail

# In a mount namespace of its own: one that another case makes meanwhile, as `ip netns exec` does for
# each command, has copies of all mounts that it finds, and keeps them for as long as it lives.
if [ -z "${unshared:-}" ] && unshare --mount true 2> /dev/null; then
    exec env unshared=1 unshare --mount bash "$0" "$@"
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
evenkeel=${EVENKEEL:-$root/target/release/evenkeel}
work=$(mktemp -d "${REAL_SCRATCH:-/var/tmp}/evenkeel-real-XXXXXX")
cd "$work" # fio leaves files where it stands
declare -A pids=() ports=()
helpers=() # other processes that are to end with the case
vol=vol$$ # a name of its own: /dev/evenkeel is shared with what else runs on this machine

say() { echo "--- $*"; }
die() { echo "FAILED: $*" >&2; exit 1; }
# skip WHY: the case cannot be tried here; it counts neither as passed nor as failed.
skip() { echo "skipped: $*"; exit 77; }

# ek N ARGS…: the command, talking to node N.
ek() { local n=$1; shift; "$evenkeel" --socket "$work/n$n/run/api.sock" "$@"; }

# free_port: one that nobody listens on; cases that run at the same time have different ones.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 3000 * 4 + ${REAL_LANE:-0} % 4))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
}

# prepare_node N: its configuration. PEERS=unix: peers over unix sockets instead of TCP, where they need
# certificates.
prepare_node() {
    local n=$1 role
    mkdir -p "$work/n$n/disk"
    if [ -n "${netns:-}" ]; then
        ports[$n]="10.77.0.$n:7700"
    elif [ "${PEERS:-tcp}" = unix ]; then
        ports[$n]="unix:$work/n$n/peer.sock"
    else
        ports[$n]="127.0.0.1:$(free_port)"
    fi
    if [ "$n" = 1 ]; then role="here = true"; else role="join = \"${ports[1]}\""; fi
    cat > "$work/n$n/evenkeel.toml" <<TOML
name = "n$n"
cluster = "real"
state = "$work/n$n/state"
runtime = "$work/n$n/run"
[peer]
listen = ["${ports[$n]}"]
[coordinator]
$role
TOML
    # TIMES: other times than the defaults, as in 'stabilize_after_ms = 200'.
    [ -z "${TIMES:-}" ] || printf '[times]\n%s\n' "$TIMES" >> "$work/n$n/evenkeel.toml"
}

# namespaces COUNT: a network namespace for each node, all of them on one bridge. Nodes that are started
# afterwards live there; they reach each other through nothing else.
namespaces() {
    local n
    netns=ek$$
    ip netns add "$netns"
    ip -n "$netns" link add bridge type bridge
    ip -n "$netns" link set bridge up
    for n in $(seq "$1"); do
        ip netns add "$netns-$n"
        ip -n "$netns" link add "port$n" type veth peer name node netns "$netns-$n"
        ip -n "$netns" link set "port$n" master bridge up
        ip -n "$netns-$n" addr add "10.77.0.$n/24" dev node
        ip -n "$netns-$n" link set lo up
        ip -n "$netns-$n" link set node up
    done
}

# node_answers N: also where the coordinator does not, and the status ends with 5.
node_answers() { jq -e .node <<< "$(ek "$1" node status --json 2> /dev/null)" > /dev/null 2>&1; }

# token: with it nodes join the cluster of n1.
token() {
    [ -s "$work/token" ] || ek 1 node invite --count 100 --for 24h --json | jq -re .token > "$work/token"
    cat "$work/token"
}

# start_node N: its process; returns when it answers. At its first start it gets the certificate that it needs on
# TCP: one that serves the coordinator before, another one by a token if its configuration says whom it joins.
start_node() {
    local n=$1 inside=() deadline=$((SECONDS + 60)) config=$work/n$1/evenkeel.toml role=
    if [[ ${ports[$n]:-} != unix:* ]] && [ ! -e "$work/n$n/state/certificate.json" ]; then
        role=$(grep -oE '^(here|join) = ' "$config" || true)
    fi
    [ "$role" != "here = " ] || "$evenkeel" cluster init --config "$config" --quiet
    [ -z "${netns:-}" ] || inside=(ip netns exec "$netns-$n")
    setsid "${inside[@]}" "$evenkeel" node run --config "$config" >> "$work/n$n/node.log" 2>&1 &
    pids[$n]=$!
    until node_answers "$n"; do
        kill -0 "${pids[$n]}" 2> /dev/null || die "node $n ended at its start"
        [ $SECONDS -lt $deadline ] || die "node $n runs and does not answer"
        sleep 0.1
    done
    [ "$role" != "join = " ] || ek "$n" node join "${ports[1]}" --token "$(token)" --quiet
}

# await WHAT COMMAND…: runs the command until it succeeds, at most 60 s.
await() {
    local what=$1 deadline=$((SECONDS + 60)); shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || die "waited in vain: $what"
        sleep 0.1
    done
}

# start_nodes COUNT: nodes n1 (the coordinator's), n2, … each with the directory disk `disk`.
start_nodes() {
    local n
    for n in $(seq "$1"); do prepare_node "$n"; start_node "$n"; done
    for n in $(seq "$1"); do await "n$n is a member" ek "$n" disk add "$work/n$n/disk" --name disk; done
    say "$1 nodes run"
}

kill_node() { kill -KILL "${pids[$1]}"; wait "${pids[$1]}" 2>/dev/null || true; unset "pids[$1]"; say "killed n$1"; }
stop_node() { kill -TERM "${pids[$1]}"; wait "${pids[$1]}" 2>/dev/null || true; unset "pids[$1]"; say "stopped n$1"; }

wait_in_sync() { ek 1 volume status "$1" --wait in-sync --timeout 5m --quiet; }

# device_of VOLUME, uri_of VOLUME [NODE]: how to reach an attached volume.
device_of() { ek 1 volume status "$1" --json | jq -re '.volume.primaries[] | select(.here) | .device'; }
uri_of() { ek "${2:-1}" volume status "$1" --json | jq -re '[.volume.exports[].uris[] | select(startswith("nbd+unix"))][0]'; }

# attach VOLUME nbd|device: prints the URI or the device.
attach() {
    if [ "$2" = nbd ]; then ek 1 attach "$1" --as nbd --quiet && uri_of "$1"
    else ek 1 attach "$1" --as device --quiet && device_of "$1"; fi
}

# disk_list N: the disks that node N can list, as JSON; those of a dead node are not among them (5).
disk_list() { ek "$1" disk list --json || [ $? = 5 ]; }

# replica_files VOLUME MIRROR: the files of the replicas that the mirror has now. A disk may still list one
# that has been replaced, while its file is being deleted.
replica_files() {
    local n ids
    ids=$(ek 1 volume status "$1" --json | jq -c --argjson mirror "$2" '[.volume.mirrors[$mirror].replicas[].id]')
    for n in "${!pids[@]}"; do
        disk_list "$n"
    done | jq -rs --argjson ids "$ids" '[.[].disks[].replicas[] | select(.id | IN($ids[])) | .path] | unique[]'
}

# compare_replicas VOLUME: the data areas of each mirror's replicas are the same, on disk.
compare_replicas() {
    local volume=$1 mirrors mirror first file size
    mirrors=$(ek 1 volume status "$volume" --json | jq '.volume.mirrors | length')
    for mirror in $(seq 0 $((mirrors - 1))); do
        first=
        while read -r file; do
            if [ -z "$first" ]; then first=$file; size=$(od -An -t u8 -j 136 -N 8 "$first" | tr -d ' '); continue; fi
            cmp --ignore-initial=1048576 --bytes="$size" "$first" "$file" || die "replicas differ: $first $file"
        done < <(replica_files "$volume" "$mirror")
        [ -n "$first" ] || die "no replica of mirror $mirror of $volume found"
    done
    say "the replicas of $volume are identical on disk"
}

# refused CODE WORDS COMMAND…: the command ends with this code, and its message has all the words.
refused() {
    local code=$1 words=$2 output status=0 word; shift 2
    output=$("$@" 2>&1) || status=$?
    [ "$status" = "$code" ] || die "expected exit code $code, got $status: $* : $output"
    for word in $words; do
        grep -qiF -- "$word" <<< "$output" || die "'$word' is missing in the message of: $* : $output"
    done
    if [[ "$code" != [026] ]]; then
        grep -q '^  do: ' <<< "$output" || die "the message does not say what to do: $* : $output"
    fi
    say "refused as it should be: ${*: -4} -> $(head -n 1 <<< "$output")"
}

# interrupted: what the case was waiting for when its time was over.
interrupted() {
    {
        echo "--- interrupted in ${FUNCNAME[*]:1}, line ${BASH_LINENO[0]}; what runs below it:"
        ps -o pid,ppid,stat,wchan:20,etimes,args --forest -g $$
        for pid in $(pgrep -x fio); do echo "fio $pid: $(cat /proc/$pid/task/*/wchan | tr '\n' ' ')"; done
    } >&2
    exit 130
}

# end_nodes N…: all of these at once; one that does not end within 15 s is killed.
end_nodes() {
    local n
    # One that is stopped takes its signals when it goes on.
    for n in "$@"; do kill -TERM "${pids[$n]}" 2>/dev/null && kill -CONT "${pids[$n]}" || true; done
    for n in "$@"; do
        for _ in $(seq 150); do kill -0 "${pids[$n]}" 2>/dev/null || break; sleep 0.1; done
        kill -KILL "${pids[$n]}" 2>/dev/null || true
        wait "${pids[$n]}" 2>/dev/null || true
    done
}

cleanup() {
    local status=$? n point loop
    trap - EXIT INT TERM
    set +e # whatever fails here, the rest is still to be cleaned up
    [ $status = 0 ] || { for n in "$work"/n*/node.log; do [ -f "$n" ] && { echo "--- end of $n"; tail -n 15 "$n"; }; done; } >&2
    grep -oE "^[^ ]+ $work/[^ ]+" /proc/mounts | cut -d' ' -f2 | tac | while read -r point; do
        case $point in "$work"/mnt*) umount "$point" || umount -l "$point" ;; esac
    done
    for n in "${helpers[@]}"; do kill "$n" 2> /dev/null; done
    # The coordinator's last: the others need it to detach what they have attached.
    end_nodes $(printf '%s\n' "${!pids[@]}" | grep -vx 1)
    end_nodes $(printf '%s\n' "${!pids[@]}" | grep -x 1)
    [ -z "${netns:-}" ] || for n in $(ip netns list | awk -v name="$netns" '$1 == name || index($1, name "-") == 1 {print $1}'); do ip netns del "$n"; done
    for loop in $(losetup -nO NAME,BACK-FILE 2>/dev/null | awk -v d="$work/" 'index($2, d) == 1 {print $1}'); do losetup -d "$loop" || true; done
    grep -oE "^[^ ]+ $work/[^ ]+" /proc/mounts | cut -d' ' -f2 | tac | while read -r point; do umount -l "$point" || true; done
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT
trap interrupted INT TERM
