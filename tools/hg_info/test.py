#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hg_info as scripts and users call it. Argument: the program. The formats are checked to the byte: they are those of
Mercury's tool, which scripts parse."""

import json
import os
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
SKIP = 77


def run(*arguments, **environment):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=30,
                          env={**os.environ, **environment}, check=False)
    assert done.returncode in (0, 1), f"{arguments}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def expect(what, actual, wanted):
    assert actual == wanted, f"{what}:\n--- got\n{actual!r}\n--- wanted\n{wanted!r}"
    print(f"ok: {what}")


LINE = "-" * 50
TABLE = (f"{LINE}\nClass                 Protocol              Device\n{LINE}\n"
         "na                          sm                 shm\n")
CSV = "class,protocol,device\nna,sm,shm\n"
JSON = """{
  "protocols":[
    {
      "class":"na",
      "protocol":"sm",
      "device":"shm"
    }
  ]
}
"""


def formats():
    title = '# Retrieving protocol info for "na+sm"...\n'
    expect("table", run("na+sm").stdout, title + TABLE)
    expect("table by name", run("--format", "plain", "na+sm").stdout, title + TABLE)
    expect("silent table", run("-s", "na+sm").stdout, TABLE)
    expect("CSV", run("na+sm", "-c").stdout, title + CSV)
    expect("silent CSV", run("--silent", "--csv", "na+sm").stdout, CSV)
    expect("CSV by name", run("-s", "--format", "csv", "na+sm").stdout, CSV)
    expect("JSON", run("-j", "-s", "na+sm").stdout, JSON)
    expect("JSON without -s", run("-j", "na+sm").stdout, JSON)
    expect("JSON by name", run("-s", "--format=json", "na+sm").stdout, JSON)
    expect("-c wins over -j", run("-s", "-j", "-c", "na+sm").stdout, CSV)
    everything = run()
    expect("status without argument", everything.returncode, 0)
    expect("title without argument", everything.stdout.split("\n")[0],
           "# Retrieving protocol info for all protocols...")
    assert "na                          sm                 shm\n" in everything.stdout
    for name in ("sm", "na", "na+sm://", "na+sm://anything"):
        expect(f'"{name}" finds na+sm', "na,sm,shm" in run("-s", "-c", name).stdout, True)


def absent():
    """No protocol is told that cannot be opened."""
    for name in ("ofi+cxi", "ofi+gni", "ucx+ugni", "no_such_protocol"):
        done = run("-s", name)
        if done.returncode == 0:
            continue  # it is here
        expect(f"nothing is listed for {name}", done.stdout, "")
        assert name in done.stderr, done.stderr
    assert run("-s", "no_such_protocol").returncode == 1
    expect("help shows names", "->" in run("--help").stdout, False)


def details():
    plain = run("-v", "na+sm").stdout
    for word in ("Capabilities", "Plugins", "Versions", "Environment", "largest unexpected message",
                 "HG_LOG_LEVEL", "built in"):
        assert word in plain, f"{word} is not in the details:\n{plain}"
    assert plain.startswith('# Retrieving protocol info for "na+sm"...\n' + TABLE), plain
    print("ok: details follow the table")

    report = json.loads(run("-s", "-j", "--details", "na+sm", HG_LOG_LEVEL="warning").stdout)
    expect("keys", sorted(report), ["capabilities", "environment", "plugins", "protocols", "versions"])
    (sm,) = report["capabilities"]
    assert not sm["looks"] and sm.get("problem") is None and sm["max_unexpected"] >= 4096 and sm["rpc_input_eager"] > 0, sm
    variables = {v["name"]: v for v in report["environment"]}
    expect("a variable that is set", variables["HG_LOG_LEVEL"]["value"], "warning")
    expect("every variable has help", all(v["help"] for v in variables.values()), True)
    unset = json.loads(run("-s", "-j", "-v", "na+sm", NA_PLUGIN_PATH="").stdout)
    values = {v["name"]: v["value"] for v in unset["environment"]}
    expect("a variable that is not set", values["NA_PLUGIN_PATH"], None)

    rows = [line.split(",") for line in run("-s", "-c", "-v", "na+sm").stdout.splitlines()]
    expect("CSV columns", len(rows[0]), len(rows[1]))
    expect("first CSV columns", rows[0][:3] + rows[1][:3], "class protocol device na sm shm".split())

    with tempfile.TemporaryDirectory() as folder:
        module = os.path.join(folder, "libna_plugin_broken.so")
        with open(module, "w", encoding="ascii") as file:
            file.write("this is no library\n")
        report = json.loads(run("-s", "-j", "-v", "na+sm", NA_PLUGIN_PATH=folder).stdout)
        problems = [p["problem"] for p in report["plugins"] if p["problem"]]
        assert any(module in p["name"] for p in report["plugins"]) and problems, report["plugins"]
        print(f"ok: a module that cannot be loaded: {problems[0]}")


def other_transports():
    """Those that are there: what they list can be asked for by name, and opened."""
    rows = [line.split(",") for line in run("-s", "-c").stdout.splitlines()[1:]]
    for name in sorted({f"{row[0]}+{row[1]}" for row in rows if row[0] == "ofi"}):
        devices = [row[2] for row in rows if f"{row[0]}+{row[1]}" == name]
        listed = [line.split(",")[2] for line in run("-s", "-c", name).stdout.splitlines()[1:]]
        expect(f"devices of {name}", sorted(listed), sorted(devices))
        report = json.loads(run("-s", "-j", "-v", name).stdout)
        (found,) = report["capabilities"]
        assert found.get("problem") is not None or found["max_unexpected"] >= 4096, found
        # Whose queues have no descriptor: shm's, and those of sockets, as far as is known.
        looks = {"ofi+tcp": False, "ofi+shm": True}
        if "libfabric 1.17" in str(report["plugins"]):
            looks["ofi+sockets"] = True
        if found.get("problem") is None and name in looks:
            expect(f"whether {name} looks", found["looks"], looks[name])
            expect("and says so", "yes, looks 100 times" in run("-v", name).stdout, looks[name])
    if any(row[0] == "ofi" for row in rows):
        plugins = json.loads(run("-s", "-j", "-v", "ofi").stdout)["plugins"]
        assert any("libfabric" in str(p) for p in plugins), plugins
        print("ok: the version of libfabric")


def usage(text):
    for word in ("hg_info [OPTIONS]", "class+protocol", "-h,--help", "-c,--csv", "-j,--json"):
        assert word in text, f"{word} is not in the usage:\n{text}"


def as_mercurys():
    """What scripts written for Mercury's tool rely on, beyond the formats."""
    both = [["-c", "-s", "na+sm"], ["na+sm", "-s", "-c"], ["-s", "na+sm", "-c"], ["-sc", "na+sm"]]
    for arguments in both:
        expect(f"order of {arguments}", run(*arguments).stdout, CSV)
    # Mercury's tool puts the title before JSON, which no parser of JSON takes.
    rows = [line.split(",") for line in run("-s", "-c").stdout.splitlines()]
    expect("columns", rows[0], ["class", "protocol", "device"])
    assert all(len(row) == 3 and all(row) for row in rows), rows
    order = [row[0] for row in rows[1:] if row[0] in ("ucx", "ofi", "na")]
    expect("plugins in Mercury's order", sorted(order, key=["ucx", "ofi", "na"].index), order)
    table = run("-s").stdout.splitlines()
    expect("the table has the same rows", [line.split() for line in table[3:]], rows[1:])
    expect("and so has JSON", [[p["class"], p["protocol"], p["device"]] for p in json.loads(run("-s", "-j").stdout)["protocols"]],
           rows[1:])
    for protocol in ("sm", "shm", "tcp"):
        listed = [line.split(",") for line in run("-s", "-c", protocol).stdout.splitlines()[1:]]
        expect(f"{protocol} without a class: all that have it", listed, [row for row in rows[1:] if row[1] == protocol])
    if "ofi" in order:
        for protocol in ("tcp_rxm", "tcp_exp", "sm"):
            expect(f"ofi knows {protocol}", run("-c", "-s", f"ofi+{protocol}").returncode, 0)
    done = run("nothing")
    expect("an unknown protocol", (done.returncode, done.stderr.splitlines()[0]),
           (1, "HG_Get_protocol_info() failed (HG_PROTONOSUPPORT)"))
    done = run("nothing+sm")
    expect("an unknown class", (done.returncode, done.stderr), (1, 'No protocol found for "nothing+sm"\n'))
    expect("the title is said before that, too", done.stdout, '# Retrieving protocol info for "nothing+sm"...\n')


def bad_input():
    for name in ("", ":", "+", "+sm", "na+", "foo", "na+sm+x", "tcp//x", "na+sm:/x", "://", "na+foo", "\n", "%s%n",
                 "x" * 100000, "+" * 5000, "na+sm://" + "y" * 100000):
        done = run(name)
        shown = name if len(name) < 20 else f"{name[:10]}... of {len(name)}"
        expect(f"{shown!r} is refused", done.returncode, 1)
        # The code, and once in words.
        assert 1 <= len(done.stderr.splitlines()) <= 3, f"{shown!r}: {done.stderr}"
        assert done.stderr.startswith(("HG_Get_protocol_info() failed (HG_", "No protocol found")), done.stderr
    expect("class without such a plugin", run("foo+tcp").stderr, 'No protocol found for "foo+tcp"\n')
    for arguments in (["--nonsense"], ["-x"], ["--format", "xml"], ["--format"], ["na+sm", "more"]):
        done = run(*arguments)
        expect(f"{arguments} is refused", (done.returncode, bool(done.stderr.strip())), (1, True))
    for arguments, said in ((["-x"], 'unknown option "x"'), (["--nonsense", "na+sm"], 'unknown option "nonsense"'),
                            (["na+sm", "more"], 'one protocol, not "more" too')):
        done = run(*arguments)
        expect(f"{arguments}: what is wrong", done.stderr, f"hg_info: {said}\n")
        usage(done.stdout)
    for option in ("-h", "--help"):
        done = run(option)
        expect(option, (done.returncode, done.stderr), (0, ""))
        usage(done.stdout)
    expect("no space to write to", subprocess.run(f'"{PROGRAM}" -s na+sm > /dev/full', shell=True, check=False,
                                                  stderr=subprocess.DEVNULL).returncode, 1)


if run("-s", "na+sm").returncode != 0:
    print("skipped: this build has no sm transport")
    sys.exit(SKIP)
formats()
absent()
details()
other_transports()
as_mercurys()
bad_input()
