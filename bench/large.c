/* large FILE: the profile tests/unit/large_profile.c makes. Prints the seconds it took. */
#include <stdio.h>
#include <time.h>

#include "large_profile.h"

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	double start = now();

	if (argc != 2) {
		fprintf(stderr, "usage: large FILE\n");
		return 2;
	}
	struct error *error = large_profile_write(argv[1]);

	if (error) {
		fprintf(stderr, "large: %s\n", error->message);
		return 1;
	}
	printf("%.3f\n", now() - start);
	return 0;
}
