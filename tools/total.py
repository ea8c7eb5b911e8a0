"""Add up JUnit files and print one line; fail unless everything passed.

A part that left no file, or a file without a single test, is one failure: its runner
died before it could say so itself.
"""

import sys
import xml.etree.ElementTree as ElementTree


def count(path):
    try:
        cases = list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        cases = []
    if not cases:
        return 0, 1, 0
    bad = sum(c.find("failure") is not None or c.find("error") is not None for c in cases)
    skipped = sum(c.find("skipped") is not None for c in cases)
    return len(cases) - bad - skipped, bad, skipped


def main():
    passed, failed, skipped = (sum(n) for n in zip(*(count(path) for path in sys.argv[1:])))
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed", flush=True)
    return failed > 0


sys.exit(main())
