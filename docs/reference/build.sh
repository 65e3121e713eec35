#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the reference; any warning of Doxygen's is an error. Arguments: source folder, output folder (none: somewhere, as a
# test), version.
set -euo pipefail

source="$1"
output="${2:-}"
version="${3:-}"
if ! command -v doxygen >/dev/null; then
    echo "SKIPPED: the reference was NOT built: no doxygen here (Debian: apt-get install doxygen)"
    exit 77
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
[ -n "$output" ] || output="$work/out"
mkdir -p "$output"
sed -e "s|@SOURCE@|$source|g; s|@OUTPUT@|$output|g; s|@VERSION@|$version|g" "$source/docs/reference/Doxyfile.in" >"$work/Doxyfile"
rc=0
doxygen "$work/Doxyfile" >"$work/log" 2>&1 || rc=$?
if [ "$rc" != 0 ] || [ -s "$work/log" ]; then
    cat "$work/log"
    echo "FAILED: doxygen ends with $rc and the lines above (docs/reference/comments.py is what makes its comments of ours)"
    exit 1
fi
# What everybody looks for is there.
for page in mercury_8h.html na_8h.html classna_1_1Domain.html classna_1_1Context.html classna_1_1plugin_1_1Sink.html; do
    [ -s "$output/html/$page" ] || { echo "FAILED: there is no $page"; exit 1; }
done
echo "ok: $(find "$output/html" -name '*.html' | wc -l) pages"
