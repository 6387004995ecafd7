#!/usr/bin/env bash
# ./quickstart is stopped, and nothing of it is left, or it says what is, and the next one removes it:
# cases/quickstart-stop.sh INT|TERM MOMENT…  at each of these moments, by Ctrl-C in a terminal or by SIGTERM: start, mount,
#                                            copy, kill, rebuild, compare, check (its steps), end (when it waits for that)
# cases/quickstart-stop.sh twice             Ctrl-C again while it cleans up
# cases/quickstart-stop.sh busy              somebody uses its file system
source "$(dirname "$0")/../lib.sh"
command -v script > /dev/null || skip "script is missing, which gives a terminal (package bsdutils)"
how=$1; shift || true
# The script itself, with the command that is to be tried in place of the one that cargo would build; cargo gives way to it
# in the same manner.
mkdir "$work/bin" "$work/parent"
cat > "$work/bin/cargo" << CARGO
#!/bin/sh
while [ "\$1" != -- ]; do shift; done
shift
exec "$evenkeel" "\$@"
CARGO
chmod +x "$work/bin/cargo"
cp "$root/quickstart" "$work/quickstart"
mkdir "$work/scripts"; printf '#!/bin/sh\n' > "$work/scripts/need"; chmod +x "$work/scripts/need"

# words_of MOMENT: what it says when that begins.
words_of() {
    case $1 in
    start) echo "Start three nodes" ;; mount) echo "Attach it to n1" ;; copy) echo "Copy " ;; kill) echo "Kill n3" ;;
    rebuild) echo "Start n3 again" ;; compare) echo "Detach it" ;; check) echo "Attach it again" ;;
    end) echo "until you press Ctrl-C" ;;
    *) die "there is no moment $1" ;;
    esac
}

# everything: what a quickstart might leave: processes, mounts, loop devices, links, namespaces, files.
everything() {
    pgrep -af "$work/parent" | grep -v pgrep || true
    grep -F "$work/parent" /proc/mounts || true
    losetup -nO NAME,BACK-FILE | grep -F "$work/parent" || true
    [ ! -L /dev/evenkeel/quickstart ] || ls -l /dev/evenkeel/quickstart
    # Those of other cases come and go.
    ip netns list | grep -v '^ek' || true
    find "$work/parent" -mindepth 1
}

# show: what it said. These are its words, not those of the case (../run).
show() { sed 's/^/out: /' "$work/out"; }

# begin: starts it in a terminal of its own, whose keyboard is descriptor 5. By exec: Ctrl-C would end a shell in between at
# once (dash, where SHELL is not set), and `script` would tell the shell's end, not that of the quickstart.
begin() {
    rm -f "$work/keys"; mkfifo "$work/keys"
    : > "$work/out"
    (cd "$work" && PATH=$work/bin:$PATH exec script -qefc "exec ./quickstart --size 512M --scratch $work/parent" "$work/typescript" \
        < "$work/keys" > "$work/out" 2>&1) & terminal=$!
    helpers+=($terminal)
    exec 5<> "$work/keys"
}
# reaches MOMENT: waits until it is there.
reaches() {
    local words deadline=$((SECONDS + 90))
    words=$(words_of "$1")
    until grep -aqF "$words" "$work/out"; do
        kill -0 $terminal 2> /dev/null || { show; die "it ended before: $words"; }
        [ $SECONDS -lt $deadline ] || { show; die "waited in vain: $words"; }
        sleep 0.05
    done
}
main_process() { pgrep -f "^$evenkeel quickstart .*$work/parent"; }
# stop INT|TERM: as somebody at the terminal, or a supervisor would.
stop() {
    case $1 in
    INT) printf '\003' >&5 ;;
    TERM) kill -TERM "$(main_process)" ;;
    esac
}
# ends CODE: it ends so within a minute; what it said is in `out`. Unless CODE is 0 it may have come to its end before it
# was stopped, on a slow machine: `code` tells.
ends() {
    code=0
    timeout 60 tail --pid=$terminal -f /dev/null || { show; die "it does not end"; }
    wait $terminal || code=$?
    exec 5>&-
    [ $code = "$1" ] || { [ $code = 0 ] && grep -aqF "$(words_of end)" "$work/out"; } || { show; die "expected exit code $1, got $code"; }
}
says() { grep -aqF -- "$1" "$work/out" || { show; die "it does not say: $1"; }; }
nothing_left() {
    local after
    after=$(everything)
    [ "$after" = "$before" ] || { show; die "left behind: $(diff <(echo "$before") <(echo "$after"))"; }
}

before=$(everything)
case $how in
INT | TERM)
    for moment in "$@"; do
        for try in 1 2 3; do
            begin
            reaches "$moment"
            # Comparing is over soon, and it takes no signal for an end after that.
            [ "$moment" = check ] || sleep 0.$((RANDOM % 7))
            stop "$how"
            if [ "$moment" = end ]; then
                ends 0
                says "Everything is cleaned up."
            else
                ends 130
                if [ $code = 0 ]; then
                    nothing_left
                    [ $try != 3 ] || die "it had come to its end three times before it was stopped at $moment"
                    continue
                fi
                says "stopped by $([ "$how" = INT ] && echo Ctrl-C || echo SIGTERM)"
            fi
            nothing_left
            say "$how at $moment: $(grep -aoE 'stopped by [A-Za-z-]+|Everything is cleaned up' "$work/out" | tail -n 1)"
            break
        done
    done
    ;;
twice)
    for try in 1 2 3; do
        begin
        reaches kill
        sleep 1
        for _ in 1 2 3; do stop INT; sleep 0.3; done
        ends 130
        nothing_left
        [ $code != 0 ] || continue
        says "stopped by Ctrl-C"
        exit
    done
    die "it had come to its end three times before it was stopped"
    ;;
busy)
    [ "$(id -u)" = 0 ] || skip "a file system is mounted by root"
    begin
    reaches end
    point=$(grep -F "$work/parent" /proc/mounts | cut -d' ' -f2 | grep '/mnt$') || skip "it has no file system"
    (cd "$point" && exec sleep 300) & user=$!
    helpers+=($user)
    stop INT
    ends 1
    says "not everything of the quickstart could be removed"
    says "$point is still mounted"
    says "sleep"
    says "umount $point"
    ! grep -aqF "Everything is cleaned up." "$work/out" || die "it says that everything is gone"
    say "busy: $(grep -a "still mounted" "$work/out" | tr -d '\r')"
    # What it advises.
    kill $user; wait $user 2> /dev/null || true
    umount "$point"
    begin
    says_later() { grep -aqF "Removing what an earlier quickstart left" "$work/out"; }
    await "the next one removes the rest" says_later
    reaches start
    stop INT
    ends 130
    nothing_left
    ;;
*) die "there is no way $how" ;;
esac
