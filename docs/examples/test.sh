#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What the page of an example says, done. Arguments: the example, its program, the transport.
set -euo pipefail

example="$1"
program="$2"
info="$3"
work="$(mktemp -d)"
servers=()
cleanup() {
    for pid in "${servers[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAILED: $*"
    cat "$work"/*.err 2>/dev/null || true
    exit 1
}

# Starts a server and waits for its first line, which is its address: `address`, and `server`, its process.
start() {
    local out="$work/out.${#servers[@]}"
    mkfifo "$out"
    "$@" >"$out" 2>"$work/${#servers[@]}.err" <"${stdin:-/dev/null}" &
    server=$!
    servers+=("$server")
    if ! read -r -t 60 address <"$out"; then
        if grep -q 'protocol not supported\|no such' "$work/$((${#servers[@]} - 1)).err"; then
            echo "SKIPPED: $info cannot be opened here"
            exit 77
        fi
        fail "no server"
    fi
}
expect() {
    local want="$1"
    shift
    local got
    got="$(timeout 60 "$@" 2>"$work/client.err")" || fail "$*: status $?"
    [ "$got" = "$want" ] || fail "$*: \"$got\" in place of \"$want\""
    echo "ok: ${*:2}"
}
# The server ends by itself, well.
ended() {
    local rc=0
    wait "$server" || rc=$?
    [ "$rc" = 0 ] || fail "the server ended with $rc"
    echo "ok: the server has ended"
}

case "$example" in
hello_cxx)
    start "$program" server "$info"
    expect 5 "$program" client "$address" 2 3
    expect -7 "$program" client "$address" 0 -7
    expect "" "$program" stop "$address"
    ended
    ;;
kv_bulk)
    start "$program" server "$info"
    head -c 3000000 /dev/urandom >"$work/large"
    printf 'a value' >"$work/small"
    : >"$work/empty"
    for value in large small empty; do
        expect "" "$program" put "$address" "$value" "$work/$value"
        "$program" get "$address" "$value" >"$work/got" || fail "get $value"
        cmp "$work/$value" "$work/got" || fail "$value is another one"
        echo "ok: $value"
    done
    expect $'empty 0\nlarge 3000000\nsmall 7' "$program" keys "$address"
    if "$program" get "$address" nothing 2>"$work/client.err"; then fail "there is no such key"; fi
    grep -q 'no key "nothing"' "$work/client.err" || fail "the error does not say so"
    kill -TERM "$server"
    ended
    ;;
fan_out)
    start "$program" server 1 "$info"
    first="$address"
    start "$program" server 1 "$info"
    second="$address"
    start "$program" server 60000 "$info"
    slow="$address"
    timeout 60 "$program" ask 5000 "$first" "$second" "$slow" >"$work/answers" || fail "ask"
    cat "$work/answers"
    grep -q '^2 of 3 answered' "$work/answers" || fail "not two of three"
    grep -q 'deadline has passed' "$work/answers" || fail "the slow one has no deadline"
    ;;
asio_server)
    start "$program" server "$info"
    expect "done after 10 ms" "$program" work "$address" 10
    # A client that is being served when the server is told to end gets its answer.
    "$program" work "$address" 3000 >"$work/late" 2>"$work/client.err" &
    client=$!
    while kill -0 "$client" 2>/dev/null && [ "$("$program" busy "$address")" = 0 ]; do :; done
    kill -TERM "$server"
    wait "$client" || fail "the client that was being served: $(cat "$work/client.err")"
    grep -q 'done after 3000 ms' "$work/late" || fail "another answer"
    ended
    grep -q 'good bye' "$work/0.err" || fail "no good bye"
    ;;
event_loop)
    mkfifo "$work/in"
    stdin="$work/in"
    exec 9<>"$work/in" # open both ways: neither end waits for the other
    start "$program" server "$info"
    expect - "$program" last "$address"
    printf 'one\ntwo\nthr' >&9
    for _ in $(seq 100); do
        got="$("$program" last "$address")"
        if [ "$got" = two ]; then break; fi
    done
    expect two "$program" last "$address"
    printf 'ee\n' >&9
    for _ in $(seq 100); do
        got="$("$program" last "$address")"
        if [ "$got" = three ]; then break; fi
    done
    expect three "$program" last "$address"
    ;;
*)
    fail "no example $example"
    ;;
esac
