# SPDX-License-Identifier: BSD-3-Clause
"""The report: one HTML page with its figures drawn as SVG, nothing fetched from anywhere."""

import html
import math
import statistics

COLOURS = ("#c0392b", "#2471a3", "#1e8449", "#b7950b", "#7d3c98", "#566573", "#d35400", "#148f77", "#884ea0", "#2c3e50")
PLOT, HEIGHT = 460, 420  # the plot's width; of the whole, at least
LEFT, TOP, BOTTOM = 70, 20, 50
# Of a legend: where its rows begin beyond the plot, one row, and one character of 12 px, at most.
KEY, ROW, CHARACTER = 40, 18, 8

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 72em; color: #222; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; } .pass { color: #1e8449; } .short, .failed { color: #c0392b; } .unclear { color: #b7950b; }
svg { max-width: 100%; } svg text { font: 12px system-ui, sans-serif; fill: #333; } .grid { stroke: #e5e5e5; }
"""


def bytes_name(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:g} {unit}"
        size /= 1024
    return ""


def powers(low, high, base):
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    return [base**i for i in range(first, last + 1)]


def chart(title, unit, series):
    """Lines over sizes, both axes logarithmic; series: {name: {size: value}}."""
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    sizes = [s for points in series.values() for s in points]
    values = [v for points in series.values() for v in points.values() if v > 0]
    ticks = powers(min(values), max(values), 10)
    low, high = math.log(ticks[0]), math.log(ticks[-1] if ticks[-1] > ticks[0] else ticks[0] * 10)
    small, large = math.log2(min(sizes)), math.log2(max(sizes) if max(sizes) > min(sizes) else min(sizes) * 2)

    # As wide as the longest name of the legend needs, and as high as all of them.
    right = LEFT + PLOT
    width = right + KEY + CHARACTER * max(len(name) for name in series)
    height = max(HEIGHT, TOP + 14 + ROW * len(series))

    def x(size):
        return LEFT + (math.log2(size) - small) / (large - small) * PLOT

    def y(value):
        return height - BOTTOM - (math.log(value) - low) / (high - low) * (height - TOP - BOTTOM)

    out = [f'<h2>{html.escape(title)}</h2>', f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img">',
           f'<title>{html.escape(title)}</title>']
    for tick in ticks:
        out.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
                   f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    exponents = range(math.ceil(small), math.floor(large) + 1)
    for e in [e for e in exponents if (e - math.ceil(small)) % 3 == 0]:
        out.append(f'<line class="grid" y1="{TOP}" y2="{height - BOTTOM}" x1="{x(2**e):.1f}" x2="{x(2**e):.1f}"/>'
                   f'<text x="{x(2**e):.1f}" y="{height - BOTTOM + 18}" text-anchor="middle">{bytes_name(2**e)}</text>')
    out.append(f'<text x="{LEFT}" y="{TOP - 6}">{html.escape(unit)}</text>')
    for i, (name, points) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        dash = ' stroke-dasharray="5 3"' if i >= len(COLOURS) else ""
        path = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in sorted(points.items()) if v > 0)
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dash} points="{path}"/>')
        for s, v in points.items():
            if v > 0:
                out.append(f'<circle cx="{x(s):.1f}" cy="{y(v):.1f}" r="2.5" fill="{colour}">'
                           f'<title>{html.escape(name)}, {bytes_name(s)}: {v:.4g}</title></circle>')
        row = TOP + 14 + ROW * i
        out.append(f'<line x1="{right + 14}" x2="{right + 34}" y1="{row - 4}" y2="{row - 4}" stroke="{colour}" '
                   f'stroke-width="2"{dash}/><text x="{right + KEY}" y="{row}">{html.escape(name)}</text>')
    out.append("</svg>")
    return "\n".join(out)


def median_table(group, label, value):
    """{size: median over the rounds} of one run."""
    points = {}
    for result in group["rounds"]:
        for size, row in result.get(label, {}).items():
            points.setdefault(int(size), []).append(value(int(size), row))
    return {size: statistics.median(values) for size, values in points.items() if size > 0}


def latency(document, wanted):
    def us(_size, row):
        return row.get("median_us", 0)
    return {name: median_table(document["groups"][group], label, us)
            for name, group, label in wanted if group in document["groups"]}


def bandwidth(document, wanted):
    def mib(size, row):
        return size / row["median_us"] * 1e6 / 1048576 if row.get("median_us") else 0
    return {name: median_table(document["groups"][group], label, mib)
            for name, group, label in wanted if group in document["groups"]}


def figures(document):
    out = ["<table><tr><th>what</th><th>value</th><th>to reach</th><th>lowest, highest</th><th></th></tr>"]
    for row in document["figures"]:
        limit = f"{'≤' if row['way'] == 'max' else '≥'} {row['limit']:g}"
        why = html.escape(", ".join(row["doubts"]))
        if not row["values"]:
            out.append(f"<tr><td>{html.escape(row['what'])}</td><td></td><td>{limit}</td><td></td>"
                       f"<td class='{row['verdict']}'>{row['verdict']}: {why}</td></tr>")
            continue
        out.append(f"<tr><td>{html.escape(row['what'])}</td><td>{row['value']:.4g}</td><td>{limit}</td>"
                   f"<td>{min(row['values']):.4g}, {max(row['values']):.4g}</td>"
                   f"<td class='{row['verdict']}'>{row['verdict']}{': ' + why if why else ''}</td></tr>")
    out.append("</table>")
    return "\n".join(out)


def single(title, document, group):
    """What has one size, or none: a table."""
    rounds = document["groups"].get(group, {"rounds": []})["rounds"]
    found = {}
    for result in rounds:
        for name, rows in result.items():
            for size, row in rows.items():
                found.setdefault((name, int(size)), []).append(row["median_us"])
    if not found:
        return ""
    rows = "".join(f"<tr><td>{html.escape(name)}</td><td>{bytes_name(size)}</td><td>{statistics.median(values):.4g}</td></tr>"
                   for (name, size), values in found.items())
    return f"<h2>{html.escape(title)}</h2><table><tr><th>what</th><th>size</th><th>microseconds for each</th></tr>{rows}</table>"


def page(document):
    machine = document["machine"]
    arguments = [("na+sm", "sm arguments", "na+sm"), ("two copies through shared memory", "sm arguments", "handover"),
                 ("ofi+tcp", "tcp arguments", "ofi+tcp"), ("ucx+tcp", "tcp arguments", "ucx+tcp")]

    def of_group(group):  # in one chart only what ran side by side
        rounds = document["groups"].get(group, {"rounds": []})["rounds"]
        return [(name, group, name) for name in dict.fromkeys(name for result in rounds for name in result)]
    others = [share for group in document["groups"].values() for share in group["others"]]
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Cinnabar: benchmarks</title>", f"<style>{STYLE}</style>",
        "<h1>Benchmarks</h1>",
        f"<p>{html.escape(machine['processor'])}, {machine['processors']} processors, kernel {html.escape(machine['kernel'])}, "
        f"tcp: {html.escape(machine['congestion_control'])}; "
        f"{document['time']}; {document['rounds']} rounds of {document['seconds']} s per size; processors "
        f"{document['cpus'][0]} and {document['cpus'][1]}. Others used "
        f"{statistics.mean(others) if others else 0:.2f} processors meanwhile.</p>",
        figures(document),
        chart("Round trip with as many bytes back as there", "microseconds", latency(document, of_group("curves"))),
        chart("Calls with arguments of a size and an empty answer, busy", "microseconds", latency(document, arguments)),
        chart("Bulk data, 8 in flight", "MiB/s", bandwidth(document, of_group("bulk curves"))),
        chart("Messages (na_lat), there and back", "microseconds", latency(document, of_group("messages"))),
        chart("Puts and gets (na_bw), 8 in flight", "MiB/s", bandwidth(document, of_group("puts and gets"))),
        single("Further calls", document, "further calls"),
        "</html>",
    ]
    return "\n".join(parts)
