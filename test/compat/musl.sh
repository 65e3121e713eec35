#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The C headers compile with a C library that is not GNU's. Argument: the folder of the headers; their names.
set -euo pipefail
command -v musl-gcc >/dev/null || { echo "skipped: no musl-gcc here (Debian: musl-tools)"; exit 77; }
include="$1"
shift
for header in "$@"; do
    printf '#include <%s>\n#include <%s>\nint here;\n' "$header" "$header" |
        musl-gcc -std=c99 -pedantic-errors -Werror -Wall -Wextra "-I$include" -fsyntax-only -x c - || { echo "FAILED: $header"; exit 1; }
done
echo "$# headers"
