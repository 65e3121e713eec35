#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The demo as a user runs it: small, empty and odd files, wrong input, and either side dying.
# Arguments: the cinnabar_demo program, the protocol.
set -euo pipefail

demo="$(readlink -f "$1")"
protocol="$2"
work="$(mktemp -d)"
server=""
client=""
cleanup() {
    for pid in $server $client; do kill -9 "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# expect STATUS TEXT COMMAND...: runs it, checks its status and that its output has the text.
expect() {
    local status="$1" text="$2" rc=0
    shift 2
    timeout 60 "$@" >out.txt 2>&1 </dev/null || rc=$?
    if [ "$rc" != "$status" ] || ! grep -qF -- "$text" out.txt; then
        cat out.txt >&2
        fail "status $rc instead of $status, or no \"$text\": $*"
    fi
    echo "ok: status $rc${text:+, \"$text\"}: ${*:2}"
}

# start_server ARGUMENTS: in the background; sets $server and $address.
start_server() {
    rm -f pipe
    mkfifo pipe
    "$demo" server --protocol "$protocol" "$@" >pipe &
    server=$!
    read -r -t 30 address <pipe || fail "the server printed no address"
}

# start_client ARGUMENTS: in the background, until it has stored its file and measures calls; sets $client.
start_client() {
    local line
    rm -f progress
    mkfifo progress
    "$demo" client --server "$address" --calls 100000000 "$@" >progress 2>client.txt &
    client=$!
    exec 9<progress
    while read -r -t 60 line <&9; do
        case "$line" in "stored at"*) return ;; esac
    done
    cat client.txt >&2
    fail "the client did not get as far as the calls"
}

# await PID: waits for it; sets $status.
await() {
    status=0
    wait "$1" 2>/dev/null || status=$?
}

: >empty
printf 'x' >one
head -c 1048576 "$demo" >megabyte
head -c 3000001 "$demo" >odd
mkdir kept

# --- what cannot run here is skipped, unless it has to
if ! timeout 60 "$demo" run --protocol "$protocol" --calls 1 one >out.txt 2>&1 && grep -qF "cannot open \"$protocol\"" out.txt; then
    case " ${CINNABAR_TEST_REQUIRED:-} " in
    *" $protocol "*) fail "$(cat out.txt); CINNABAR_TEST_REQUIRED says that it must run here" ;;
    esac
    echo "SKIPPED: $(cat out.txt)"
    exit 77
fi

# --- both sides at once
for file in empty one megabyte odd; do
    expect 0 "Everything matched." "$demo" run --protocol "$protocol" --calls 100 --directory kept "$file"
    cmp "$file" "kept/$file.stored"
done
expect 0 "Everything matched." "$demo" run --protocol "$protocol" --calls 10 --chunk 4097 --depth 7 --directory kept odd
cmp odd kept/odd.stored
expect 0 "Everything matched." "$demo" run --protocol "$protocol" --calls 10 odd

# --- wrong input
expect 1 "cannot open nowhere: No such file" "$demo" run --protocol "$protocol" --calls 10 nowhere
expect 1 "kept is not a regular file" "$demo" run --protocol "$protocol" --calls 10 kept
expect 1 "no such directory: missing" "$demo" run --protocol "$protocol" --calls 10 --directory missing one
expect 1 "cannot open \"no+such\"" "$demo" run --protocol no+such one
expect 1 "cannot open \"\"" "$demo" run --protocol "" one
expect 1 "is not an address" "$demo" client --server rubbish one
expect 2 "" "$demo" run --depth 0 one
expect 2 "" "$demo"
expect 0 "Usage" "$demo" --help

# --- a client that dies, in the calls and in the middle of a transfer, harms nobody
start_server --directory kept --chunk 4096 --depth 2
start_client one
kill -9 "$client"
await "$client"
[ "$status" = 137 ] || fail "the client was not killed"
case "$protocol" in
ofi+shm | ucx+shm | ucx+all)
    # docs/ofi.md and docs/ucx.md, Limits: the server's transfers with others may stop with that.
    echo "skipped: a client that is killed in the middle of a transfer: the library's shared memory does not survive that"
    client=""
    ;;
*)
    head -c 67108864 /dev/zero >large
    "$demo" client --server "$address" large >client.txt 2>&1 &
    client=$!
    for _ in $(seq 3000); do
        # As soon as the server has begun to write.
        if [ -s kept/large.stored.part ] || ! kill -0 "$client" 2>/dev/null; then break; fi
        sleep 0.01
    done
    kill -9 "$client" 2>/dev/null || echo "note: the transfer was over before the client could be killed"
    await "$client"
    client=""
    ;;
esac
expect 0 "Everything matched." "$demo" client --server "$address" --calls 10 odd
cmp odd kept/odd.stored

# --- Ctrl-C at the client
start_client one
kill -INT "$client"
await "$client"
client=""
[ "$status" = 130 ] || fail "an interrupted client must end with 130, not $status"
echo "ok: Ctrl-C"

# --- a server that is told to end ends well, and leaves no partial file
kill -TERM "$server"
await "$server"
server=""
[ "$status" = 0 ] || fail "the server did not end well: $status"
[ -z "$(find kept -name '*.part')" ] || fail "a partial file is left: $(ls kept)"

# --- a server that dies is noticed
start_server --directory kept
start_client one
kill -9 "$server"
await "$client"
client=""
if [ "$status" != 1 ] || ! grep -q "the server has gone" client.txt; then
    cat client.txt >&2
    fail "status $status; the death of the server must be told"
fi
expect 1 "" "$demo" client --server "$address" one
server=""
echo "all well"
