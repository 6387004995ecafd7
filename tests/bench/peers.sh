#!/usr/bin/env bash
# A profile at a small scale, beside real peers; then its page in a real browser.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
peers=(qemu-nbd nbdkit tgt)
ones=(remote-1 replica-2-c "${peers[@]}")

bench network-storage --scale 0.01 --rounds 1 "${ones[@]/#/--only=}" > run.log 2>&1 || die "the run"
results=$(ls "$work"/out/*.json)
for id in raw-loop "${ones[@]}"; do
    jq -e --arg id "$id" '[.rows[] | select(.configuration == $id and (.summary.median > 0))] | length == 2' \
        "$results" > /dev/null || die "$id was not measured by hdparm and fio"
    jq -e --arg id "$id" '.configurations[] | select(.id == $id) | .verified and (.setup | length > 0)' \
        "$results" > /dev/null || die "the data of $id was not checked"
done
jq -e '[.rows[] | .samples[] | select(.machine_cpu_seconds == null)] == []' "$results" > /dev/null || die "no processor time"
left $$ && die "left behind"
say "$(grep -c '^\[' run.log) measurements, ${#peers[@]} peers: ${peers[*]}"

say "the page in a browser"
EVENKEEL_BENCH_PAGE=$(ls "$work"/out/*.html) EVENKEEL_BENCH_NEEDS_BROWSER=1 \
    cargo test --manifest-path "$root/Cargo.toml" -q --workspace --locked --test browser
