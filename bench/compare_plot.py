"""The plot of bench/compare: each ratio that was aimed at as a bar, on a logarithmic scale, with a mark where the target is."""
import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, TOP = 900, 430, 90, 22, 54
STYLE = """<style>
text { font: 12px sans-serif; fill: #3d444d; } .title { font-size: 14px; font-weight: bold; }
.reached { fill: #2da44e; } .missed { fill: #bf8700; } .target { stroke: #cf222e; stroke-width: 2; } .grid { stroke: #8c959f; stroke-opacity: .35; }
@media (prefers-color-scheme: dark) { text { fill: #d1d7e0; } .target { stroke: #ff7b72; } }
</style>"""


def drawing(rows):
    """SVG of compare_table.target_rows. Of memory it shows how many times less we need, so that longer is better throughout."""
    bars = []
    for row in rows:
        if row.measured is None:
            continue
        value, target = (1 / row.measured, 1 / row.target) if row.less else (row.measured, row.target)
        what = "memory while reading small4k, times less" if row.less else row.what
        bars.append((f"{what} / {row.peer}", value, target))
    top = max([value for _, value, _ in bars] + [target for _, _, target in bars] + [10])
    decades = math.ceil(math.log10(top))
    scale = (WIDTH - LEFT - RIGHT) / decades
    place = lambda ratio: LEFT + scale * max(0.0, math.log10(ratio))
    height = TOP + ROW * len(bars) + 28
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">', STYLE,
           '<text class="title" x="10" y="20">Shardkit, times as fast as others</text>',
           f'<text x="{LEFT}" y="20">measured in one run; red marks: what was aimed at</text>']
    for decade in range(decades + 1):
        x = place(10**decade)
        out.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{TOP + ROW * len(bars)}"/>')
        out.append(f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle">{10**decade} x</text>')
    for i, (label, value, target) in enumerate(bars):
        y = TOP + ROW * i
        end = max(place(value), LEFT + 2)
        out.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(label)}</text>')
        out.append(f'<rect class="{"reached" if value >= target else "missed"}" x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="16" rx="2"/>')
        out.append(f'<line class="target" x1="{place(target):.1f}" x2="{place(target):.1f}" y1="{y - 2}" y2="{y + 18}"/>')
        x = max(end, place(target)) + 6
        out.append(f'<text x="{x:.1f}" y="{y + 12}">{value:.1f} x</text>' if value < 20 else f'<text x="{x:.1f}" y="{y + 12}">{value:.0f} x</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
