#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The README's example: the text there and the file here are the same, and it does what it says.
# Arguments: the compiled example, its source, the README.
set -euo pipefail

hello="$1"
source="$2"
readme="$3"
server=""
work="$(mktemp -d)"
cleanup() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

# The first C block of the README; the source without its licence line.
awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$readme" >"$work/readme.c"
grep -v 'SPDX-License-Identifier' "$source" >"$work/source.c"
[ -s "$work/readme.c" ] || { echo "FAILED: the README has no C block"; exit 1; }
diff -u "$work/source.c" "$work/readme.c" || { echo "FAILED: README.md and $source differ"; exit 1; }
echo "ok: the README shows the source"

mkfifo "$work/pipe"
"$hello" >"$work/pipe" &
server=$!
read -r -t 30 address <"$work/pipe" || { echo "FAILED: the server printed no address"; exit 1; }
for _ in 1 2 3; do
    answer="$(timeout 30 "$hello" "$address")"
    [ "$answer" = "2 + 3 = 5" ] || { echo "FAILED: the client printed \"$answer\""; exit 1; }
done
echo "ok: $answer"
kill -9 "$server"
wait "$server" || true
server=""
rc=0
timeout 30 "$hello" "$address" >"$work/out" 2>&1 || rc=$?
if [ "$rc" = 124 ] || grep -q "2 + 3 = 5" "$work/out"; then
    echo "FAILED: an answer without a server, or none at all (status $rc)"
    exit 1
fi
echo "ok: without a server the client ends (status $rc)"
