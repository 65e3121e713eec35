#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The example of docs/na_cpp.md: the text there and the file here are the same, and it does what it says.
# Arguments: the compiled example, its source, the page.
set -euo pipefail

hello="$1"
source="$2"
page="$3"
server=""
work="$(mktemp -d)"
cleanup() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

awk '/^```cpp$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$page" >"$work/page.cpp"
grep -v 'SPDX-License-Identifier' "$source" >"$work/source.cpp"
[ -s "$work/page.cpp" ] || { echo "FAILED: the page has no C++ block"; exit 1; }
diff -u "$work/source.cpp" "$work/page.cpp" || { echo "FAILED: $page and $source differ"; exit 1; }
echo "ok: the page shows the source"

for i in 1 2 3; do
    stdbuf -oL "$hello" >"$work/address$i" &
    server=$!
    until [ -s "$work/address$i" ]; do
        kill -0 "$server" || { echo "FAILED: the server ended"; exit 1; }
        sleep 0.05
    done
    answer="$(timeout 60 "$hello" "$(cat "$work/address$i")")"
    [ "$answer" = hello ] || { echo "FAILED: the answer is \"$answer\""; exit 1; }
    wait "$server" || { echo "FAILED: the server ended with $?"; exit 1; }
    server=""
done
echo "ok: question and answer"

rc=0
answer="$(timeout 60 "$hello" na+sm://nobody-$$ 2>&1)" || rc=$?
if [ "$rc" != 1 ] || [[ "$answer" != *unreachable* ]]; then
    echo "FAILED: without a server: status $rc, \"$answer\""
    exit 1
fi
echo "ok: without a server: $answer"
