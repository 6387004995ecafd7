#!/usr/bin/env bash
# Which user of a machine may ask its node for what, and what the audit log says of it. The users have no
# names: they are numbers that nobody has.
source "$(dirname "$0")/../lib.sh"
viewer=3000000001 operator=3000000002 administrator=3000000003 stranger=3000000004
command -v setpriv > /dev/null || skip "no setpriv"
[ "$(id -u)" = 0 ] || skip "only root can be another user"
setpriv --reuid=$viewer --regid=$viewer --clear-groups true 2> /dev/null || skip "there are no such user numbers here"
umask 022

# as UID[:GID] ARGS…: the command, as another user.
as() {
    local uid=${1%:*} gid=${1#*:}; shift
    setpriv --reuid="$uid" --regid="$gid" --clear-groups "$work/evenkeel" --socket "$work/n1/run/api.sock" "$@"
}

# refused UID WORDS ARGS…: with the code for it, and these words.
refused() {
    local who=$1 words=$2 code=0; shift 2
    as "$who" "$@" > "$work/answer" 2>&1 || code=$?
    [ $code = 1 ] || die "$who: $* ends with $code: $(cat "$work/answer")"
    grep -qF "this is not permitted" "$work/answer" && grep -qF "$words" "$work/answer" || die "$who: $*: $(cat "$work/answer")"
    say "$who is refused: $*: $(grep -F "$words" "$work/answer")"
}

# What belongs to root alone is out of others' reach otherwise.
chmod 755 "$work"
cp "$evenkeel" "$work/evenkeel"
setpriv --reuid=$viewer --regid=$viewer --clear-groups "$work/evenkeel" --version > /dev/null || skip "others do not reach $work"

# By default the socket is for root alone.
prepare_node 1
start_node 1
[ "$(stat -c %a "$work/n1/run/api.sock")" = 600 ] || die "the socket's mode is $(stat -c %a "$work/n1/run/api.sock")"
! as $viewer node status > "$work/answer" 2>&1 || die "anybody may look"
grep -qF "you may not open it" "$work/answer" || die "not refused by the socket's mode: $(cat "$work/answer")"
ek 1 disk add "$work/n1/disk" --name disk --quiet
stop_node 1

cat >> "$work/n1/evenkeel.toml" << TOML
[api]
view = ["$viewer", "no-such-user"]
operate = ["$operator"]
administer = ["3000000003"]
TOML
"$evenkeel" config check "$work/n1/evenkeel.toml" > "$work/answer" 2>&1 || die "config check: $(cat "$work/answer")"
grep -qF '"no-such-user" gives nobody that right' "$work/answer" || die "config check: $(cat "$work/answer")"
start_node 1
[ "$(stat -c %a "$work/n1/run/api.sock")" = 666 ] || die "the socket's mode is $(stat -c %a "$work/n1/run/api.sock")"
await "the status names the entry that means nobody" eval 'ek 1 node status | grep -F "no-such-user" > /dev/null'

as $administrator volume create $vol --size 64M --replicas 1 --quiet || die "an administrator cannot create"
as $viewer volume status $vol > /dev/null || die "a viewer cannot look"
as $viewer volume delete $vol --dry-run > /dev/null || die "a viewer cannot see a plan"
refused $viewer "user $viewer may only look" attach $vol --as nbd
refused $viewer "(this takes \`administer\`)" volume delete $vol --yes
as $operator attach $vol --as nbd --quiet || die "an operator cannot attach"
refused $operator "may operate, and this takes the right to administer" volume verify $vol
refused $operator "may operate, and this takes the right to administer" volume grow $vol --size 128M
refused $operator "this takes the right to administer" node invite
refused $viewer "may only look" disk add /root --dry-run
refused $stranger "user $stranger has no right on this node" volume list
as $operator detach $vol --quiet || die "an operator cannot detach"

# Strangers who keep connections cut nobody off, however many they are.
for one in $(seq 5); do for _ in $(seq 64); do
    setpriv --reuid=$((stranger + one)) --regid=$stranger --clear-groups nc -U "$work/n1/run/api.sock" < <(sleep 15 2> /dev/null) > /dev/null 2>> "$work/nc" &
done; done
sleep 1
[ ! -s "$work/nc" ] || die "they do not connect: $(head -n 1 "$work/nc")"
as $viewer volume status $vol > /dev/null || die "strangers keep a viewer out"
ek 1 volume status $vol > /dev/null || die "strangers keep root out"

# line FILTER: of the changes, each with what came of it, one that fits.
log=$work/n1/state/audit.log
[ "$(stat -c %a "$log")" = 600 ] || die "the audit log's mode is $(stat -c %a "$log")"
line() {
    jq -se '[group_by(.request)[] | add] | map(select('"$1"')) | length == 1' "$log" > /dev/null || die "not once in the audit log: $1: $(cat "$log")"
}
line '.uid == '$administrator' and .method == "POST" and .path == "/v1/volumes" and .body.name == "'$vol'" and .status == 200'
line '.uid == '$operator' and (.path | endswith("'$vol'/attach")) and .body.how == "nbd" and .status == 200'
line '.uid == '$operator' and (.path | endswith("'$vol'/detach")) and .status == 200'
line '.uid == 0 and .user == "root" and .path == "/v1/disks" and .status == 200'
[ -z "$(jq -c "select(.uid == $viewer or .uid == $stranger)" "$log")" ] || die "what was refused stands there as a change"
grep -q "refused user $viewer POST" "$work/n1/node.log" || die "the log does not say what was refused"
ek 1 volume delete $vol --yes --quiet
curl -sS --unix-socket "$work/n1/run/api.sock" -X DELETE "http://n/v1/volumes/$vol" > /dev/null
line '.method == "DELETE" and .status == 404 and .error == "no-such-volume"'

# What a node asks of another one is in that one's log, with the node.
prepare_node 2
start_node 2
await "n2 is a member" ek 2 disk add "$work/n2/disk" --name disk
line '.path == "/v1/cluster/invite" and .uid == 0 and .status == 200'
ek 2 volume create far$vol --size 64M --replicas 2 --quiet
ek 1 attach far$vol --as nbd --node n2 --quiet
id=$(ek 2 node status --json | jq -re .node.id)
own=$(ek 1 node status --json | jq -re .node.id)
[ -n "$(jq -c 'select(.node == "'"$own"'" and (.path // "" | endswith("far'$vol'/attach")))' "$work/n2/state/audit.log")" ] || die "n2 does not say which node asked: $(cat "$work/n2/state/audit.log")"
[ -n "$(jq -c 'select(.node == "'"$id"'" and (.path // "" | startswith("/peer/v1/replicas")))' "$log")" ] || die "n1 does not say which node asked: $(cat "$log")"
ek 2 detach far$vol --quiet
# No secret has come into it.
[ -s "$log" ] && [ -s "$work/n2/state/audit.log" ] || die "an audit log is empty"
! grep -F "$(token)" "$log" "$work/n2/state/audit.log" > /dev/null || die "the token is in the audit log"
n=$(cat "$log" | jq -cRn '[inputs | fromjson?] | group_by(.request)[] | add | select((.path // "") | test("^/v1/volumes/'$vol'([/?]|$)"))' | wc -l)
[ "$n" = 4 ] || die "the command of the manual finds $n changes of the volume"
say "every change has its user"
