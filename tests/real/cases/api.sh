#!/usr/bin/env bash
# The API as a program sees it that knows nothing but its OpenAPI document: schemathesis makes
# requests from it, right and wrong ones, in sequences. No answer may be status 500, or other than
# the document says; the node must live on, and its volume with it.
# Needs schemathesis (`pip install schemathesis`, or SCHEMATHESIS=its path); without it the case is
# skipped. SCHEMATHESIS_SECONDS: how long it goes on (40).
source "$(dirname "$0")/../lib.sh"
schemathesis=${SCHEMATHESIS:-$root/target/schemathesis/bin/schemathesis}
command -v "$schemathesis" > /dev/null || schemathesis=schemathesis
command -v "$schemathesis" > /dev/null || skip "schemathesis is not installed (pip install schemathesis)"

# Requests for disks name paths of this machine. A node that may write nowhere but in its own
# directory can do no harm with them.
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
[ "$(id -u)" = 0 ] || nobody=()
PEERS=unix prepare_node 1
cp "$evenkeel" "$work/evenkeel"
[ "$(id -u)" != 0 ] || { chmod 755 "$work"; chown -R 65534:65534 "$work/n1"; }
setsid "${nobody[@]}" "$work/evenkeel" node run --config "$work/n1/evenkeel.toml" >> "$work/n1/node.log" 2>&1 &
pids[1]=$!
await "the node answers" ek 1 node status
ek 1 disk add "$work/n1/disk" --name disk --quiet
ek 1 volume create $vol --size 16M --replicas 1 --quiet
uri=$(attach $vol nbd)
qemu-io -f raw "$uri" -c 'write -P 0x77 0 8M' -c flush > /dev/null
detached=$vol-detached
ek 1 volume create "$detached" --size 16M --replicas 1 --quiet

# Schemathesis does not speak HTTP on a unix socket: whoever connects to this port gets there.
port=$(free_port)
python3 - "$port" "$work/n1/run/api.sock" <<'PYTHON' & helpers+=($!)
import asyncio, sys

async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()

async def connected(reader, writer):
    to_api = await asyncio.open_unix_connection(sys.argv[2])
    await asyncio.gather(copy(reader, to_api[1]), copy(to_api[0], writer), return_exceptions=True)

async def serve():
    server = await asyncio.start_server(connected, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()

asyncio.run(serve())
PYTHON
await "the API is reached through TCP" bash -c "exec 3<> /dev/tcp/127.0.0.1/$port"

# The statuses that are no accident: see ErrorCode in the document. 500 is none of them.
cat > "$work/schemathesis.toml" <<TOML
[checks]
not_a_server_error.expected-statuses = ["2xx", "4xx", "501", "503", "504", "507"]
[parameters]
wait = 1
TOML

# requests WHICH: made from the document, half of the time.
requests() {
    say "schemathesis, $1"
    "$schemathesis" --config-file "$work/schemathesis.toml" run "http://127.0.0.1:$port/v1/openapi.json" \
        --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
        --max-time $((${SCHEMATHESIS_SECONDS:-40} / 2)) --request-timeout 30 --continue-on-failure --no-color \
        > "$work/found" 2>&1 || { cat "$work/found"; die "the API does not do what its document says"; }
    grep -E '(passed|failed|errored|generated)' "$work/found"
}
requests "of things that it makes up"
# What is there: a disk, and an attached volume.
printf 'volume = "%s"\ndisk = "disk"\n' $vol >> "$work/schemathesis.toml"
requests "of things that are there"

ek 1 node status
! grep -i "panick" "$work/n1/node.log" || die "the node has panicked"
say "$(ek 1 volume list --json | jq '.volumes | length') volumes; the node lives and has not panicked"
