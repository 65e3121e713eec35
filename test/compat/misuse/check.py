#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What must not compile does not, and the compiler says what to do. Arguments: include folder, case, compiler and its options.

A case is a piece of C++ whose first lines are `// wants: TEXT`: the compiler's output has to have that text, in at most two
errors. Without such a line the case has to compile.
"""

import re
import subprocess
import sys

MOST_ERRORS = 2
MOST_LINES = 40  # with the notes that lead to the place


def main():
    include, case, *compiler = sys.argv[1:]
    with open(case, encoding="utf-8") as file:
        wants = re.findall(r"^// wants: (.*)$", file.read(), re.MULTILINE)
    run = subprocess.run(
        [*compiler, "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fdiagnostics-color=never", "-I" + include,
         "-fsyntax-only", "-x", "c++", case],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if not wants:
        if run.returncode != 0:
            print(run.stdout)
            sys.exit("FAILED: it does not compile")
        print("ok: it compiles")
        return
    print(run.stdout)
    if run.returncode == 0:
        sys.exit("FAILED: it compiles")
    for text in wants:
        if text not in run.stdout:
            sys.exit(f"FAILED: the compiler does not say: {text}")
    errors = len(re.findall(r"\berror: ", run.stdout))
    lines = run.stdout.count("\n")
    if errors > MOST_ERRORS or lines > MOST_LINES:
        sys.exit(f"FAILED: {errors} errors in {lines} lines, more than anybody reads")
    print(f"ok: {errors} errors, {lines} lines")


if __name__ == "__main__":
    main()
