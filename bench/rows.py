"""All rows, in the order they are shown."""

import loops
import profiles
import programs
import symbols

ROWS = (*loops.ROWS, *programs.ROWS, *profiles.ROWS, *symbols.ROWS)
