"""The throughputs as a picture: plain SVG that follows the reader's light or dark scheme."""

from xml.sax.saxutils import escape

from table import NAMES, RATE

WIDTH, LABELS, VALUES = 860, 270, 190
BAR, GAP, GROUP_GAP, TOP = 18, 3, 22, 46
SIDES = {"redstart": "Redstart (fsync)", "apache": "Apache 5.5 (async flush)", "apache-sync": "Apache 5.5 (SYNC_FLUSH)"}
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .redstart { fill: #c2410c } .apache { fill: #64748b } .apache-sync { fill: #a8b3c2 }
  .head { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .redstart { fill: #fb923c } .apache { fill: #94a3b8 } .apache-sync { fill: #5b6778 }
  }
"""


def groups(rows):
    """Every throughput: its name, and each side's value. Sends of the side that syncs stand beside the others."""
    found = {}
    for row in rows:
        if row.form != RATE:
            continue
        name = row.name.removesuffix(", both durable")
        values = found.setdefault(f"{NAMES[row.protocol]}: {name}", {})
        values.update({"redstart": row.ours, row.other: row.theirs})
    return found


def legend():
    x, parts = 12, []
    for side, name in SIDES.items():
        parts.append(f'<rect class="{side}" x="{x}" y="12" width="14" height="14" rx="2"/>')
        parts.append(f'<text x="{x + 20}" y="24">{escape(name)}</text>')
        x += 44 + 7 * len(name)
    return parts


def bars(name, values, y):
    """One group, drawn to the scale of its largest value: rates of different loads lie far apart."""
    largest = max(values.values())
    parts = [f'<text class="head" x="12" y="{y + 14}">{escape(name)}</text>']
    for side, value in values.items():
        width = max(1, round((WIDTH - LABELS - VALUES) * value / largest))
        ratio = "" if side == "redstart" else f"  (× {values['redstart'] / value:.1f})"
        parts.append(f'<rect class="{side}" x="{LABELS}" y="{y}" width="{width}" height="{BAR}" rx="2"/>')
        parts.append(f'<text x="{LABELS + width + 8}" y="{y + 14}">{RATE.format(value)}{ratio}</text>')
        y += BAR + GAP
    return parts, y + GROUP_GAP


def render(rows):
    parts, y = legend(), TOP
    for name, values in groups(rows).items():
        drawn, y = bars(name, values, y)
        parts += drawn
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">\n'
            f"<title>Messages a second, Redstart and Apache RocketMQ</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n")
