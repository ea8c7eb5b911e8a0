"""All rows, in the order they are shown."""

import loops
import processes
import profiles
import programs
import symbols

ROWS = (*loops.ROWS, *programs.ROWS, *processes.ROWS, *profiles.ROWS, *symbols.ROWS)
