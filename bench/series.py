"""Values over time as a picture: one small chart below the other, each with its own scale that begins at zero."""

from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, HEIGHT, GAP, TOP = 860, 70, 20, 110, 46, 30
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .head { font-weight: 600 }
  polyline { fill: none; stroke: #c2410c; stroke-width: 1.5 }
  line { stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    polyline { stroke: #fb923c }
    line { stroke: #30363d }
  }
"""


def chart(name, times, values, y):
    largest, last = max(*values, 1), max(times[-1] - times[0], 1)

    def point(time, value):
        x = LEFT + (WIDTH - LEFT - RIGHT) * (time - times[0]) / last
        return f"{x:.1f},{y + HEIGHT - HEIGHT * value / largest:.1f}"

    points = " ".join(map(point, times, values))
    parts = [f'<text class="head" x="{LEFT}" y="{y - 8}">{escape(name)}</text>']
    for share in (0, 0.5, 1):
        at = y + HEIGHT - HEIGHT * share
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{largest * share:.4g}</text>')
    parts.append(f'<polyline points="{points}"/>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{y + HEIGHT + 16}" text-anchor="end">{times[-1]} min</text>')
    return parts


def render(columns, rows, names):
    """The named columns over the first one."""
    times, parts, y = [row[0] for row in rows], [], TOP
    for name in names:
        at = columns.index(name)
        parts += chart(name, times, [row[at] for row in rows], y)
        y += HEIGHT + GAP
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">\n'
            f"<title>An hour under load</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n")
