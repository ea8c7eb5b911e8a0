"""Writes ELF files with debug information, wrong in whatever way a test wants.

    unit = Unit(version=5)
    unit.die(DW_TAG_compile_unit, {DW_AT_name: string("a.c"), DW_AT_low_pc: addr(0x1000)}, [...])
    elf = Elf(); elf.text(0x1000, 4096); elf.debug(units=[unit]); data = elf.bytes()

A DIE's attributes are (form, bytes) pairs, so that any bytes can stand anywhere; a reference
to a DIE is ref(name), where name= was given to that DIE, and is filled in at the end.
"""

import functools
import struct
import zlib

DW_TAG_lexical_block, DW_TAG_compile_unit = 0x0b, 0x11
DW_TAG_inlined_subroutine, DW_TAG_subprogram, DW_TAG_namespace = 0x1d, 0x2e, 0x39
DW_AT_sibling, DW_AT_name, DW_AT_stmt_list, DW_AT_low_pc, DW_AT_high_pc = 0x01, 0x03, 0x10, 0x11, 0x12
DW_AT_language, DW_AT_inline, DW_AT_abstract_origin, DW_AT_specification = 0x13, 0x20, 0x31, 0x47
DW_AT_ranges, DW_AT_call_file, DW_AT_call_line, DW_AT_linkage_name = 0x55, 0x58, 0x59, 0x6e
DW_FORM_addr, DW_FORM_data4, DW_FORM_data8, DW_FORM_string = 0x01, 0x06, 0x07, 0x08
DW_FORM_data1, DW_FORM_strp, DW_FORM_ref4, DW_FORM_indirect, DW_FORM_sec_offset = 0x0b, 0x0e, 0x13, 0x16, 0x17
DW_LANG_C_plus_plus_11, DW_LANG_C99 = 0x1a, 0x0c

SHT_PROGBITS, SHT_SYMTAB, SHT_STRTAB, SHT_NOTE = 1, 2, 3, 7
SHF_ALLOC, SHF_EXECINSTR, SHF_COMPRESSED = 2, 4, 0x800


def u32(value):
    return struct.pack("<I", value & 0xffffffff)


def u64(value):
    return struct.pack("<Q", value & 0xffffffffffffffff)


def uleb(value):
    out = bytearray()
    while True:
        byte, value = value & 0x7f, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def addr(value):
    return DW_FORM_addr, u64(value)


def data4(value):
    return DW_FORM_data4, u32(value)


def data1(value):
    return DW_FORM_data1, bytes([value])


def string(text):
    return DW_FORM_string, text.encode() + b"\0"


def strp(offset):
    return DW_FORM_strp, u32(offset)


def offset(value):
    return DW_FORM_sec_offset, u32(value)


def ref(name):
    return DW_FORM_ref4, name


class Unit:
    """A unit's bytes, its abbreviations beside it."""

    def __init__(self, version=4):
        self.version = version
        self.abbrevs = {}
        self.body = bytearray()
        self.places, self.references = {}, []
        self.head = 12 if version >= 5 else 11

    def die(self, tag, attributes, children=None, name=None):
        """children: None, or a list of argument tuples of die(), or a function that makes them."""
        key = (tag, children is not None, tuple((at, form) for at, (form, _) in attributes.items()))
        code = self.abbrevs.setdefault(key, len(self.abbrevs) + 1)
        if name is not None:
            self.places[name] = self.head + len(self.body)
        self.body += uleb(code)
        for form, value in attributes.values():
            if isinstance(value, bytes):
                self.body += value
            else:
                self.references.append((len(self.body), value))
                self.body += b"\0\0\0\0"
        if callable(children):
            children()
        for child in children if isinstance(children, list) else ():
            self.die(*child)
        if children is not None:
            self.body += b"\0"

    def abbrev(self):
        out = b"".join(
            uleb(code) + uleb(tag) + bytes([has_children])
            + b"".join(uleb(at) + uleb(form) for at, form in attributes) + b"\0\0"
            for (tag, has_children, attributes), code in self.abbrevs.items())
        return out + b"\0"

    def info(self, abbrev_offset, length=None):
        for at, name in self.references:
            place = name if isinstance(name, int) else self.places[name]
            self.body[at:at + 4] = u32(place)
        head = struct.pack("<H", self.version)
        head += b"\1\x08" + u32(abbrev_offset) if self.version >= 5 else u32(abbrev_offset) + b"\x08"
        content = head + bytes(self.body)
        return u32(len(content) if length is None else length) + content


def line_program(opcodes, version=4, files=b"a.c\0\0\0\0", line_range=14, opcode_base=10,
                 dirs=b""):
    """A line table's bytes; of version 5 the tables of directories and files are `dirs`."""
    lengths = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1])[:max(0, opcode_base - 1)]
    fields = struct.pack("<BBBbBB", 1, 1, 1, -5, line_range, opcode_base)
    tables = dirs if version >= 5 else b"\0" + files + b"\0"
    after = fields + lengths + tables
    content = struct.pack("<H", version) + (b"\x08\0" if version >= 5 else b"")
    content += u32(len(after)) + after + opcodes
    return u32(len(content)) + content


def set_address(value):
    return b"\0\x09\2" + u64(value)


END_SEQUENCE = b"\0\1\1"


@functools.cache
def compressed(data):
    return struct.pack("<IIQQ", 1, 0, len(data), 1) + zlib.compress(data, 1)


class Elf:
    def __init__(self):
        self.sections = [("", b"", 0, 0, 0, 0, 0, 0)]

    def add(self, name, data, kind=SHT_PROGBITS, flags=0, address=0, link=0, info=0, entry=0):
        self.sections.append((name, data, kind, flags, address, link, info, entry))

    def text(self, address, size):
        self.add(".text", bytes(size), flags=SHF_ALLOC | SHF_EXECINSTR, address=address)

    def symbols(self, functions):
        """(name, address, size) each."""
        names, table = bytearray(1), bytearray(24)
        for name, address, size in functions:
            table += struct.pack("<IBBH", len(names), 0x12, 0, 1) + u64(address) + u64(size)
            names += name.encode() + b"\0"
        self.add(".symtab", table, SHT_SYMTAB, link=len(self.sections) + 1, info=1, entry=24)
        self.add(".strtab", names, SHT_STRTAB)

    def debug(self, units, compress=False, **others):
        """.debug_info and .debug_abbrev of units, and other sections by name: line=, str=…"""
        info, abbrev = b"", b""
        for unit in units:
            info += unit.info(len(abbrev)) if isinstance(unit, Unit) else unit
            abbrev += unit.abbrev() if isinstance(unit, Unit) else b""
        for name, data in {"info": info, "abbrev": abbrev, **others}.items():
            if compress:
                self.add(f".debug_{name}", compressed(data), flags=SHF_COMPRESSED)
            else:
                self.add(f".debug_{name}", data)

    def bytes(self):
        names = b"\0"
        at = 64 + 56
        headers, contents = b"", b""
        self.add(".shstrtab", b"", SHT_STRTAB)
        for name, *_ in self.sections[1:]:
            names += name.encode() + b"\0"
        place = 1
        for name, data, kind, flags, address, link, info, entry in self.sections:
            if name == ".shstrtab":
                data = names
            headers += struct.pack("<IIQQQQIIQQ", place if name else 0, kind, flags, address,
                                   at if name else 0, len(data), link, info, 1, entry)
            place += len(name) + 1 if name else 0
            contents += data
            at += len(data)
        head = b"\x7fELF\2\1\1" + b"\0" * 9 + struct.pack(
            "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, at, 0, 64, 56, 1, 64, len(self.sections),
            len(self.sections) - 1)
        low = min((s[4] for s in self.sections if s[3] & SHF_ALLOC), default=0)
        high = max((s[4] + len(s[1]) for s in self.sections if s[3] & SHF_ALLOC), default=0)
        load = struct.pack("<IIQQQQQQ", 1, 5, 120, low, low, high - low, high - low, 1)
        return head + load + contents + headers
