/* Which of the agent's system calls are refused; see agent_faults.h. */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "agent_faults.h"

static _Atomic uint64_t done;
static _Atomic bool was_told;

/* The program may take it out of its environment; it stays where the kernel put it. */
static const char *wanted(void)
{
	static const char *found;

	for (char **at = environ; !found && at && *at; at++)
		if (strncmp(*at, "FAULT_AGENT=", 12) == 0)
			found = *at + 12;
	return found;
}

bool fault_refused(const char *name)
{
	static const char told[] = "fault: refused\n";
	const char *want = wanted();
	size_t length = strlen(name);
	uint64_t first = 0;

	if (!want || strncmp(want, name, length) != 0 || want[length] != ':')
		return false;
	for (want += length + 1; *want >= '0' && *want <= '9'; want++)
		first = first * 10 + (uint64_t)(*want - '0');
	uint64_t now = atomic_fetch_add(&done, 1) + 1;

	if (now < first || (now > first && *want != '+'))
		return false;
	if (!atomic_exchange(&was_told, true))
		(sys_call3)(SYS_write, 2, (long)told, sizeof(told) - 1);
	return true;
}
