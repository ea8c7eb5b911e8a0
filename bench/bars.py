"""What must hold: the one table of limits. Nothing else in the bench decides a verdict.

A row's figure is met where it is at most its limit. The figures:
  added     cost added (with mallograph - native) as a part of what heaptrack adds
  slowdown  wall time, of the whole command or of one child, as a multiple of the native one
  growth    cost added with 4 threads as a multiple of what 1 thread adds
  part      the whole command's wall time as a part of heaptrack's, with symbols as ours
  symbolizer    the time it takes as a part of llvm-symbolizer's
  sections  memory as a multiple of the debug information read
  milliseconds, seconds, megabytes, percent
            as they are, of mallograph alone
"""

# Row: ((figure, limit), ...)
BARS = {
    "pair-5": (("added", 1 / 10),),
    "pair-30": (("added", 1 / 12),),
    "pair-100": (("added", 1 / 10),),
    "pair-30-2-threads": (("added", 1 / 14),),
    "pair-30-4-threads": (("growth", 1.1),),
    "alternate-100": (("added", 1 / 10),),
    "replace": (("added", 1 / 2),),
    "jq": (("slowdown", 1.20),),
    "python": (("slowdown", 1.20),),
    "sqlite3": (("slowdown", 1.20),),
    "cc1plus": (("slowdown", 1.45),),
    "clang": (("slowdown", 1.45),),
    "process-exit": (("slowdown", 1.20),),
    "process-fork": (("slowdown", 1.50),),
    "process-vfork": (("slowdown", 1.50),),
    "process-spawn": (("slowdown", 1.50),),
    "processes-session": (("seconds", 2), ("megabytes", 100)),
    "true": (("milliseconds", 100), ("part", 1 / 2)),
    "profile-write": (("seconds", 3),),
    "profile-end": (("seconds", 3),),
    "profile-peak": (("seconds", 1), ("megabytes", 500)),
    "profile-live": (("seconds", 1), ("megabytes", 500)),
    "profile-tree": (("seconds", 1), ("megabytes", 500)),
    "profile-tree-up": (("seconds", 1), ("megabytes", 500)),
    "profile-json": (("seconds", 1), ("megabytes", 500)),
    "profile-hist": (("seconds", 1), ("megabytes", 500)),
    "profile-blocks": (("seconds", 1), ("megabytes", 500)),
    "profile-info": (("seconds", 1), ("megabytes", 500)),
    "symbols-cold": (("symbolizer", 1), ("sections", 1.5)),
    "symbols-warm": (("symbolizer", 1 / 10),),
    "cc1plus-end-cold": (("seconds", 1),),
    "cc1plus-end-warm": (("seconds", 1),),
    "profile-growth": (("percent", 5),),
    "profile-growth-real": (("percent", 5),),
}


def added(medians, name):
    return medians[name][0] - medians["native"][0]


def growth(medians):
    four, one = (medians["mallograph"][i] - medians["native"][i] for i in (0, 1))
    return four / one


FIGURES = {
    "added": lambda medians: added(medians, "mallograph") / added(medians, "heaptrack"),
    "slowdown": lambda medians: medians["mallograph"][0] / medians["native"][0],
    "growth": growth,
    "part": lambda medians: medians["mallograph"][0] / medians["ht+symbols"][0],
    "symbolizer": lambda medians: medians["mallograph"][0] / medians["llvm-symb."][0],
    "sections": lambda medians: medians["mallograph"][1],
    "milliseconds": lambda medians: medians["mallograph"][0],
    "seconds": lambda medians: medians["mallograph"][0],
    "megabytes": lambda medians: medians["mallograph"][1],
    "percent": lambda medians: medians["mallograph"][0],
}


def judge(name, medians):
    """[{figure, value, limit, met}] of a row; value and met are None where a peer is missing."""
    verdicts = []
    for figure, limit in BARS.get(name, ()):
        try:
            value = FIGURES[figure](medians)
            met = value <= limit
        except (KeyError, ZeroDivisionError):
            value = met = None
        verdicts.append({"figure": figure, "value": value, "limit": limit, "met": met})
    return verdicts
