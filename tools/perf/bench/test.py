#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What ./dev bench says of runs that fail, are missing, or cannot be true. Nothing is measured here."""

import contextlib
import io
import os
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench  # noqa: E402
import plan  # noqa: E402
import report  # noqa: E402
import runs  # noqa: E402

MACHINE = runs.Machine("nowhere", (0, 1), 0.01)
FIGURES = (("what", "group", lambda r, k: r["busy"][8][k] / r["line"][8][k], "max", 2.0),)


def row(us):
    return {8: {"median_us": us, "undisturbed_us": us}}


class Values:
    """A run of ours that gives one after the other; what is an exception is raised."""

    own = True

    def __init__(self, *values):
        self.values = iter(values)

    def __call__(self, machine):
        value = next(self.values)
        if isinstance(value, Exception):
            raise value
        return row(value)


class FloorValues(Values, runs.Floor):
    pass


class PeerValues(Values):
    own = False


def measured(rounds, **group):
    return {"group": bench.measure(MACHINE, "group", group, rounds)}


def verdict(found):
    rows = bench.evaluate(found, FIGURES)
    with contextlib.redirect_stdout(io.StringIO()) as text:
        bench.show(rows)
        bench.show_failures(found)
    page = report.figures({"figures": rows})
    assert rows[0]["verdict"] in page and rows[0]["verdict"] in text.getvalue()
    return rows[0]["verdict"], rows[0]["doubts"], text.getvalue()


class Verdicts(unittest.TestCase):
    def test_plain(self):
        found = measured(3, line=FloorValues(0.2, 0.2, 0.2), busy=Values(0.3, 0.3, 0.3))
        self.assertEqual(verdict(found)[:2], ("pass", []))
        self.assertEqual(bench.status(found), 0)
        self.assertEqual(verdict(measured(2, line=FloorValues(0.2, 0.2), busy=Values(0.5, 0.5)))[0], "short")

    def test_a_later_round_fails(self):
        found = measured(3, line=FloorValues(0.2, 0.2, 0.2), busy=Values(0.3, 0.3, runs.Failed("hg_rate: so\nand so")))
        said, doubts, text = verdict(found)
        self.assertEqual((said, doubts), ("failed", ["busy failed in round 3"]))
        self.assertIn("hg_rate: so\n    and so", text)
        self.assertEqual(bench.status(found), 1)

    def test_all_rounds_fail(self):
        found = measured(2, line=FloorValues(0.2, 0.2), busy=Values(runs.Failed("no")))
        self.assertEqual(verdict(found)[0], "failed")
        self.assertEqual(bench.status(found), 1)

    def test_what_no_figure_uses_fails(self):
        found = measured(1, line=FloorValues(0.2), busy=Values(0.3), other=Values(runs.Failed("no")))
        self.assertEqual(verdict(found)[0], "pass")
        self.assertEqual(bench.status(found), 1)

    def test_a_peer_fails(self):
        found = measured(2, line=FloorValues(0.2, 0.2), busy=PeerValues(0.3, runs.Failed("no")))
        self.assertEqual(verdict(found)[0], "unclear")
        self.assertEqual(bench.status(found), 0)

    def test_not_here(self):
        found = measured(2, line=FloorValues(0.2, 0.2), busy=Values(runs.Missing("not installed")))
        self.assertEqual(verdict(found)[:2], ("not measured", ["not installed"]))
        self.assertEqual(bench.status(found), 0)
        self.assertEqual(bench.status(measured(1, busy=Values(runs.Missing("not installed")))), 1)

    def test_fewer_rounds(self):
        found = measured(2, line=FloorValues(0.2, 0.2), busy=Values(0.3, 0.3))
        del found["group"]["rounds"][1]["busy"][8]["median_us"]
        self.assertEqual(verdict(found)[:2], ("unclear", ["1 of 2 rounds"]))

    def test_far_apart(self):
        self.assertEqual(verdict(measured(3, line=FloorValues(0.2, 0.2, 0.2), busy=Values(0.3, 0.3, 1.2)))[0], "unclear")

    def test_a_floor_that_cannot_be(self):
        said, doubts, _ = verdict(measured(1, line=FloorValues(1936), busy=Values(0.4)))
        self.assertEqual((said, doubts), ("unclear", ["line took 1936 us"]))
        self.assertEqual(verdict(measured(2, line=FloorValues(0.2, 0.9), busy=Values(0.3, 1.3)))[0], "unclear")
        self.assertEqual(verdict(measured(1, line=FloorValues(0), busy=Values(0.3)))[0], "unclear")

    def test_undisturbed_is_far_off(self):
        found = measured(1, line=FloorValues(0.2), busy=Values(0.3))
        found["group"]["rounds"][0]["busy"][8]["undisturbed_us"] = 0.05
        self.assertEqual(verdict(found)[0], "unclear")


class Calls(unittest.TestCase):
    def test_what_a_program_said(self):
        with self.assertRaises(runs.Failed) as caught:
            MACHINE.call(["sh", "-c", "for i in $(seq 20); do echo line $i >&2; done; exit 1"])
        lines = str(caught.exception).splitlines()
        self.assertEqual((len(lines), lines[-1]), (runs.LAST_LINES, "line 20"))
        self.assertIn("sh: line", lines[0])

    def test_a_status_alone(self):
        with self.assertRaisesRegex(runs.Failed, "status 3"):
            MACHINE.call(["sh", "-c", "exit 3"])

    def test_not_here(self):
        with self.assertRaises(runs.Missing):
            MACHINE.call(["/no/such/program"])
        with self.assertRaises(runs.Missing):
            MACHINE.call(["sh", "-c", f"echo 'cannot open \"x\" {runs.NOT_HERE}' >&2; exit 1"])

    def test_no_json(self):
        with self.assertRaises(runs.Failed):
            runs.table("no")

    def test_a_tool_that_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "tools", "perf"))
            path = os.path.join(folder, "tools", "perf", "hg_rate")
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\necho 'hg_rate: 7 wrong bytes came back at 8 B' >&2\nexit 1\n")
            os.chmod(path, 0o755)
            machine = runs.Machine(folder, (0, 1), 0.01)
            found = {"group": bench.measure(machine, "group", {"line": FloorValues(0.2), "busy": runs.Ours("hg_rate", "na+sm")}, 1)}
            said, _, text = verdict(found)
            self.assertEqual((said, bench.status(found)), ("failed", 1))
            self.assertIn("7 wrong bytes", text)


class Report(unittest.TestCase):
    def test_legends_lie_within_their_figure(self):
        names = [f"a run with a name of many words, number {i:02}, over a transport" for i in range(30)]
        drawn = report.chart("title", "us", {name: {8: 1.0, 4096: 20.0 + i} for i, name in enumerate(names)})
        width, height = (float(n) for n in re.search(r'viewBox="0 0 (\S+) (\S+)"', drawn).groups())
        for name in names:
            x, y = re.search(rf'<text x="(\S+)" y="(\S+)">{name}</text>', drawn).groups()
            self.assertLessEqual(float(x) + 7 * len(name), width, name)
            self.assertLessEqual(float(y), height, name)


class Plan(unittest.TestCase):
    def test_every_run_says_whose_it_is(self):
        for name, group in plan.groups(False, 1).items():
            for label, run in group.items():
                self.assertIsInstance(run.own, bool, f"{name}, {label}")

    def test_every_figure_has_its_group(self):
        groups = plan.groups(True, 1)
        for _, group, *_ in plan.FIGURES:
            self.assertIn(group, groups)


if __name__ == "__main__":
    unittest.main()
