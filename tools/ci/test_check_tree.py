#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_tree.py and test_summary.py on input that is known to be wrong: a check that finds nothing there checks nothing."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LICENCE = "// SPDX-License-Identifier: BSD-3-Clause\n"


def run(script, *arguments):
    return subprocess.run([sys.executable, os.path.join(HERE, script), *arguments], capture_output=True, text=True,
                          check=False, timeout=60)


def check_tree(files):
    with tempfile.TemporaryDirectory() as top:
        for path, text in files.items():
            os.makedirs(os.path.join(top, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(top, path), "w", encoding="utf-8") as file:
                file.write(text)
        return run("check_tree.py", top)


def header(body=""):
    return LICENCE + "#pragma once\n" + body


def tree():
    clean = {"na/a.hpp": header(), "na/util/b.hpp": header(), "hg/c.hpp": header('#include "na/a.hpp"\n'),
             "plugins/sm/d.cpp": LICENCE + '#include "na/util/b.hpp"\n',
             "docs/code.md": "```cpp\nserve([](int a) { return a; });\n```\n"}
    done = check_tree(clean)
    assert done.returncode == 0 and "5 files checked, 0 problems" in done.stdout, done.stdout
    wrong = {
        "a layer that looks up": {"na/x.cpp": LICENCE + '#include "hg/c.hpp"\n'},
        "util that looks up": {"na/util/x.cpp": LICENCE + '#include "na/a.hpp"\n'},
        "a plugin that looks into the core": {"plugins/sm/x.cpp": LICENCE + '#include "na/a.hpp"\n'},
        "a demo that looks inside": {"tools/demo/x.cpp": LICENCE + '#include "na/a.hpp"\n'},
        "a file that is not there": {"hg/x.cpp": LICENCE + '#include "hg/nothing.hpp"\n'},
        "no licence": {"hg/x.cpp": "int x;\n"},
        "no guard": {"hg/x.hpp": LICENCE},
        "TODO without kind": {"hg/x.cpp": LICENCE + "// TODO: think\n"},
        "TODO(now)": {"hg/x.cpp": LICENCE + "// TODO(now): think\n"},
        "FIXME": {"hg/x.cpp": LICENCE + "// FIXME\n"},
        "a dead link": {"docs/x.md": "see [there](nothing.md#part), [here](x.md), [web](https://example.org)\n"},
        "getenv outside": {"hg/x.cpp": LICENCE + 'auto v = secure_getenv("X");\n'},
        "plain getenv": {"na/util/config.cpp": LICENCE + 'auto v = std::getenv("X");\n'},
        "plain getenv of a program": {"tools/x.cpp": LICENCE + 'auto v = std::getenv("X");\n'},
    }
    for what, files in wrong.items():
        done = check_tree({**clean, **files})
        (path,) = files
        assert done.returncode == 1 and f"\n{path}:" in "\n" + done.stdout, f"{what} is not found:\n{done.stdout}"
        print(f"ok: {what}")
    assert check_tree({}).returncode == 1, "an empty tree passes"


def summary():
    def of(status, *results):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            for number, (result, output) in enumerate(results):
                log.write(json.dumps({"name": f"t{number}", "result": result, "stdout": output, "command": ["x"]}) + "\n")
            log.flush()
            done = run("test_summary.py", log.name, "--status", str(status))
        return done.returncode, done.stdout.splitlines()[-1], done.stdout

    assert of(0, ("OK", ""), ("OK", ""))[:2] == (0, "2 passed, 0 failed")
    code, last, text = of(1, ("OK", ""), ("FAIL", "the cause"), ("TIMEOUT", ""), ("ERROR", ""))
    assert (code, last) == (1, "1 passed, 3 failed") and "the cause" in text, text
    code, last, text = of(0, ("OK", ""), ("SKIP", "skipped: no cmake here\n"))
    assert (code, last) == (0, "1 passed, 0 failed, 1 skipped") and "t1: skipped: no cmake here" in text, text
    assert of(0)[:2] == (1, "0 passed, 0 failed"), "no test at all must not pass"
    assert of(0, ("SKIP", ""))[0] == 1, "only skipped tests must not pass"
    assert of(1, ("OK", ""))[0] == 1, "a runner that failed must not pass"
    assert of(0, ("INTERRUPT", ""))[0] == 1
    print("ok: summary")


tree()
summary()
