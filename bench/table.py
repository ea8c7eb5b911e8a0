"""The bench's lines for people: 80 columns, one line a bar."""

def number(value):
    """Three digits that mean something, and no exponent."""
    if value is None:
        return "-"
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def ratio(value, figure):
    """1/12.0 for a part of something; x 1.20 for a multiple; plain otherwise."""
    if value is None:
        return "-"
    if figure in ("added", "part", "symbolizer"):
        return f"1/{1 / value:.3g}" if 0 < value < 1 else f"{value:.2f}"
    if figure in ("slowdown", "growth"):
        return f"x {value:.2f}"
    return number(value)


def head():
    return (f"{'work':28} {'native':>9} {'mallograph':>10} {'heaptrack':>9}"
            f" {'figure':>7} {'at most':>7}")


def added(row, name, column=0):
    medians = row["medians"]
    if name not in medians:
        return "-"
    if "native" not in medians:
        return number(medians[name][column])
    more = medians[name][column] - medians["native"][column]
    return f"{'+' if more >= 0 else ''}{number(more)}"


def measured(row, title, column=0):
    """What a line begins with: native as it is, what the others add to it."""
    native = row["medians"].get("native")
    shown = f"{number(native[column])} {row['unit']}" if native else "-"
    return (f"{title[:28]:28} {shown:>9} {added(row, 'mallograph', column):>10}"
            f" {added(row, 'heaptrack', column):>9}")


def lines(row):
    """A row's lines: one a bar, or one without; the CPU time of what has that too."""
    start = measured(row, row["title"])
    if not row["verdicts"]:
        yield start
    for verdict in row["verdicts"]:
        figure = verdict["figure"]
        word = {True: "met", False: "MISSED", None: "-"}[verdict["met"]]
        yield (f"{start} {ratio(verdict['value'], figure):>7} {ratio(verdict['limit'], figure):>7}"
               f" {word}")
        start = " " * len(start)
    if any("CPU" in column for column in row["columns"]) and "native" in row["medians"]:
        yield measured(row, "  CPU, all its processes", 1) + f" {cpu_ratio(row['medians']):>7}"
    for name, reason in row["failed"].items():
        yield f"  {name}: {reason}"[:80]


def cpu_ratio(medians):
    if "mallograph" not in medians:
        return "-"
    return ratio(medians["mallograph"][1] / medians["native"][1], "slowdown")


def others(rows, names):
    """What the other peers add, a column each; as many columns as fit, then more lines."""
    for first in range(0, len(names), 4):
        some = names[first:first + 4]
        yield f"\n{'added by':28}" + "".join(f" {name[:12]:>12}" for name in some)
        for row in rows:
            if any(name in row["medians"] for name in some):
                yield (f"{row['title'][:28]:28}"
                       + "".join(f" {added(row, name):>12}" for name in some))
