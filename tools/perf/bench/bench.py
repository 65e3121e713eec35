#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""./dev bench: measures what this machine can, side by side, and says which figures are reached.

Runs of a group follow one another, round after round (A B A B), both processes bound to a processor each. A run is cut into
blocks of a quarter of a millisecond; what counts is the block of the median operation, the ratio within a round, and of
that the median over the rounds. Beside it stands the ratio of the blocks that a tenth of the operations are faster than:
where others use the machine that is nearer to what it would do without them.

A figure is "unclear", with the reason, where rounds are missing or far apart, or a floor is beyond what any machine takes; it is
"failed" where a program of this project failed, and so is the whole (status 1).
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plan  # noqa: E402
import report  # noqa: E402
import runs  # noqa: E402

SPREAD = 3  # so many times the lowest value of some rounds: the highest is not of the same thing any more
QUIET = 0.1  # of a processor that others may use before a round counts as disturbed


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="folder with the programs (%(default)s)")
    parser.add_argument("--out", default="build/bench", help="folder for the results (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="one short round, for a look")
    parser.add_argument("--runs", type=int, help="rounds (5)")
    parser.add_argument("--seconds", type=float, help="of each size in each round (0.3)")
    parser.add_argument("--idle", type=float, help="seconds that idling is measured (10)")
    parser.add_argument("--cpus", default="", help="client's and server's processor, as 0,1")
    parser.add_argument("--only", default="", help="groups, separated by commas: " + ", ".join(plan.groups(False, 1)))
    chosen = parser.parse_args()
    for name, quick, usual in (("runs", 1, 5), ("seconds", 0.05, 0.3), ("idle", 1, 10)):
        value = getattr(chosen, name)
        if value is None:
            setattr(chosen, name, quick if chosen.quick else usual)
        elif not (0 < value < 1e6):
            parser.error(f"--{name} {value}: it has to be more than nothing")
    if not os.path.exists(os.path.join(chosen.build, "tools", "perf")):
        parser.error(f"--build {chosen.build}: no tools/perf is there; ./dev build makes it")
    try:
        os.makedirs(chosen.out, exist_ok=True)
        with open(os.path.join(chosen.out, "bench.json.part"), "w", encoding="utf-8"):
            pass
    except OSError as error:
        parser.error(f"--out {chosen.out}: {error.strerror}")
    chosen.cpus = two_processors(parser, chosen.cpus)
    return chosen


def two_processors(parser, text):
    allowed = sorted(os.sched_getaffinity(0))
    if text:
        chosen = text.split(",")
        if len(chosen) != 2 or not all(n.strip().isdecimal() and int(n) in allowed for n in chosen):
            parser.error(f"--cpus {text}: two of {', '.join(map(str, allowed))}, as 0,1")
        return [int(n) for n in chosen]
    if len(allowed) < 2:
        print("only one processor: both sides share it, and polling means little", file=sys.stderr)
    return [allowed[0], allowed[1 % len(allowed)]]


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def measure(machine, name, group, rounds):
    """[{run: table}], {run: why it is missing}, {run: when and why it failed}, how much of the machine others used."""
    results, missing, failed, disturbance = [], {}, {}, []
    for i in range(rounds):
        result = {}
        for label, run in group.items():
            if label in missing or label in failed:
                continue
            progress(f"{name}: {label} ({i + 1} of {rounds})")
            start, busy, own = time.monotonic(), runs.machine_busy(), runs.own_busy()
            try:
                result[label] = run(machine)
            except runs.Missing as why:
                missing[label] = str(why)
                continue
            except runs.Failed as why:
                failed[label] = {"round": i + 1, "why": str(why), "own": run.own}
                continue
            others = (runs.machine_busy() - busy) - (runs.own_busy() - own)
            disturbance.append(max(0.0, others / (time.monotonic() - start)))
        results.append(result)
    progress("")
    return {"rounds": results, "asked": rounds, "missing": missing, "failed": failed, "others": disturbance,
            "floors": [label for label, run in group.items() if isinstance(run, runs.Floor)]}


class Noted(dict):
    """A round's runs, which notes those that were looked at."""

    def __init__(self, result, used):
        super().__init__(result)
        self.used = used

    def __getitem__(self, label):
        self.used.add(label)
        return super().__getitem__(label)


def spread(values):
    return max(values) > SPREAD * min(values)


def doubts(row, group, used):
    """What speaks against a figure that was measured: a list, empty if nothing does."""
    found = [f"{label} failed in round {group['failed'][label]['round']}" for label in sorted(used) if label in group["failed"]]
    if not found and len(row["values"]) < group["asked"]:
        found.append(f"{len(row['values'])} of {group['asked']} rounds")
    if min(row["values"]) <= 0:
        found.append("a value of nothing")
    elif spread(row["values"]):
        found.append("the rounds are far apart")
    if row["undisturbed"] and spread([row["undisturbed"], row["value"]]):
        found.append("the undisturbed blocks are far off")
    for label in sorted(used.intersection(group["floors"])):
        # Of all its sizes the one that takes least.
        floor = [min(row["median_us"] for row in result[label].values()) for result in group["rounds"] if result.get(label)]
        most = plan.MOST_US.get(label)
        if most and max(floor) > most:
            found.append(f"{label} took {max(floor):.4g} us")
        elif min(floor) <= 0 or spread(floor):
            found.append(f"{label} took from {min(floor):.4g} to {max(floor):.4g} us")
    return found


def evaluate(measured, figures):
    """One row per figure; its verdict: pass, short, unclear (with what speaks against it), failed, or not measured."""
    rows = []
    for what, name, ratio, way, limit in figures:
        if name not in measured:
            continue
        group, used = measured[name], set()
        ratios, why = {"median_us": {}, "undisturbed_us": {}}, None
        worst = max if way == "max" else min
        values = []
        for result in group["rounds"]:
            for key, by_size in ratios.items():
                try:
                    found = ratio(Noted(result, used), key)
                except KeyError as error:
                    if key == "median_us":
                        why = group["missing"].get(error.args[0], f"{error.args[0]} was not measured")
                    continue  # peers have no undisturbed blocks
                except ZeroDivisionError:
                    found = 0.0
                found = found if isinstance(found, dict) else {0: found}
                for size, value in found.items():
                    by_size.setdefault(size, []).append(value)
                if key == "median_us":
                    values.append(worst(found.values()))
        row = {"what": what, "way": way, "limit": limit, "values": values}
        own = [label for label in sorted(used) if group["failed"].get(label, {}).get("own")]
        if values:
            row["value"], row["undisturbed"] = (worst((statistics.median(of_size) for of_size in by_size.values()), default=None)
                                                for by_size in ratios.values())
            row["doubts"] = doubts(row, group, used)
            reached = row["value"] <= limit if way == "max" else row["value"] >= limit
            row["verdict"] = "failed" if own else "unclear" if row["doubts"] else "pass" if reached else "short"
        else:
            failed = [label for label in sorted(used) if label in group["failed"]]
            row["verdict"] = "failed" if failed else "not measured"
            row["doubts"] = [f"{label} failed in round {group['failed'][label]['round']}" for label in failed] or [why]
        rows.append(row)
    return rows


def show(rows):
    width = max((len(row["what"]) for row in rows), default=0)
    print(f"{'what':<{width}}  {'value':>8}  {'to reach':>9}  {'lowest':>8}  {'highest':>8}  {'undisturbed':>11}")
    for row in rows:
        limit = f"{'<=' if row['way'] == 'max' else '>='} {row['limit']:g}"
        verdict = row["verdict"] + (": " + ", ".join(row["doubts"]) if row["doubts"] else "")
        if not row["values"]:
            print(f"{row['what']:<{width}}  {'-':>8}  {limit:>9}  {verdict}")
            continue
        digits = 0 if row["limit"] >= 60 else 2
        undisturbed = "-" if row["undisturbed"] is None else f"{row['undisturbed']:.{digits}f}"
        print(f"{row['what']:<{width}}  {row['value']:>8.{digits}f}  {limit:>9}  {min(row['values']):>8.{digits}f}  "
              f"{max(row['values']):>8.{digits}f}  {undisturbed:>11}  {verdict}")


def show_failures(measured):
    for name, group in measured.items():
        for label, why in group["missing"].items():
            print(f"not measured: {name}, {label}: {why}")
        for label, failure in group["failed"].items():
            print(f"failed: {name}, {label}, round {failure['round']}: " + failure["why"].replace("\n", "\n    "))


def status(measured):
    """Of the process: 1 if a program of ours failed, or nothing was measured at all."""
    ours = any(failure["own"] for group in measured.values() for failure in group["failed"].values())
    return 1 if ours or not any(row for group in measured.values() for row in group["rounds"]) else 0


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def congestion_control():
    try:
        with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def main():
    chosen = arguments()
    machine = runs.Machine(os.path.abspath(chosen.build), chosen.cpus, chosen.seconds)
    groups = plan.groups(chosen.quick, chosen.idle)
    if chosen.only:
        wanted = [name.strip() for name in chosen.only.split(",")]
        unknown = [name for name in wanted if name not in groups]
        if unknown:
            sys.exit(f"no group \"{unknown[0]}\"; there are: {', '.join(groups)}")
        groups = {name: groups[name] for name in wanted}
    measured = {}
    for name, group in groups.items():
        measured[name] = measure(machine, name, group, 1 if name in plan.ONCE else chosen.runs)
    rows = evaluate(measured, plan.FIGURES)
    show(rows)
    show_failures(measured)
    all_others = [share for group in measured.values() for share in group["others"]]
    disturbed = sum(share > QUIET for share in all_others)
    if disturbed:
        print(f"others used the machine during {disturbed} of {len(all_others)} runs, {statistics.mean(all_others):.2f} "
              "processors on average: the figures are not those of a quiet machine")
    control = congestion_control()
    if control == "bbr" and any(name.startswith("tcp") for name in groups):
        print("tcp's congestion control is bbr, which paces also within a host, by what it has seen: bulk over tcp, the raw stream "
              "included, varies by half (sysctl net.ipv4.tcp_congestion_control=cubic)")
    document = {"machine": {"processor": processor(), "processors": os.cpu_count(), "kernel": platform.release(),
                            "congestion_control": control, "load": os.getloadavg()},
                "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "rounds": chosen.runs, "seconds": chosen.seconds,
                "cpus": [machine.client, machine.server], "figures": rows, "groups": measured}
    path = os.path.join(chosen.out, "bench.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    os.replace(path + ".part", path)
    page = os.path.join(chosen.out, "bench.html")
    with open(page, "w", encoding="utf-8") as file:
        file.write(report.page(document))
    print(f"{path}, {page}")
    return status(measured)


if __name__ == "__main__":
    sys.exit(main())
