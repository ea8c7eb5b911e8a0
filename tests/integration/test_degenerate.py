"""Programs that do next to nothing, or one thing only: every view of each is there and right."""

import re

import pytest

SOURCE = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
static void *keep[5000];
static __attribute__((noinline)) void *work(size_t n)
{
	void *p = malloc(n);
	__asm__ volatile("" : "+r"(p));
	return p;
}
static void *thread(void *kept)
{
	for (int i = 0; i < 100; i++)
		free(work(100));
	*(void **)kept = work(10);
	return NULL;
}
int main(int argc, char **argv)
{
	static pthread_t threads[1000];
	pthread_attr_t small;
	(void)argc;
	if (strcmp(argv[1], "one") == 0)
		for (int i = 0; i < 5000; i++)
			keep[i] = work(64);
	if (strcmp(argv[1], "huge") == 0)
		keep[0] = work((size_t)1 << 30);
	if (strcmp(argv[1], "refused") == 0)
		keep[0] = work((size_t)1 << 62);
	if (strcmp(argv[1], "zero") == 0)
		for (int i = 0; i < 1000; i++)
			keep[i] = work(0);
	if (strcmp(argv[1], "threads") == 0) {
		pthread_attr_init(&small);
		pthread_attr_setstacksize(&small, 65536);
		for (int i = 0; i < 1000; i++)
			if (pthread_create(&threads[i], &small, thread, &keep[i]))
				return 9;
		for (int i = 0; i < 1000; i++)
			pthread_join(threads[i], NULL);
	}
	return 0;
}
"""

# What the head says, and what of the rest must be there.
WANTED = {
    "none": [
        r"^ +pid \d+, exit 0, .*, 1 thread, complete$",
        r"^  PEAK +0 B  in 0 blocks",
        r"^  AT END +0 B  in 0 blocks$",
        r"^  ALLOCATED  0 times, 0 B$",
    ],
    "one": [
        r"^  PEAK +313 KiB  at .* in 5,000 blocks",
        r"^  All of the peak was allocated by work \(degenerate\)\.$",
        r"^ +32 \| +0\n +64 \|@{40} 5,000\n +128 \| +0$",
    ],
    "huge": [
        r"^  PEAK +1\.0 GiB  at .* in 1 block ",
        r"^  AT END +1\.0 GiB  in 1 block$",
        r"^ +1073741824 \|@{40} 1$",
    ],
    "refused": [r"^  ALLOCATED  0 times, 0 B; 1 failed$"],
    "zero": [
        r"^  AT END +0 B  in 1,000 blocks$",
        r"^ALLOCATIONS BY SITE$",
        r"^ +0 \|@{40} 1,000\n +1 \| +0$",
    ],
    "threads": [
        r"^ +pid \d+, exit 0, .*, 1,001 threads, complete$",
        r"^  ALLOCATED  10\d,\d\d\d times, ",
        r"^ +64 \|@{39}  100,000$",
        r"work < thread",
    ],
}

VIEWS = [
    ["report"], ["report", "--summary"], ["report", "--live"], ["report", "--temporary"],
    ["report", "--tree"], ["report", "--tree=bottom-up"], ["report", "--json"], ["blocks"],
    ["hist"], ["hist", "--bytes"], ["hist", "--by", "thread"], ["hist", "--by", "stack"],
    ["hist", "--lquantize", "0:1K:64"], ["info"],
]  # fmt: skip


@pytest.mark.parametrize("what", WANTED)
def test_every_view_is_right(run, cc, what):
    program = cc("degenerate", SOURCE, "-O1", "-pthread")
    text = run("-o", "x.mgp", program, what, text=True).stderr
    assert max(map(len, text.splitlines())) <= max(80, len(f"mallograph: {program} {what}"))
    for pattern in WANTED[what]:
        assert re.search(pattern, text, re.M), pattern
    for view in VIEWS:
        result = run(*view, text=True)
        assert (result.returncode, result.stderr) == (0, ""), view
        assert result.stdout, view
        assert not re.search(r"\bnan\b|\binf\b|-\d+ (?:B|blocks?)\b|\(null\)", result.stdout), view
