/*
 * insn_lengths < LINES: instructions as `objdump -d -w` prints them, ADDRESS: TAB bytes TAB
 * words, by the agent's own reading. Says how many were read, and those whose length is another
 * (`wrong LINE`) or that are not known (`unknown LINE`).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/insn.h"

static size_t bytes_of(const char *at, uint8_t bytes[INSN_MOST])
{
	size_t count = 0;

	while (count < INSN_MOST) {
		char *end;
		unsigned long byte = strtoul(at, &end, 16);

		if (end == at || (*end != ' ' && *end != '\t' && *end != '\n'))
			break;
		bytes[count++] = (uint8_t)byte;
		at = end;
		if (*at == '\t' || at[1] == '\t' || at[1] == ' ')
			break;
	}
	return count;
}

int main(void)
{
	char line[4096];
	unsigned long read = 0;

	while (fgets(line, sizeof(line), stdin)) {
		const char *tab = strchr(line, '\t');
		/* What comes after must not matter. */
		uint8_t bytes[2 * INSN_MOST] = {0};
		size_t count = tab ? bytes_of(tab + 1, bytes) : 0;
		struct insn insn;

		if (count == 0)
			continue;
		read++;
		if (!insn_read(bytes, sizeof(bytes), &insn))
			printf("unknown %s", line);
		else if (insn.bytes != count)
			printf("wrong %s", line);
	}
	printf("read %lu\n", read);
	return 0;
}
