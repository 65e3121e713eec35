#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# System calls per RPC over na+sm while both sides poll: the difference between two runs that differ in the number of calls
# only. The rest is the look at the sockets every so often, which depends on time and not on calls. Where the machine has
# other work the two do not poll all the time but sleep, which costs calls as well: so the least of some measurements counts.
# A call per RPC would be in each of them.
#   syscalls.sh PATH/TO/rpc_path
set -u
program=$1
command -v strace >/dev/null || { echo "SKIPPED: no strace here (Debian: strace)"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
strace -f -c -o "$dir/probe" true 2>/dev/null || { echo "SKIPPED: strace may not trace here"; exit 77; }

count() {
    strace -f -c -o "$dir/out" "$program" "$1" >"$dir/stdout" 2>&1
    local rc=$?
    if [ $rc -ne 0 ]; then cat "$dir/stdout"; exit $rc; fi
    awk '$1 ~ /^[0-9.]+$/ && $NF != "total" {sum += $4} END {print sum + 0}' "$dir/out"
}

few=20000
many=220000
for _ in 1 2 3 4 5 6; do
    a=$(count $few) || exit $?
    b=$(count $many) || exit $?
    echo "$a system calls with $few RPCs, $b with $many"
    awk -v a="$a" -v b="$b" -v n=$((many - few)) 'BEGIN {
        per = (b - a) / n
        printf "%.5f system calls per RPC, both sides together\n", per
        exit per < 0.05 ? 0 : 1
    }' && exit 0
done
exit 1
