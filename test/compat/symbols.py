#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares what the libraries export with what the installed headers declare. (That they export all of it is what the
programs of api_check.py show, which link with them.)

  symbols.py INCLUDE LIBRARY...

Node CINNABAR_0.1 has documented names only, CINNABAR_PRIVATE has no C names, and nothing is exported beside the two.
"""

import glob
import os
import re
import subprocess
import sys

NODES = ("CINNABAR_0.1", "CINNABAR_PRIVATE")
# The outlet that a macro of mercury_log.h names.
BY_MACRO = {"hg_all_log_outlet_g"}
C_NAME = re.compile(r"(HG|NA|hg|na)_\w+")


def words_of(files):
    words = set()
    for path in files:
        with open(path, encoding="utf-8") as file:
            words.update(re.findall(r"[A-Za-z_]\w*", re.sub(r"//.*", "", file.read())))
    return words


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def symbols_of(library):
    """(name, node) of all that the library defines."""
    for line in run("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        fields = line.split()
        if fields[-2] == "A":  # a node
            continue
        name, _, node = fields[-1].replace("@@", "@").partition("@")
        yield name, node


def parts_of(demangled):
    """The names that a C++ symbol consists of, without the types of its parameters."""
    name = re.sub(r"^(vtable|typeinfo name|typeinfo|non-virtual thunk to|guard variable) (for )?", "", demangled)
    name = re.sub(r"\[abi:\w+\]", "", name)
    name = name.split("(")[0].strip()
    parts = [part.lstrip("~").split("<")[0] for part in name.split("::")]
    return ["operator" if part.startswith("operator") else part for part in parts]


def main():
    include, *libraries = sys.argv[1:]
    c_words = words_of(glob.glob(os.path.join(include, "*.h")))
    cxx_words = words_of(glob.glob(os.path.join(include, "**", "*.hpp"), recursive=True))
    problems = []
    counts = {}
    for library in libraries:
        symbols = list(symbols_of(library))
        demangled = run("c++filt", text="\n".join(name for name, _ in symbols)).splitlines()
        for (name, node), readable in zip(symbols, demangled):
            counts[node] = counts.get(node, 0) + 1
            where = f"{os.path.basename(library)}: {readable}"
            if node not in NODES:
                problems.append(f"{where}: exported in node \"{node}\"")
            elif not name.startswith("_Z"):
                if node != NODES[0] or not C_NAME.fullmatch(name) or name not in c_words | BY_MACRO:
                    problems.append(f"{where}: no header of the C interface declares it")
            elif node == NODES[0]:
                unknown = [part for part in parts_of(readable) if part not in cxx_words]
                if unknown:
                    problems.append(f"{where}: no C++ header has {', '.join(unknown)}")
    for problem in problems:
        print(problem)
    print(", ".join(f"{node}: {count}" for node, count in sorted(counts.items())), f"symbols; {len(problems)} problems")
    return 1 if problems or not counts else 0

if __name__ == "__main__":
    sys.exit(main())
