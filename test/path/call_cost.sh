#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Instructions per call, both sides together, through the C API and through the typed one, as callgrind counts them: the
# difference of two runs that differ in the number of calls only. The typed call may take 5 % more.
#   call_cost.sh PATH/TO/call_cost
set -u
program=$1
command -v valgrind >/dev/null || { echo "SKIPPED: no valgrind here (Debian: valgrind)"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

count() {
    valgrind --tool=callgrind --callgrind-out-file="$dir/out" "$program" "$1" "$2" >"$dir/stdout" 2>&1
    local rc=$?
    if [ $rc -ne 0 ]; then cat "$dir/stdout" >&2; exit $rc; fi
    awk '/^(summary|totals):/ {print $2; exit}' "$dir/out"
}

few=2000
many=12000
for api in c cxx; do
    a=$(count $api $few) || exit $?
    b=$(count $api $many) || exit $?
    per=$(((b - a) / (many - few)))
    echo "$api: $per instructions per call"
    eval "per_$api=$per"
done
# shellcheck disable=SC2154 # set above
awk -v c="$per_c" -v cxx="$per_cxx" 'BEGIN {
    printf "the typed call takes %+.1f %%\n", 100 * (cxx - c) / c
    exit c > 0 && cxx <= 1.05 * c ? 0 : 1
}'
