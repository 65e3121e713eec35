#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per call and per empty progress call, as callgrind counts them: the difference between two runs that differ in
their number only, so that opening and closing do not count.

  instructions.py PROGRAM rpc|locked|progress [--limit N] [--functions]

locked: as rpc, in classes that lock, as those of the C interface do by default. For rpc whatever both sides execute counts, the program's callbacks included; for progress what HG_Event_progress does, from its first
instruction to its last, and not the loop around it.
With --limit more than N fails (status 1). With --functions: who takes them. 77: cannot be counted here.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Far enough apart that what opening takes, a little more or less each time, does not show.
FEW, MANY = 1000, 21000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("what", choices=("rpc", "locked", "progress"))
    parser.add_argument("--limit", type=float)
    parser.add_argument("--functions", action="store_true")
    return parser.parse_args()


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def count(program, what, number):
    """The total, and {function: its own instructions}."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        only = ["--toggle-collect=HG_Event_progress"] if what == "progress" else []
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *only, program, what, str(number)],
                              capture_output=True, text=True)
        if done.returncode == 77:
            skip(done.stdout.strip().removeprefix("SKIPPED: "))
        if done.returncode != 0:
            print(done.stdout, done.stderr)
            sys.exit(f"FAILED: status {done.returncode}")
        total = re.search(r"Collected : (\d+)", done.stderr)
        functions = collections.Counter()
        listing = subprocess.run(["callgrind_annotate", "--threshold=100", "--show-percs=no", out], capture_output=True, text=True).stdout
        for line in listing.splitlines():
            match = re.match(r"^\s*([\d,]+)\s+(\S.*:.*)$", line)
            if match:
                name = match.group(2).split(":", 1)[1]
                functions[re.sub(r"\s*\[.*\]$", "", name)] += int(match.group(1).replace(",", ""))
        return int(total.group(1)), functions


def main():
    chosen = arguments()
    for tool in ("valgrind", "callgrind_annotate"):
        if shutil.which(tool) is None:
            skip(f"no {tool} here (Debian: valgrind)")
    most = MANY if chosen.what != "progress" else 10 * MANY
    few, functions_few = count(chosen.program, chosen.what, FEW)
    many, functions_many = count(chosen.program, chosen.what, most)
    per = (many - few) / (most - FEW)
    if per < 1:
        sys.exit("FAILED: nothing was counted: has HG_Event_progress another name?")
    print(f"{per:.1f} instructions per {'RPC, both sides together' if chosen.what != 'progress' else 'empty progress call'}")
    if chosen.functions:
        for name, more in (functions_many - functions_few).most_common():
            if more / (most - FEW) >= 1:
                print(f"{more / (most - FEW):8.1f}  {name}")
    if chosen.limit is not None and per > chosen.limit:
        sys.exit(f"FAILED: the limit is {chosen.limit:g}")


if __name__ == "__main__":
    main()
