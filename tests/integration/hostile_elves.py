"""ELF files that mean harm to whoever reads their debug information: CASES, by name."""

import struct

from elf_writer import *  # noqa: F403

START, SIZE = 0x1000, 0x10000
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def unit_with(children, version=4, **attributes):
    """A unit of C++ that has the whole text, and its line table."""
    unit = Unit(version)
    unit.die(DW_TAG_compile_unit, {
        DW_AT_name: string("a.cpp"), DW_AT_low_pc: addr(START), DW_AT_high_pc: data4(SIZE),
        DW_AT_language: data1(DW_LANG_C_plus_plus_11), DW_AT_stmt_list: offset(0),
        **attributes}, children)
    return unit


def function(name, more=(), low=START, size=SIZE):
    return {DW_AT_name: string(name), DW_AT_low_pc: addr(low), DW_AT_high_pc: data4(size),
            **dict(more)}


def lines(count=200):
    return line_program(set_address(START) + bytes([10 + 5 + 14]) * count + END_SEQUENCE)


def elf(units, compress=False, **sections):
    made = Elf()
    made.text(START, SIZE)
    made.symbols([("by_symbol", START, SIZE)])
    made.debug(units, compress, **{"line": lines(), **sections})
    return made.bytes()


@case
def sane():
    return elf([unit_with([
        (DW_TAG_subprogram, {DW_AT_name: string("inner"), DW_AT_inline: data1(3)}, None, "inner"),
        (DW_TAG_subprogram, function("outer"), [
            (DW_TAG_inlined_subroutine, {
                DW_AT_abstract_origin: ref("inner"), DW_AT_low_pc: addr(START),
                DW_AT_high_pc: data4(0x10), DW_AT_call_file: data1(1), DW_AT_call_line: data1(7)}),
        ]),
    ])])


@case
def origins_in_a_circle():
    """Three DIEs, each named by the next."""
    return elf([unit_with([
        (DW_TAG_subprogram, {DW_AT_low_pc: addr(START), DW_AT_high_pc: data4(SIZE),
                             DW_AT_abstract_origin: ref("b")}, None, "a"),
        (DW_TAG_subprogram, {DW_AT_specification: ref("c")}, None, "b"),
        (DW_TAG_subprogram, {DW_AT_abstract_origin: ref("a")}, None, "c"),
    ])])


@case
def origins_without_end():
    """A chain of 100,000."""
    count = 100_000
    dies = [(DW_TAG_subprogram, {DW_AT_abstract_origin: ref(i + 1)}, None, i) for i in range(count)]
    dies.append((DW_TAG_subprogram, {DW_AT_name: string("last")}, None, count))
    dies.append((DW_TAG_subprogram, {DW_AT_low_pc: addr(START), DW_AT_high_pc: data4(SIZE),
                                     DW_AT_abstract_origin: ref(0)}))
    return elf([unit_with(dies)])


@case
def sibling_that_is_itself():
    return elf([unit_with([
        (DW_TAG_subprogram, function("f", {DW_AT_sibling: ref("f")}.items()), [], "f"),
    ])])


@case
def sibling_that_is_before():
    return elf([unit_with([
        (DW_TAG_subprogram, function("first", size=1), None, "first"),
        (DW_TAG_subprogram, function("second", {DW_AT_sibling: ref("first")}.items()), []),
    ])])


@case
def sibling_that_is_the_parent():
    """Each child has the whole unit for its child's sibling."""
    unit = Unit()
    unit.die(DW_TAG_compile_unit, {
        DW_AT_name: string("a.cpp"), DW_AT_low_pc: addr(START), DW_AT_high_pc: data4(SIZE)}, [
            (DW_TAG_namespace, {DW_AT_name: string("n"), DW_AT_sibling: ref("unit")}, [
                (DW_TAG_subprogram, function("f", {DW_AT_sibling: ref("unit")}.items()), [])])],
        "unit")
    return elf([unit])


@case
def scopes_without_end():
    """Blocks in blocks, 200,000 deep, never closed."""
    unit = unit_with([])
    unit.die(DW_TAG_subprogram, function("f"), lambda: None, "f")
    del unit.body[-1:]
    block = bytearray()
    unit.die(DW_TAG_lexical_block, {}, lambda: None)
    block += unit.body[-2:-1]
    del unit.body[-2:]
    unit.body += bytes(block) * 200_000
    return elf([unit])


@case
def namespaces_without_end():
    unit = unit_with([])
    del unit.body[-1:]
    unit.die(DW_TAG_namespace, {DW_AT_name: string("n")}, lambda: None)
    one = bytes(unit.body[-4:-1])
    del unit.body[-4:]
    unit.body += one * 100_000
    unit.die(DW_TAG_subprogram, function("f"))
    return elf([unit])


@case
def inlined_without_end():
    """Calls inlined into each other, 5,000 deep, all around the same address."""
    unit = unit_with([])
    del unit.body[-1:]
    unit.die(DW_TAG_subprogram, {DW_AT_name: string("g"), DW_AT_inline: data1(3)}, None, "g")
    unit.die(DW_TAG_subprogram, function("f"), lambda: None)
    del unit.body[-1:]
    for _ in range(5000):
        unit.die(DW_TAG_inlined_subroutine, {
            DW_AT_abstract_origin: ref("g"), DW_AT_low_pc: addr(START),
            DW_AT_high_pc: data4(SIZE)}, lambda: None)
        del unit.body[-1:]
    return elf([unit])


def range_list(count):
    """Version 4's: all the same, all of the text."""
    return struct.pack("<QQ", START, START + SIZE) * count + b"\0" * 16


@case
def ranges_shared():
    """2,000 functions that have a list of 60,000 ranges together."""
    many = {DW_AT_name: string("f"), DW_AT_ranges: offset(0)}
    return elf([unit_with([(DW_TAG_subprogram, many)] * 2000)], ranges=range_list(60_000))


@case
def inlined_ranges_shared():
    many = {DW_AT_name: string("g"), DW_AT_ranges: offset(0)}
    return elf([unit_with([(DW_TAG_subprogram, function("f"),
                            [(DW_TAG_inlined_subroutine, many)] * 2000)])],
               ranges=range_list(60_000))


@case
def ranges_without_end():
    return elf([unit_with([(DW_TAG_subprogram, {DW_AT_name: string("f"), DW_AT_ranges: offset(0)})])],
               ranges=struct.pack("<QQ", 1, 2) * 500_000)


@case
def units_all_over():
    """3,000 units that each claim the whole text, and have no function there."""
    units = [unit_with([(DW_TAG_subprogram, function("f", low=START + SIZE, size=1))])
             for _ in range(3000)]
    return elf(units, line=lines(5000))


@case
def functions_all_over():
    """50,000 functions around every address but the ones asked for."""
    dies = [(DW_TAG_subprogram, function("f", low=START - 50_000 + i, size=50_000 - i))
            for i in range(50_000)]
    return elf([unit_with(dies)])


@case
def attributes_without_end():
    """An abbreviation of 20,000 attributes that take no room, for 300 DIEs."""
    unit = unit_with([])
    del unit.body[-1:]
    present = 0x19  # DW_FORM_flag_present
    die = {0x2000 + i: (present, b"") for i in range(20_000)}
    for _ in range(300):
        unit.die(DW_TAG_subprogram, die)
    return elf([unit])


@case
def forms_in_forms():
    """DW_FORM_indirect whose form is DW_FORM_indirect, and so on."""
    unit = unit_with([])
    del unit.body[-1:]
    unit.die(DW_TAG_subprogram, {DW_AT_name: (DW_FORM_indirect, bytes([DW_FORM_indirect]) * 1_000_000)})
    return elf([unit])


@case
def strings_outside():
    """Offsets past the strings, and strings without an end."""
    far = {DW_AT_low_pc: addr(START), DW_AT_high_pc: data4(SIZE), DW_AT_linkage_name: strp(7)}
    return elf([unit_with([(DW_TAG_subprogram, {**far, DW_AT_name: strp(0xfffffff0)})])],
               str=b"_Z" * 20)


@case
def names_of_a_megabyte():
    name = "n" * 1_000_000
    return elf([unit_with([(DW_TAG_subprogram, function(name, low=START + i, size=1))
                           for i in range(20)])])


@case
def units_cut_short():
    whole = unit_with([(DW_TAG_subprogram, function("f"))])
    abbrevs = whole.abbrev()
    lengths = [0, 1, 7, 11, 12, 0x7fffffff, 0xfffffff0, 0xffffffff]
    return elf([b"".join(whole.info(0, length) for length in lengths)], abbrev=abbrevs)


@case
def abbreviations_cut_short():
    made = unit_with([(DW_TAG_subprogram, function("f"))])
    return elf([made.info(0)], abbrev=made.abbrev()[:20])


@case
def abbreviation_far_away():
    made = unit_with([(DW_TAG_subprogram, function("f"))])
    return elf([made.info(0xfffffff0)], abbrev=made.abbrev())


@case
def lines_divided_by_nothing():
    program = line_program(set_address(START) + b"\x40" * 100 + END_SEQUENCE, line_range=0)
    return elf([unit_with([(DW_TAG_subprogram, function("f"))])], line=program)


@case
def lines_without_opcodes():
    program = line_program(b"\1\2\3\4" * 100, opcode_base=0)
    return elf([unit_with([(DW_TAG_subprogram, function("f"))])], line=program)


@case
def lines_without_end():
    """Two million rows, unsorted, of one byte each."""
    program = line_program(set_address(START) + bytes([10 + 5]) * 2_000_000 + END_SEQUENCE)
    return elf([unit_with([(DW_TAG_subprogram, function("f"))])], line=program)


@case
def lines_shared():
    """500 units that each have the same 100,000 lines."""
    units = []
    for i in range(500):
        unit = Unit()
        unit.die(DW_TAG_compile_unit, {
            DW_AT_name: string("a.cpp"), DW_AT_low_pc: addr(START + i * 16), DW_AT_high_pc: data4(16),
            DW_AT_stmt_list: offset(0)}, [
                (DW_TAG_subprogram, function("f", low=START + i * 16, size=16))])
        units.append(unit)
    return elf(units, line=lines(100_000))


def tables(directories, files):
    """Version 5's: so many entries that take no room."""
    empty = b"\0"  # no format, so no bytes an entry
    return empty + uleb(directories) + empty + uleb(files)


@case
def files_without_names():
    program = line_program(set_address(START) + b"\x40" * 100 + END_SEQUENCE, version=5,
                           dirs=tables(0xffffffff, 0xffffffff))
    return elf([unit_with([(DW_TAG_subprogram, function("f"))], version=4)], line=program)


@case
def files_without_end():
    """Version 4's names of one byte, a million of them."""
    program = line_program(set_address(START) + b"\x40" * 100 + END_SEQUENCE,
                           files=b"a\0\0\0\0" * 1_000_000)
    return elf([unit_with([(DW_TAG_subprogram, function("f"))])], line=program)


@case
def sections_that_expand():
    """Honestly compressed: more than a GB out of a few MB."""
    huge = bytes(300 << 20)
    return elf([unit_with([(DW_TAG_subprogram, function("f"))])], compress=True,
               str=huge, ranges=huge, line_str=huge, rnglists=huge)


@case
def symbols_all_over():
    made = Elf()
    made.text(START, SIZE)
    made.symbols([("s", START - 60_000 + i, 60_000 - i) for i in range(60_000)] +
                 [("s" * 700, START, SIZE)])
    return made.bytes()


@case
def symbols_of_no_size():
    made = Elf()
    made.text(START, SIZE)
    made.add(".symtab", b"\xff" * 24 * 1000, SHT_SYMTAB, link=99, info=0xffffffff, entry=0)
    made.add(".dynsym", b"\xff" * 1000, 11, link=2, info=7, entry=1)
    return made.bytes()
