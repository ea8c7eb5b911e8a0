"""A second reader of ledgers, written from src/ledger/layout.h alone: for what report --json does
not tell (moved blocks, lifetimes, the peak by size class), and to doubt the first one."""

import mmap
import struct

from oracle import function_at

UNIT = 1 << 21
LOSSES = (
    "early_calls nested_calls occupied cut_stacks unshadowed unrecorded mappings_full own_malloc "
    "deepbind dlmopen missed_process abandoned seccomp"
).split()


SUMMED = "allocs frees bytes_in bytes_out temporaries lifetime moved".split()


def class_low(size_class):
    if size_class < 16:
        return size_class
    return (4 + size_class % 4) << ((size_class - 16) // 4 + 2)


class Fields:
    """A struct at a place in the file, fields by name: writable, since the file is shared."""

    LAYOUT = ()

    def __init_subclass__(cls):
        cls.places = {}
        at = 0
        for name, code in cls.LAYOUT:
            if code == "align":
                at = (at + name - 1) // name * name
                continue
            cls.places[name] = (at, "<" + code)
            at += struct.calcsize("<" + code)
        cls.bytes = at

    def __init__(self, data, at):
        self.__dict__.update(data=data, at=at)

    def __getattr__(self, name):
        place, code = self.places[name]
        value = struct.unpack_from(code, self.data, self.at + place)
        return value[0] if len(value) == 1 else value

    def __setattr__(self, name, value):
        place, code = self.places[name]
        struct.pack_into(code, self.data, self.at + place, value)


class Session(Fields):
    LAYOUT = (
        ("magic", "8s"), ("layout_version", "I"), ("flags", "I"), ("writer", "32s"),
        ("unit_bytes", "Q"), ("file_bytes", "Q"), ("start_ns", "Q"), ("start_unix_ns", "Q"),
        ("collector_pid", "i"), ("reserved0", "I"), ("missed_first", "40s"), ("next_unit", "Q"),
        ("populated_bytes", "Q"), ("next_process", "I"), ("missed", "I"),
    )  # fmt: skip


class Extent(Fields):
    LAYOUT = (
        ("magic", "8s"), ("process", "I"), ("kind", "I"), ("units", "I"), ("first_unit", "I"),
        ("granule_shift", "I"),
    )  # fmt: skip


class Process(Fields):
    LAYOUT = (
        ("magic", "8s"), ("serial", "I"), ("parent", "I"), ("how", "I"), ("pid", "i"),
        ("ppid", "i"), ("state", "I"), ("start_ns", "Q"), ("starttime", "Q"),
        ("granule_shift", "I"), ("main_thread", "I"), ("exe", "I"), ("exe_bytes", "I"),
        ("cwd", "I"), ("cwd_bytes", "I"), ("argv", "I"), ("argv_bytes", "I"), ("allocator", "I"),
        ("allocator_bytes", "I"), ("sample_period", "I"), ("waits", "I"), ("slots", "I"),
        ("modules", "I"), ("marks", "I"), ("mappings", "I"), ("slot_count", "I"),
        ("module_count", "I"), ("inert", "I"), ("generation", "I"), ("inert_number", "Q"),
        ("inert_ns", "Q"), ("losses", "16Q"), ("loss_detail", "16Q"), ("mapped_bytes", "Q"),
        ("mapped_peak", "Q"), ("time_seq", "I"), ("time_count", "I"), ("time_blocks", "9I"), ("reserved1", "7I"),
        ("time_gap", "Q"), ("end_kind", "I"), ("end_code", "I"), ("end_ns", "Q"),
        ("rss_peak", "Q"), (64, "align"), ("total", "Q"), ("max", "Q"), ("peak_number", "Q"),
        ("peak_error", "Q"), ("max_error", "Q"), (64, "align"), ("next_number", "Q"), (16, "align"),
        ("missed_name", "176s"),
    )  # fmt: skip


class Module(Fields):
    LAYOUT = (
        ("next", "I"), ("index", "I"), ("start", "Q"), ("stop", "Q"), ("bias", "Q"),
        ("loaded_ns", "Q"), ("unloaded_ns", "Q"), ("path", "I"), ("path_bytes", "I"),
        ("flags", "I"), ("build_id_bytes", "I"),
    )  # fmt: skip


class Node(Fields):
    LAYOUT = (("pc", "Q"), ("parent", "I"), ("where", "I"))


class Slot(Fields):
    LAYOUT = (
        ("next", "I"), ("index", "I"), ("tid", "i"), ("adopted", "I"), ("name", "16s"),
        ("level", "I"), ("rows", "I"), ("op", "Q"), ("unknown_frees", "Q"), ("delta", "q"),
        ("number", "Q"), ("inherited_frees", "Q"), ("reserved", "2Q"), ("calls", "72Q"),
    )  # fmt: skip


class Row(Fields):
    LAYOUT = (
        ("node", "I"), ("size_class", "B"), ("api", "B"), ("heap", "H"), ("slot", "I"),
        ("self", "I"), ("epoch", "Q"), ("allocs", "Q"), ("bytes_in", "Q"), ("frees", "Q"),
        ("bytes_out", "Q"), ("lifetime", "Q"), ("temporaries", "Q"), ("peak_blocks", "q"),
        ("peak_bytes", "q"), ("moved", "Q"), ("foreign_frees", "Q"), ("next", "I"),
    )  # fmt: skip


class ProcessLedger:
    """One process's records."""

    def __init__(self, data, units):
        self.data = data
        self.units = units  # unit of record space -> unit of the file
        self.header = Process(data, units[0] * UNIT + 64)

    def place(self, ref):
        at = ref << 4
        return self.units[at >> 21] * UNIT + at % UNIT

    def chain(self, kind, ref):
        found = []
        while ref:
            found.append(kind(self.data, self.place(ref)))
            ref = found[-1].next
        return found

    def blob(self, ref, size):
        return self.data[self.place(ref) : self.place(ref) + size] if ref else b""

    @property
    def exe(self):
        return self.blob(self.header.exe, self.header.exe_bytes).decode()

    @property
    def slots(self):
        return self.chain(Slot, self.header.slots)

    @property
    def rows(self):
        return [row for slot in self.slots for row in self.chain(Row, slot.rows)]

    @property
    def modules(self):
        return {m.index: m for m in self.chain(Module, self.header.modules)}

    @property
    def losses(self):
        return {name: n for name, n in zip(LOSSES, self.header.losses) if n}

    def function(self, row, modules):
        """The name of a row's innermost function where that lies in the program, else None."""
        node = Node(self.data, self.place(row.node))
        module = modules.get(node.where & 0xFFFFF)
        if module is None or not module.flags & 1:
            return None
        return function_at(self.exe, node.pc - module.bias - 1)

    def by_function(self):
        """{function: {count: sum, "classes": {low: (allocs, peak_blocks, peak_bytes)}}}."""
        modules = self.modules
        found = {}
        for row in self.rows:
            into = found.setdefault(self.function(row, modules), {"classes": {}})
            for key in SUMMED:
                into[key] = into.get(key, 0) + getattr(row, key)
            share = (row.peak_blocks, row.peak_bytes)
            if row.epoch != self.header.max:
                share = (row.allocs - row.frees, row.bytes_in - row.bytes_out)
            old = into["classes"].get(class_low(row.size_class), (0, 0, 0))
            into["classes"][class_low(row.size_class)] = (
                old[0] + row.allocs,
                old[1] + share[0],
                old[2] + share[1],
            )
        return found


class Ledger:
    """A session file. Mapped, so that a test can watch a live one, or change it."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            used = Session(file.read(152), 0).next_unit * UNIT
            file.seek(0, 2)
            self.data = mmap.mmap(file.fileno(), min(used, file.tell()))
        self.session = Session(self.data, 0)
        assert self.session.magic == b"MGLEDGR1"
        units = {}
        self.shadow_units = {}
        unit = 1
        while unit < self.session.next_unit and unit * UNIT < len(self.data):
            extent = Extent(self.data, unit * UNIT)
            if extent.magic != b"MGEXTNT1":
                unit += 1
                continue
            for i in range(extent.units):
                if extent.kind == 1:
                    units.setdefault(extent.process, {})[extent.first_unit + i] = unit + i
                else:
                    self.shadow_units[extent.process] = self.shadow_units.get(extent.process, 0) + 1
            unit += extent.units
        self.processes = [ProcessLedger(self.data, units[serial]) for serial in sorted(units)]

    def of_pid(self, pid):
        found = [p for p in self.processes if p.header.pid == pid]
        assert len(found) == 1, f"{len(found)} ledgers of pid {pid}"
        return found[0]
