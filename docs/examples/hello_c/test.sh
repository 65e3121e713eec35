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

address="na+sm://hello-$$"
"$hello" "$address" &
server=$!
# The server says nothing when it is ready: until it answers, or for 30 s.
answer=""
for _ in $(seq 300); do
    answer="$(timeout 30 "$hello" "$address" 2 3 2>/dev/null)" || true
    if [ "$answer" = "5 (HG_SUCCESS)" ] || ! kill -0 "$server"; then break; fi
    sleep 0.1
done
[ "$answer" = "5 (HG_SUCCESS)" ] || { echo "FAILED: 2 + 3 is \"$answer\""; exit 1; }
answer="$(timeout 30 "$hello" "$address" -7 7)"
[ "$answer" = "0 (HG_SUCCESS)" ] || { echo "FAILED: -7 + 7 is \"$answer\""; exit 1; }
echo "ok: sums"
kill -9 "$server"
wait "$server" 2>/dev/null || true
server=""
rc=0
answer="$(timeout 30 "$hello" "$address" 2 3 2>&1)" || rc=$?
if [ "$rc" = 124 ] || ! [[ "$answer" =~ HOSTUNREACH|"nobody is at $address" ]]; then
    echo "FAILED: without a server: status $rc, \"$answer\""
    exit 1
fi
echo "ok: without a server: $answer"
