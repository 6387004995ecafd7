#!/usr/bin/env bash
# Who may use an export, and how many: cases/nbd-access.sh tls|cluster|clients|open
# tls: bulk data both ways with certificates; whoever has none, a wrong one, or one of a client that
# the export does not name is turned away.
# cluster: the same by the cluster's own authority, as whoever sets nothing but nbd.listen gets it.
# clients: no more clients than nbd.max_clients permits. open: TCP beyond this machine.
source "$(dirname "$0")/../lib.sh"
which=$1

# certificate AUTHORITY NAME DIRECTORY PREFIX: a certificate for NAME and 127.0.0.1, signed by the authority,
# as the files PREFIX-cert.pem, PREFIX-key.pem and ca-cert.pem, which is how clients want them.
# CALLED: what the authority calls itself, if that is not what it is.
certificate() {
    local authority=${CALLED:-$1} name=$2 directory=$3 prefix=$4 ca=$work/ca-$1
    local new=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
    mkdir -p "$directory"
    [ -f "$ca.pem" ] || openssl req -x509 "${new[@]}" -keyout "$ca.key" -out "$ca.pem" -subj "/CN=$authority" -days 2 2> /dev/null
    openssl req "${new[@]}" -keyout "$directory/$prefix-key.pem" -out "$work/request" -subj "/CN=$name" 2> /dev/null
    printf 'subjectAltName=DNS:%s,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' "$name" > "$work/names"
    openssl x509 -req -in "$work/request" -CA "$ca.pem" -CAkey "$ca.key" -CAcreateserial \
        -out "$directory/$prefix-cert.pem" -days 2 -extfile "$work/names" 2> /dev/null
    cp "$ca.pem" "$directory/ca-cert.pem"
}

# one_node LINES…: a node with these lines under [nbd], and a volume attached and exported on TCP.
one_node() {
    prepare_node 1
    printf '%s\n' "[nbd]" "listen = [\"127.0.0.1:${nbd_port:=$(free_port)}\"]" "$@" >> "$work/n1/evenkeel.toml"
    start_node 1
    ek 1 disk add "$work/n1/disk" --name disk --quiet
    ek 1 volume create $vol --size 256M --replicas 1 --quiet
    ek 1 attach $vol --as nbd --quiet
    ek 1 export nbd $vol --tcp --quiet
}

# logged WORDS: a line of n1's log has all these words; waits a minute for it.
logged() {
    local line word
    for _ in $(seq 600); do
        while read -r line; do
            for word in $1; do [[ ${line,,} == *"${word,,}"* ]] || continue 2; done
            say "the log says: ${line#*WARN }"
            return
        done < <(grep WARN "$work/n1/node.log")
        sleep 0.1
    done
    die "no line of the log has all of: $1"
}

# turned_away WHO COMMAND…: it fails.
turned_away() {
    local who=$1; shift
    ! "$@" > "$work/away" 2>&1 || die "let in: $who"
    say "turned away: $who -> $(tail -n 1 "$work/away")"
}

# turned_away_with WORDS WHO COMMAND…: the same, and the log has a new line with all these words. It has one line
# for each source in ten seconds, so that may take some tries.
turned_away_with() {
    local words=$1 word line begun=$SECONDS seen; shift
    seen=$(wc -l < "$work/n1/node.log")
    while :; do
        turned_away "$@"
        while read -r line; do
            for word in $words; do [[ ${line,,} == *"${word,,}"* ]] || continue 2; done
            say "the log says: ${line#*WARN }"
            return
        done < <(tail -n "+$((seen + 1))" "$work/n1/node.log" | grep WARN)
        [ $((SECONDS - begun)) -lt 20 ] || die "no line of the log has all of: $words"
        sleep 1
    done
}

# Both of the TLS clients at hand, in each direction: an image with data and holes.
bulk() {
    local tls="nbds://127.0.0.1:$nbd_port/$vol?tls-certificates=$work/client"
    local creds="tls-creds-x509,id=t,endpoint=client,dir=$work/client"
    local opts="driver=nbd,host=127.0.0.1,port=$nbd_port,export=$vol,tls-creds=t"
    truncate -s 256M "$work/image"
    { tar -C / -cf - usr/include usr/share 2> /dev/null || true; } | head -c 120M |
        dd of="$work/image" bs=1M seek=8 conv=notrunc iflag=fullblock status=none
    nbdinfo --json "$tls" | jq -e '.exports[0]."export-size" == 268435456 and .TLS' > "$work/info" || { cat "$work/info"; die "nbdinfo"; }
    nbdcopy --flush "$work/image" "$tls"
    nbdcopy "$tls" "$work/back"
    cmp "$work/image" "$work/back"
    say "nbdcopy in and out over TLS"
    # Another image, so that what is compared is what this client wrote.
    head -c 64M /dev/urandom | dd of="$work/image" bs=1M seek=100 conv=notrunc iflag=fullblock status=none
    qemu-img convert -n -f raw --object "$creds" "$work/image" --target-image-opts "$opts"
    qemu-img compare --object "$creds" --image-opts "$opts" "driver=file,filename=$work/image"
    qemu-img convert --object "$creds" --image-opts "$opts" -O raw "$work/back"
    cmp "$work/image" "$work/back"
    say "qemu-img in and out over TLS"
    qemu-io --object "$creds" --image-opts "$opts" -c 'write -P 0x5a 0 64k' -c 'write -f -P 0xa5 64k 4k' \
        -c 'write -z 1M 1M' -c 'aio_write -P 0x11 4M 1M' -c 'aio_write -P 0x22 6M 1M' -c aio_flush -c flush \
        -c 'discard 2M 1M' -c 'read -P 0x5a 0 64k' -c 'read -P 0xa5 64k 4k' -c 'read -P 0 1M 2M' \
        -c 'read -P 0x11 4M 1M' -c 'read -P 0x22 6M 1M' > "$work/qemu-io"
    ! grep -qiE 'failed|error' "$work/qemu-io" || { cat "$work/qemu-io"; die "qemu-io over TLS"; }
    nbdcopy "$(uri_of $vol)" "$work/plain"
    nbdcopy "$tls" "$work/back"
    cmp "$work/plain" "$work/back"
    say "what TLS and the unix socket give is the same"
}

tls() {
    certificate ours server "$work/server" server
    certificate ours client "$work/client" client
    certificate theirs client "$work/stranger" client
    # Clients show only certificates of an authority of the name that the server wants: this one
    # has it, and another key.
    CALLED=ours certificate forged client "$work/forger" client
    for one in stranger forger; do cp "$work/server/ca-cert.pem" "$work/$one/ca-cert.pem"; done
    mkdir "$work/nameless"
    cp "$work/server/ca-cert.pem" "$work/nameless/"
    one_node "[nbd.tls]" "certificate = \"$work/server/server-cert.pem\"" \
        "key = \"$work/server/server-key.pem\"" "authority = \"$work/ca-ours.pem\""
    bulk
    local at=127.0.0.1:$nbd_port/$vol
    turned_away "a client that does not ask for TLS" nbdinfo "nbd://$at"
    grep -qi "TLS" "$work/away" || { cat "$work/away"; die "it is not told that TLS is needed"; }
    turned_away_with "nbd client TLS no certificates nbd.tls.authority" \
        "a client without a certificate" nbdinfo "nbds://$at?tls-certificates=$work/nameless"
    turned_away "a client of another authority" nbdinfo "nbds://$at?tls-certificates=$work/stranger"
    turned_away_with "nbd client TLS invalid certificate nbd.tls.authority" \
        "a client with a forged certificate" nbdinfo "nbds://$at?tls-certificates=$work/forger"
    certificate theirs server "$work/doubter" client
    turned_away "a client that does not trust the server" nbdinfo "nbds://$at?tls-certificates=$work/doubter"
    turned_away "a client that wants TLS where there is none" nbdinfo "nbds+unix:///$vol?socket=$work/n1/run/nbd/$vol.sock&tls-certificates=$work/client"
    nbdinfo "nbds://$at?tls-certificates=$work/client" > /dev/null
    named "$at"
    ek 1 detach $vol --quiet
}

# named HOST:PORT/NAME: an export is for the clients that it names, and shown to nobody else.
named() {
    local of_vm1="nbds://$1?tls-certificates=$work/vm1" of_other="nbds://$1?tls-certificates=$work/client"
    certificate ours vm1 "$work/vm1" client
    ek 1 export nbd $vol --tcp --client vm1 --quiet
    turned_away_with "$vol refused NBD client certificate" \
        "a client that the export does not name" nbdcopy "$of_other" "$work/back"
    grep -qi "policy" "$work/away" || { cat "$work/away"; die "it is not told why"; }
    ! nbdinfo --list "$of_other" 2> /dev/null | grep -q "$vol" || die "it is shown to other clients"
    nbdinfo --list "$of_vm1" | grep -q "$vol" || die "it is not shown to its client"
    nbdcopy --flush "$work/image" "$of_vm1"
    nbdcopy "$of_vm1" "$work/back"
    cmp "$work/image" "$work/back"
    say "its client copies in and out"
}

clients() {
    one_node "max_clients = 3"
    local uri holders=() one i
    uri=$(uri_of $vol)
    for i in 1 2 3; do
        # Holds its connection until it is told to end.
        mkfifo "$work/hold$i"
        qemu-io -f raw "$uri" < "$work/hold$i" > "$work/held$i" 2>&1 & holders+=($!)
        exec {one}> "$work/hold$i"
        echo "write -P $i $((i - 1))M 1M" >&"$one"
    done
    connected() { [ "$(grep -c 'an NBD client is connected' "$work/n1/node.log")" -ge 3 ]; }
    await "three clients are connected" connected
    for uri in "$uri" "nbd://127.0.0.1:$nbd_port/$vol"; do
        turned_away "a fourth client" nbdcopy --connections=1 "$uri" "$work/back"
        grep -qi "policy" "$work/away" || { cat "$work/away"; die "it is not told why"; }
        turned_away "a fourth client" qemu-io -f raw "$uri" -c 'read 0 4k'
        grep -qi "as many clients as its server permits" "$work/away" || { cat "$work/away"; die "it is not told why"; }
    done
    logged "$vol most=3 nbd.max_clients"
    nbdinfo --list "$uri" > /dev/null || die "exports cannot be listed"
    echo quit > "$work/hold1"
    wait "${holders[0]}"
    await "there is room again" nbdcopy --connections=1 "$uri" "$work/back"
    for i in 2 3; do echo quit > "$work/hold$i"; done
    wait "${holders[@]:1}"
    ! grep -qiE 'failed|error' "$work"/held? || { cat "$work"/held?; die "those that were there were harmed"; }
    ek 1 detach $vol --quiet
}

open() {
    PEERS=unix prepare_node 1
    local file=$work/n1/evenkeel.toml port
    port=$(free_port)
    printf '[nbd]\nlisten = ["0.0.0.0:%s"]\n' "$port" >> "$file"
    start_node 1
    ek 1 node status | grep -q "nbd.listen.*nobody is served.*cluster init" || die "the status does not say that nobody is served"
    turned_away "a client of a node without a certificate" nbdinfo "nbd://127.0.0.1:$port"
    logged "NBD client certificate"
    stop_node 1
    cp "$file" "$work/before"
    printf '[nbd.tls]\ncertificate = "/c"\nkey = "/k"\n' >> "$file"
    refused 1 "nbd.listen reachable authority insecure" "$evenkeel" node run --config "$file"
    refused 1 "nbd.listen reachable authority insecure" "$evenkeel" config check --config "$file"
    cp "$work/before" "$file"
    printf 'insecure = true\n' >> "$file"
    start_node 1
    ek 1 node status | grep -q "nbd.insecure" || die "the status does not warn of it"
    say "permitted when it is said to be meant, with a warning"
}

# Nothing is said of TLS: a node that other machines reach has the cluster's certificates.
cluster() {
    local at=n1:${nbd_port:=$(free_port)} one
    # The names are in this case's own mount namespace alone.
    { cat /etc/hosts; echo "127.0.0.1 n1 n2"; } > "$work/hosts"
    [ -n "${unshared:-}" ] && mount --bind "$work/hosts" /etc/hosts || skip "names of hosts need root"
    prepare_node 1
    printf '[nbd]\nlisten = ["0.0.0.0:%s"]\n' "$nbd_port" >> "$work/n1/evenkeel.toml"
    "$evenkeel" cluster init --config "$work/n1/evenkeel.toml" --quiet
    start_node 1
    ek 1 disk add "$work/n1/disk" --name disk --quiet
    ek 1 volume create $vol --size 256M --replicas 1 --quiet
    ek 1 attach $vol --as nbd --quiet
    refused 1 "certificate --client" ek 1 export nbd $vol --tcp
    for one in vm1 vm2; do ek 1 client certificate $one "$work/$one" --quiet; done
    [ "$(stat -c %a "$work/vm1/client-key.pem")" = 600 ] || die "others may read the key"
    ek 1 export nbd $vol --tcp --client vm1 --quiet
    local of_vm1="nbds://$at/$vol?tls-certificates=$work/vm1" of_vm2="nbds://$at/$vol?tls-certificates=$work/vm2"
    head -c 64M /dev/urandom > "$work/image" && truncate -s 256M "$work/image"
    nbdcopy --flush "$work/image" "$of_vm1"
    nbdcopy "$of_vm1" "$work/back"
    cmp "$work/image" "$work/back"
    say "nbdcopy in and out, by the name of the node"
    local creds="tls-creds-x509,id=t,endpoint=client,dir=$work/vm1"
    local opts="driver=nbd,host=127.0.0.1,port=$nbd_port,export=$vol,tls-creds=t,tls-hostname=n1"
    qemu-img compare --object "$creds" --image-opts "$opts" "driver=file,filename=$work/image"
    say "qemu-img, by its address"
    turned_away "a client that the export does not name" nbdcopy "$of_vm2" "$work/back"
    grep -qi "policy" "$work/away" || { cat "$work/away"; die "it is not told why"; }
    turned_away "a client that wants another node" nbdinfo "nbds://n2:$nbd_port/$vol?tls-certificates=$work/vm1"
    turned_away "a client that does not ask for TLS" nbdinfo "nbd://$at/$vol"
    mkdir "$work/nameless" && cp "$work/vm1/ca-cert.pem" "$work/nameless/"
    turned_away "a client without a certificate" nbdinfo "nbds://$at/$vol?tls-certificates=$work/nameless"
    # A new certificate for the same key, and another client in its place.
    cp "$work/vm1/client-key.pem" "$work/key-before"
    ek 1 client certificate vm1 "$work/vm1" --days 2 --quiet
    cmp "$work/vm1/client-key.pem" "$work/key-before"
    nbdinfo "$of_vm1" > "$work/info"
    ek 1 export nbd $vol --tcp --client vm2 --quiet
    turned_away "a client that the export names no more" nbdinfo "$of_vm1"
    nbdinfo "$of_vm2" > "$work/info"
    ek 1 detach $vol --quiet
}

"$which"
