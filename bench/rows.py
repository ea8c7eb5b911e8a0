"""All rows, in the order they are shown."""

import loops
import profiles
import programs

ROWS = (*loops.ROWS, *programs.ROWS, *profiles.ROWS)
