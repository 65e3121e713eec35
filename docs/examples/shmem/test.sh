#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The example with two, three and four processes, and what happens when one of them is killed.
# Arguments: the compiled example, the protocol. Status 77: the protocol cannot be opened here.
set -euo pipefail

heat="$1"
protocol="$2"
work="$(mktemp -d)"
launcher=""
cleanup() {
    [ -z "$launcher" ] || kill -9 "$launcher" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

for n in 1 2 3 4; do
    rc=0
    "$heat" -p "$protocol" -n "$n" -c 1200 -s 40 >"$work/out" 2>"$work/err" || rc=$?
    cat "$work/out"
    if [ "$rc" != 0 ]; then
        cat "$work/err" >&2
        if grep -q 'protocol not supported' "$work/err" &&
            [[ " ${CINNABAR_TEST_REQUIRED:-} " != *" $protocol "* ]]; then
            echo "skipped: $protocol cannot be opened here"
            exit 77
        fi
        echo "FAILED: $n processes: status $rc"
        exit 1
    fi
    grep -q "^$n processes over $protocol: 1200 cells, 40 steps, .* as calculated by one$" "$work/out" ||
        { echo "FAILED: $n processes say something else"; exit 1; }
done

# One is killed while all are at work (it would go on for hours): the others end by themselves, and the launcher tells.
"$heat" -v -p "$protocol" -n 3 -c 30 -s 2000000000 >"$work/out" 2>"$work/err" &
launcher=$!
while ! grep -q '^1000 steps' "$work/out"; do
    kill -0 "$launcher" || { cat "$work/err" >&2; echo "FAILED: it ended by itself"; exit 1; }
    sleep 0.1
done
# (Processes of others come and go meanwhile.)
mapfile -t children < <(grep -ls "^PPid:[[:space:]]*$launcher\$" /proc/[0-9]*/status | cut -d/ -f3)
[ ${#children[@]} = 3 ] || { echo "FAILED: ${#children[@]} processes"; exit 1; }
kill -9 "${children[1]}"
rc=0
wait "$launcher" || rc=$?
launcher=""
[ "$rc" != 0 ] || { echo "FAILED: one was killed, and the launcher is content"; exit 1; }
cat "$work/err"
for pid in "${children[@]}"; do
    if kill -0 "$pid" 2>/dev/null; then echo "FAILED: process $pid is still there"; exit 1; fi
done
echo "ok: one was killed, and all ended with status $rc"
