#include <stdlib.h>

int answer(void);

/* 42, by way of the heap. */
int answer(void)
{
	int *volatile p = malloc(sizeof(*p));
	int ret;

	if (!p)
		return -3;
	*p = 42;
	ret = *p;
	free(p);
	return ret;
}
