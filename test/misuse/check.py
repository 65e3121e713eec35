#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes with the C++ API: each must not compile, and what the compiler says must be short and say what to do.
Arguments: the file of cases, and the compiler's command."""

import re
import subprocess
import sys

LONGEST = 6  # errors for one mistake

source, compiler = sys.argv[1], sys.argv[2:]
with open(source, encoding="utf-8") as file:
    text = file.read()
wanted = {int(n): said.strip() for n, said in re.findall(r"MISUSE == (\d+)\s+// (.*)", text)}
cases = {int(n) for n in re.findall(r"MISUSE ==[\s\\]*(\d+)", text)} - {0}
if not cases or cases != set(wanted):
    sys.exit(f"FAILED: cases without a text behind them: {sorted(cases - set(wanted))}")
failures = 0


def compile_case(number):
    command = compiler + ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror=unused-result", f"-DMISUSE={number}", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


code, said = compile_case(0)
if code != 0:
    print(f"FAILED: without a mistake:\n{said}")
    sys.exit(1)
for number, text in sorted(wanted.items()):
    code, said = compile_case(number)
    errors = [line for line in said.splitlines() if "error:" in line]
    if code == 0:
        print(f"FAILED: {number} compiles; wanted: {text}")
    elif not any(text in line for line in errors):
        print(f"FAILED: {number}: no error says \"{text}\":\n" + "\n".join(errors[:10]))
    elif len(errors) > LONGEST:
        print(f"FAILED: {number}: {len(errors)} errors for one mistake:\n" + "\n".join(errors[:12]))
    else:
        print(f"ok: {number}: {len(errors)} errors, {len(said.splitlines())} lines: {text}")
        continue
    failures += 1
sys.exit(1 if failures else 0)
