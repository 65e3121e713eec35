#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the tree that no compiler does. Argument: the top folder. Prints every violation as path:line: what, and
exits 1 if there is one.

  layers    a layer includes only itself and what is below it; a plugin only the contract, na/util and na/session
  SPDX      every source file names its licence at the top
  TODO      TODO(kind) only, and TODO(now) not at all
  getenv    libraries read the environment in na/util/config.cpp only, and everything by secure_getenv
  guards    headers are protected against being included twice
  links     what a page of documentation links to in the tree is there
"""

import os
import re
import sys

TOP = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else ".")
CODE = (".c", ".h", ".cpp", ".hpp")
SCRIPTS = (".py", ".sh", ".build", ".cmake")
SKIPPED_FOLDERS = {".git", "build", ".cache", "__pycache__"}

# What may be included by each layer; paths as written in the #include. A longer prefix wins over a shorter one.
LAYERS = {
    "include/": ("include/",),
    "na/util/": ("include/", "na/util/"),
    "na/session/": ("include/na/", "na/util/", "na/session/"),
    "na/": ("include/", "na/"),
    "plugins/sm/": ("include/na/", "na/util/", "plugins/sm/"),
    "plugins/ofi/": ("include/na/", "na/util/", "na/session/", "plugins/ofi/"),
    "plugins/ucx/": ("include/na/", "na/util/", "na/session/", "plugins/ucx/"),
    "bulk/": ("include/", "na/", "bulk/"),
    "hg/": ("include/", "na/", "bulk/", "hg/"),
    "util/": ("include/", "na/util/", "util/"),
    # A user's programs: what is installed, and their own files.
    "tools/demo/": ("include/", "tools/demo/"),
    "tools/perf/": ("include/", "tools/perf/"),
    "docs/examples/": ("include/", "docs/examples/"),
}
# Places where a layer is joined from above, each with its reason.
EXCEPTIONS = {
    ("na/plugin_table.cpp", "plugins/sm/plugin.hpp"): "the list of built-in plugins",
    ("na/plugin_table.cpp", "plugins/ofi/plugin.hpp"): "the same, with -Dplugins=static",
    ("na/plugin_table.cpp", "plugins/ucx/plugin.hpp"): "the same, with -Dplugins=static",
}
GETENV_FOLDERS = ("na/", "plugins/", "bulk/", "hg/", "util/", "include/", "tools/")
GETENV_FILE = "na/util/config.cpp"

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
INCLUDE_ANGLE = re.compile(r"^\s*#\s*include\s+<((?:na|hg|bulk|mercury)[^>]*)>")
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(\(([a-z-]+)\))?")
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
PLAIN_GETENV = re.compile(r"\bgetenv\s*\(")

problems = []


def problem(path, line, what):
    problems.append(f"{path}:{line}: {what}")


def layer_of(path):
    """The rules for a file: the longest prefix that fits, or none."""
    prefixes = [p for p in LAYERS if path.startswith(p)]
    return LAYERS[max(prefixes, key=len)] if prefixes else None


def resolve(path, included):
    """The file of the tree that an #include names, as a path from the top; None: not ours."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), included))
    for candidate in (included, "include/" + included, beside):
        if os.path.isfile(os.path.join(TOP, candidate)):
            return candidate
    return None


def check_includes(path, lines):
    allowed = layer_of(path)
    if allowed is None:
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line) or INCLUDE_ANGLE.match(line)
        if match is None:
            continue
        target = resolve(path, match.group(1))
        if target is None:
            if line.lstrip().startswith("#") and '"' in line:
                problem(path, number, f'"{match.group(1)}" is not in the tree')
            continue
        if (path, target) not in EXCEPTIONS and not target.startswith(allowed):
            problem(path, number, f"must not include {target} (allowed: {', '.join(allowed)})")


def check_spdx(path, lines):
    if not any("SPDX-License-Identifier: BSD-3-Clause" in line for line in lines[:3]):
        problem(path, 1, "no SPDX line (SPDX-License-Identifier: BSD-3-Clause)")


def check_todo(path, lines):
    for number, line in enumerate(lines, 1):
        for match in TODO.finditer(line):
            if match.group(1) != "TODO" or match.group(3) is None:
                problem(path, number, f"{match.group(0)}: write TODO(kind)")
            elif match.group(3) == "now":
                problem(path, number, "TODO(now): to be done before this lands")


def check_getenv(path, lines):
    if not path.startswith(GETENV_FOLDERS):
        return
    for number, line in enumerate(lines, 1):
        # Programs may ask for themselves; neither they nor the library believe a less privileged caller.
        if PLAIN_GETENV.search(line.split("//")[0]):
            problem(path, number, "secure_getenv: a privileged process must not obey its caller's environment")
        elif path == GETENV_FILE or path.startswith("tools/"):
            continue
        elif GETENV.search(line.split("//")[0]):
            problem(path, number, f"the environment is read in {GETENV_FILE} only")


def check_guard(path, lines):
    text = "\n".join(lines)
    if "#pragma once" not in text and not re.search(r"^#ifndef (\w+)\n#define \1$", text, re.MULTILINE):
        problem(path, 1, "neither #pragma once nor an include guard")


def check_links(path, lines):
    code = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            code = not code
        for target in [] if code else LINK.findall(line):
            if not os.path.exists(os.path.join(TOP, os.path.dirname(path), target)):
                problem(path, number, f"{target} is not in the tree")


def is_script(path):
    name = os.path.basename(path)
    return path.endswith(SCRIPTS) or name in ("dev", "run", "meson_options.txt", ".clang-format", ".clang-tidy")


def main():
    checked = 0
    for folder, subfolders, names in os.walk(TOP):
        subfolders[:] = sorted(set(subfolders) - SKIPPED_FOLDERS)
        if "meson-private" in subfolders:  # somebody's build folder
            subfolders.clear()
            continue
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), TOP)
            code = name.endswith(CODE)
            page = name.endswith(".md")
            if not code and not page and not is_script(path):
                continue
            with open(os.path.join(TOP, path), encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
            checked += 1
            if page:
                check_links(path, lines)
                continue
            check_spdx(path, lines)
            if os.path.basename(path) not in ("check_tree.py", "test_check_tree.py"):
                check_todo(path, lines)
            if code:
                check_includes(path, lines)
                check_getenv(path, lines)
            if name.endswith((".h", ".hpp")):
                check_guard(path, lines)
    for line in problems:
        print(line)
    print(f"{checked} files checked, {len(problems)} problem{'' if len(problems) == 1 else 's'}")
    return 1 if problems or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
